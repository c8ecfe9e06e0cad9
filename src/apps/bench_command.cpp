#include <atomic>
#include <cstdlib>

#include "apps/bench_report.h"
#include "apps/bench_run.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/interrupt.h"
#include "apps/model_source.h"
#include "apps/progress_line.h"
#include "apps/report.h"

namespace strata::apps {

namespace {

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // names the compiler itself
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

Status check(const Settings& settings) {
  if (settings.csv && settings.json) return invalid_argument("give one of --csv and --json");
  if (settings.prompts.empty() && settings.depths.empty()) {
    return invalid_argument("--prompts none and --depths none leave nothing to measure");
  }
  return {};
}

Status check_lengths(std::span<const BenchCase> cases, int steps, const BenchModel& loaded) {
  const int context = loaded.model->config().context;
  for (const BenchCase& plan : cases) {
    const int64_t length = int64_t{plan.tokens} + (plan.times_decode ? steps : 0);
    if (length > context) {
      return out_of_range(
          "{} tokens are more than the {} that {} was trained for; give smaller --prompts, "
          "--depths "
          "or --steps",
          length, context, loaded.file->path());
    }
  }
  return {};
}

BenchJson model_report(const BenchModel& loaded) {
  const model::Config& config = loaded.model->config();
  int64_t parameters = 0;
  uint64_t file_bytes = 0;
  for (const TensorInfo& tensor : loaded.file->tensors()) parameters += tensor.elems();
  for (const GgufShard& shard : loaded.file->shards()) file_bytes += shard.bytes;
  return {{"path", loaded.file->path()}, {"parameters", parameters},
          {"file_bytes", file_bytes},    {"layers", config.layers},
          {"experts", config.experts},   {"experts_used", config.experts_used}};
}

Result<std::string> run(const Settings& settings) {
  SignalQueue signals;
  // Loading cannot be called off, and there is nothing to lose yet.
  std::atomic<bool> loading{true}, cancelled{false};
  const SignalWatch watch(signals, [&loading, &cancelled](int) {
    if (loading.load() || cancelled.exchange(true)) std::_Exit(kInterrupted);
  });
  ProgressLine progress(!settings.quiet);
  STRATA_ASSIGN_OR_RETURN(BenchModel loaded,
                          BenchModel::load(engine_options(settings), [&](double done) {
                            progress.show(done, "reading weights");
                          }));
  loading.store(false);

  const std::vector<BenchCase> cases =
      bench_cases(settings.prompts, settings.depths, settings.batch);
  STRATA_RETURN_IF_ERROR(check_lengths(cases, settings.steps, loaded));
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<MemoryMeter> memory,
                          MemoryMeter::create(*loaded.device));
  BenchOptions options;
  options.kv_type = settings.engine.kv_type;
  options.prompt_chunk = settings.engine.prompt_chunk;
  options.steps = settings.steps;
  options.repeat = settings.repeat;
  options.cancelled = [&cancelled] { return cancelled.load(); };
  options.progress = [&](double done) { progress.show(done, "measuring"); };
  STRATA_ASSIGN_OR_RETURN(const std::vector<BenchMeasure> measures,
                          run_bench(loaded, cases, options, *memory));
  progress.clear();

  const BenchJson report = {
      {"strata",
       {{"version", STRATA_VERSION}, {"compiler", kCompiler}, {"build", STRATA_BUILD_KIND}}},
      {"device", device_report(*loaded.device)},
      {"kernels", kernel_report(*loaded.device, *loaded.file)},
      {"model", model_report(loaded)},
      {"settings",
       {{"kv", backend::kKvTypeNames[static_cast<size_t>(settings.engine.kv_type)]},
        {"prompt_chunk", settings.engine.prompt_chunk},
        {"steps", settings.steps},
        {"repeat", settings.repeat}}},
      {"memory", memory_report(*memory)},
      {"results", result_report(measures, memory->best())}};
  if (settings.csv) return bench_csv(report);
  if (!settings.json) return bench_table(report);
  // A path need not be UTF-8.
  return report.dump(2, ' ', false, BenchJson::error_handler_t::replace) + "\n";
}

}  // namespace

int bench_command(const Settings& settings) {
  if (const Status status = check(settings); !status.ok()) {
    return report_usage(CommandId::kBench, status);
  }
  const Result<std::string> result = run(settings);
  return result.ok() ? print_result(*result) : report_failure(result.status());
}

}  // namespace strata::apps
