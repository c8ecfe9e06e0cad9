#include "apps/evaluation.h"

#include <algorithm>
#include <cmath>

#include "apps/logit_stats.h"

namespace strata::apps {

namespace {

model::BatchItem item(memory::SequenceState& sequence, std::span<const TokenId> tokens,
                      model::LogitsOf logits) {
  return {.sequence = &sequence,
          .tokens = tokens,
          .logits = logits,
          .positions = {},
          .next_position = 0,
          .embeddings = {}};
}

Status check_finite(const engine::LoadedModel& loaded, std::span<const float> logits,
                    size_t first_position) {
  const auto bad = std::find_if_not(logits.begin(), logits.end(),
                                    [](float logit) { return std::isfinite(logit); });
  if (bad == logits.end()) return {};
  const auto row = static_cast<size_t>(bad - logits.begin()) /
                   static_cast<size_t>(loaded.info.vocabulary);
  return failed_precondition(
      "{}: a logit of position {} is not finite; the file is damaged, fetch or convert it again",
      loaded.info.path, first_position + row);
}

Status stop_if_asked(const EvaluationOptions& options) {
  return options.cancelled() ? Status(StatusCode::kCancelled, "cancelled") : Status();
}

}  // namespace

Status evaluate(engine::LoadedModel& loaded, std::span<const TokenId> tokens,
                const EvaluationOptions& options,
                const std::function<Status(const LogitChunk&)>& visit) {
  const size_t row_bytes = static_cast<size_t>(loaded.info.vocabulary) * sizeof(float);
  const size_t chunk =
      std::min(static_cast<size_t>(options.chunk), std::max<size_t>(kMaxLogitBytes / row_bytes, 1));
  const size_t window = std::min(static_cast<size_t>(options.window), tokens.size());
  STRATA_ASSIGN_OR_RETURN(
      memory::SequenceState sequence,
      loaded.model->new_sequence(options.kv_type, static_cast<int64_t>(window)));
  std::vector<float> logits;
  for (size_t start = 0; start < tokens.size(); start += window) {
    const size_t window_end = std::min(start + window, tokens.size());
    STRATA_RETURN_IF_ERROR(sequence.reset());
    for (size_t begin = start; begin < window_end;) {
      STRATA_RETURN_IF_ERROR(stop_if_asked(options));
      const size_t rows = std::min(chunk, window_end - begin);
      const model::BatchItem batch =
          item(sequence, tokens.subspan(begin, rows), model::LogitsOf::kEveryToken);
      STRATA_RETURN_IF_ERROR(loaded.model->forward({&batch, 1}, logits));
      STRATA_RETURN_IF_ERROR(check_finite(loaded, logits, begin));
      const size_t following = std::min(rows, window_end - begin - 1);
      STRATA_RETURN_IF_ERROR(visit({.first = begin,
                                    .rows = rows,
                                    .logits = logits,
                                    .next = tokens.subspan(begin + 1, following)}));
      begin += rows;
      options.progress(begin);
    }
  }
  return {};
}

Result<std::vector<TokenId>> continue_greedily(engine::LoadedModel& loaded,
                                               std::span<const TokenId> tokens, int count,
                                               const EvaluationOptions& options) {
  const size_t total = tokens.size() + static_cast<size_t>(count);
  if (total > static_cast<size_t>(options.window)) {
    return out_of_range(
        "{} tokens and {} more do not fit into a context of {}; use fewer, or a larger --context",
        tokens.size(), count, options.window);
  }
  STRATA_ASSIGN_OR_RETURN(memory::SequenceState sequence,
                          loaded.model->new_sequence(options.kv_type, static_cast<int64_t>(total)));
  std::vector<float> logits;
  const auto read = [&](std::span<const TokenId> part) -> Status {
    const model::BatchItem batch = item(sequence, part, model::LogitsOf::kLastToken);
    STRATA_RETURN_IF_ERROR(loaded.model->forward({&batch, 1}, logits));
    return check_finite(loaded, logits, static_cast<size_t>(sequence.length()) - 1);
  };
  for (size_t begin = 0; begin < tokens.size();) {
    STRATA_RETURN_IF_ERROR(stop_if_asked(options));
    const size_t rows = std::min(tokens.size() - begin, static_cast<size_t>(options.chunk));
    STRATA_RETURN_IF_ERROR(read(tokens.subspan(begin, rows)));
    begin += rows;
    options.progress(begin);
  }
  const auto valid = static_cast<size_t>(loaded.text->valid_tokens());
  std::vector<TokenId> out;
  while (true) {
    STRATA_RETURN_IF_ERROR(stop_if_asked(options));
    out.push_back(most_probable(std::span<const float>(logits).first(valid)));
    if (out.size() == static_cast<size_t>(count)) return out;
    STRATA_RETURN_IF_ERROR(read({&out.back(), 1}));
  }
}

}  // namespace strata::apps
