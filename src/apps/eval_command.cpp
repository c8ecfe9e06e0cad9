#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/evaluation.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/interrupt.h"
#include "apps/logit_file.h"
#include "apps/logit_stats.h"
#include "apps/model_source.h"
#include "apps/progress_line.h"
#include "apps/report.h"
#include "apps/token_ids.h"

namespace strata::apps {

namespace {

Status check(const Settings& settings) {
  if (settings.text_file.empty() == settings.tokens_file.empty()) {
    return invalid_argument("give the tokens to read as one of --text FILE and --tokens FILE");
  }
  if (settings.plain && settings.text_file.empty()) {
    return invalid_argument("--plain is about the text of --text");
  }
  std::error_code ignored;
  if (!settings.logits_file.empty() && !settings.compare_file.empty() &&
      std::filesystem::equivalent(settings.logits_file, settings.compare_file, ignored)) {
    return invalid_argument("--logits would overwrite the file that --compare reads");
  }
  return {};
}

Result<std::vector<TokenId>> read_tokens(const Settings& settings,
                                         const engine::LoadedModel& loaded) {
  const std::string& path = settings.text_file.empty() ? settings.tokens_file : settings.text_file;
  STRATA_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  auto ids = settings.text_file.empty()
                 ? read_ids(text)
                 : loaded.text->tokenizer().encode(
                       text, settings.plain ? text::Special::kPlain : text::Special::kParse);
  if (!ids.ok()) return ids.status().with_context(path);
  if (ids->empty()) return invalid_argument("{}: there is no text in it", path);
  for (size_t i = 0; i < ids->size(); ++i) {
    if ((*ids)[i] >= loaded.info.vocabulary) {
      return out_of_range("{}: token id {} (number {}) is outside the vocabulary of {}", path,
                          (*ids)[i], i + 1, loaded.info.vocabulary);
    }
  }
  return ids;
}

// What one pass over the tokens gives.
struct Measurement {
  PerplexityMeter perplexity;
  DivergenceMeter divergence;
  int64_t written = 0;  // positions
};

Status measure(const Settings& settings, engine::LoadedModel& loaded,
               std::span<const TokenId> tokens, const EvaluationOptions& options,
               Measurement& out) {
  const auto vocabulary = static_cast<size_t>(loaded.info.vocabulary);
  const auto valid = static_cast<size_t>(loaded.text->valid_tokens());
  std::optional<LogitFile> logits_file, saved_file;
  if (!settings.compare_file.empty()) {
    STRATA_ASSIGN_OR_RETURN(saved_file,
                            LogitFile::open(settings.compare_file, tokens.size() * vocabulary));
  }
  if (!settings.logits_file.empty()) {
    STRATA_ASSIGN_OR_RETURN(logits_file, LogitFile::create(settings.logits_file));
  }
  std::vector<float> saved;
  const auto visit = [&](const LogitChunk& chunk) -> Status {
    const auto row = [&](std::span<const float> rows, size_t i) {
      return rows.subspan(i * vocabulary, valid);
    };
    if (logits_file) STRATA_RETURN_IF_ERROR(logits_file->write(chunk.logits));
    out.written += static_cast<int64_t>(chunk.rows);
    if (saved_file) {
      saved.resize(chunk.rows * vocabulary);
      STRATA_RETURN_IF_ERROR(saved_file->read(saved));
      for (size_t i = 0; i < chunk.rows; ++i) {
        out.divergence.add(row(saved, i), row(chunk.logits, i));
      }
    }
    for (size_t i = 0; i < chunk.next.size(); ++i) {
      const TokenId next = chunk.next[i];
      if (static_cast<size_t>(next) >= valid) continue;  // padding has no probability
      out.perplexity.add(negative_log_likelihood(row(chunk.logits, i), next));
    }
    return {};
  };
  const Status status = evaluate(loaded, tokens, options, visit);
  if (status.code() == StatusCode::kCancelled && logits_file) {
    complain(fmt::format("stopped; {} holds only the first {} of {} positions",
                         settings.logits_file, out.written, tokens.size()));
  }
  STRATA_RETURN_IF_ERROR(status);
  return logits_file ? logits_file->close() : Status();
}

using Json = nlohmann::ordered_json;

std::string report(const Settings& settings, const Json& result) {
  if (settings.json) return result.dump(2) + "\n";
  std::string out;
  if (result.contains("greedy")) {
    out += ids_text(result["greedy"].get<std::vector<TokenId>>()) + "\n";
  }
  if (result.contains("perplexity")) {
    const Json& p = result["perplexity"];
    out += fmt::format(
        "perplexity {:.4f} +- {:.4f}\nmean NLL   {:.6f} +- {:.6f} nats over {} tokens\n",
        p["perplexity"].get<double>(), p["perplexity_error"].get<double>(),
        p["mean_nll"].get<double>(), p["nll_error"].get<double>(), p["positions"].get<int64_t>());
  }
  if (result.contains("divergence")) {
    const Json& d = result["divergence"];
    out += fmt::format(
        "KL(saved || this)  mean {:.6g}, 99 % {:.6g}, max {:.6g} nats over {} positions\n"
        "top-1 agreement    {:.3f} %\n"
        "|difference| / RMS mean {:.6g}, max {:.6g}\n",
        d["mean_kl"].get<double>(), d["p99_kl"].get<double>(), d["max_kl"].get<double>(),
        d["positions"].get<int64_t>(), 100.0 * d["top1_agreement"].get<double>(),
        d["mean_difference"].get<double>(), d["max_difference"].get<double>());
  }
  return out;
}

Result<std::string> run(const Settings& settings) {
  engine::EngineOptions engine_settings = engine_options(settings);
  if (settings.float_activations) engine_settings.kernels.all_reference = true;
  SignalQueue signals;
  // Loading cannot be called off, and there is nothing to lose yet.
  std::atomic<bool> loading{true}, cancelled{false};
  const SignalWatch watch(signals, [&loading, &cancelled](int) {
    if (loading.load() || cancelled.exchange(true)) std::_Exit(kInterrupted);
  });
  ProgressLine progress(!settings.quiet);
  STRATA_ASSIGN_OR_RETURN(
      const std::unique_ptr<engine::LoadedModel> loaded,
      engine::LoadedModel::load(engine_settings, [&](double done, const std::string& what) {
        progress.show(done, what);
      }));
  loading.store(false);
  STRATA_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, read_tokens(settings, *loaded));

  EvaluationOptions options;
  options.kv_type = settings.engine.kv_type;
  options.chunk = settings.engine.prompt_chunk;
  options.window = loaded->info.context_length;
  options.cancelled = [&cancelled] { return cancelled.load(); };
  options.progress = [&](size_t done) {
    progress.show(static_cast<double>(done) / static_cast<double>(tokens.size()), "reading");
  };

  Json result = {{"model", loaded->info.path}, {"tokens", tokens.size()}};
  const bool saves = !settings.logits_file.empty();
  const bool compares = !settings.compare_file.empty();
  if (saves || compares || !settings.greedy) {
    if (!saves && !compares && tokens.size() < 2) {
      return out_of_range("perplexity needs at least two tokens; there is one");
    }
    Measurement measured;
    STRATA_RETURN_IF_ERROR(measure(settings, *loaded, tokens, options, measured));
    progress.clear();
    if (saves && !settings.quiet) {
      std::fprintf(stderr, "%lld positions of %d logits written to %s\n",
                   static_cast<long long>(measured.written), loaded->info.vocabulary,
                   settings.logits_file.c_str());
    }
    if (!saves && !compares) {
      const PerplexityMeter::Result p = measured.perplexity.result();
      result["perplexity"] = {{"positions", p.positions},
                              {"mean_nll", p.mean_nll},
                              {"nll_error", p.nll_error},
                              {"perplexity", p.perplexity},
                              {"perplexity_error", p.perplexity_error}};
    }
    if (compares) {
      const DivergenceMeter::Result d = measured.divergence.result();
      result["divergence"] = {{"positions", d.positions},
                              {"mean_kl", d.mean_kl},
                              {"p99_kl", d.p99_kl},
                              {"max_kl", d.max_kl},
                              {"top1_agreement", d.top1_agreement},
                              {"mean_difference", d.mean_difference},
                              {"max_difference", d.max_difference}};
    }
  }
  if (settings.greedy) {
    STRATA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            continue_greedily(*loaded, tokens, *settings.greedy, options));
    result["greedy"] = ids;
  }
  return report(settings, result);
}

}  // namespace

int eval_command(const Settings& settings) {
  if (const Status status = check(settings); !status.ok()) {
    return report_usage(CommandId::kEval, status);
  }
  const Result<std::string> result = run(settings);
  return result.ok() ? print_result(*result) : report_failure(result.status());
}

}  // namespace strata::apps
