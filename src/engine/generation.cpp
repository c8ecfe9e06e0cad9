#include "engine/generation.h"

#include <algorithm>
#include <chrono>

namespace strata::engine {

namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

Result<PreparedRequest> prepare_generation(GenerateRequest request, const LoadedModel& loaded) {
  const ModelInfo& info = loaded.info;
  if (request.prompt.empty()) {
    return Status(StatusCode::kInvalidArgument, "the prompt is empty; send at least one token",
                  "prompt");
  }
  if (request.prompt.size() >= static_cast<size_t>(info.context_length)) {
    return Status(
        StatusCode::kOutOfRange,
        fmt::format("the prompt has {} tokens and the context holds {}, one of which an answer "
                    "needs; shorten the prompt or start the server with a larger --context",
                    request.prompt.size(), info.context_length),
        "prompt");
  }
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= info.vocabulary) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("token id {} is outside the vocabulary of {}", id, info.vocabulary),
                    "prompt");
    }
  }
  if (request.max_tokens && *request.max_tokens < 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("max_tokens must not be negative, got {}", *request.max_tokens),
                  "max_tokens");
  }
  if (const auto& budget = request.reasoning_budget) {
    std::vector<TokenId> ids = budget->closing;
    ids.push_back(budget->end);
    const bool known = std::all_of(ids.begin(), ids.end(), [&](TokenId id) {
      return id >= 0 && id < loaded.text->valid_tokens();
    });
    if (budget->tokens < 0 || budget->closing.empty() || !known) {
      return Status(StatusCode::kInvalidArgument,
                    "a thinking budget needs a number of tokens that is not negative and tokens of "
                    "this model that close the block",
                    "reasoning_budget_tokens");
    }
  }
  STRATA_ASSIGN_OR_RETURN(
      ResolvedSampling sampling,
      resolve(request.sampling, loaded.text->sampling_defaults(), info.vocabulary));
  STRATA_ASSIGN_OR_RETURN(StopMatcher stop, StopMatcher::create(request.stop));
  if (request.stop_after_thinking) stop.start_after("</think>");
  std::optional<grammar::Matcher> constraint;
  if (request.constraint) {
    if (request.ignore_eos) {
      return Status(StatusCode::kInvalidArgument,
                    "ignore_eos does not go together with a constrained answer, which ends where "
                    "the constraint says",
                    "ignore_eos");
    }
    STRATA_ASSIGN_OR_RETURN(constraint, loaded.text->compile(*request.constraint));
  }
  return PreparedRequest{std::move(request), std::move(sampling), std::move(stop),
                         std::move(constraint)};
}

Generation::Generation(LoadedModel& loaded, memory::SequenceState& sequence, int prompt_chunk,
                       PreparedRequest prepared, EventSink sink,
                       const std::atomic<bool>& cancelled, std::function<void()> on_step)
    : loaded_(loaded),
      sequence_(sequence),
      prompt_chunk_(prompt_chunk),
      request_(std::move(prepared.request)),
      sampler_(std::move(prepared.sampling), loaded.text->valid_tokens()),
      stop_(std::move(prepared.stop)),
      constraint_(std::move(prepared.constraint)),
      thinking_(std::move(request_.reasoning_budget)),
      sink_(std::move(sink)),
      cancelled_(cancelled),
      on_step_(std::move(on_step)) {
  top_.k = candidates();
  top_.valid = loaded.text->valid_tokens();
}

int Generation::candidates() const {
  using TopK = backend::TopKLogitsArgs;
  static_assert(kMostCandidates <= TopK::kMost);
  if (constraint_ || loaded_.text->valid_tokens() > TopK::kMostTokens) return 0;
  return sampler_.candidates();
}

Status Generation::run() {
  usage_.prompt_tokens = static_cast<int>(request_.prompt.size());
  const auto start = std::chrono::steady_clock::now();
  Status status = read_prompt();
  usage_.prompt_ms = ms_since(start);
  decode_start_ = std::chrono::steady_clock::now();
  if (status.ok()) status = decode();
  if (status.code() == StatusCode::kCancelled) {
    finish(FinishReason::kCancelled);
    return {};
  }
  if (!status.ok()) sink_(Failed{status});
  return status;
}

Status Generation::begin_step() {
  on_step_();
  if (cancelled_.load(std::memory_order_relaxed)) return {StatusCode::kCancelled, "cancelled"};
  return {};
}

Status Generation::read_prompt() {
  STRATA_RETURN_IF_ERROR(sequence_.reset());
  const std::span<const TokenId> prompt = request_.prompt;
  for (const TokenId id : prompt) sampler_.accept(id, TokenOrigin::kPrompt);
  const auto total = static_cast<int>(prompt.size());
  int reported = 0;
  const auto before_chunk = [&](int read) {
    if (request_.want_progress && read > reported) {
      reported = read;
      sink_(PromptProgress{read, total});
    }
    return begin_step();
  };
  const int chunk = loaded_.prompt_chunk(total, prompt_chunk_);
  model::Qwen4Exp& model = *loaded_.model;
  STRATA_RETURN_IF_ERROR(
      top_.k > 0 ? model.read_prompt(sequence_, prompt, chunk, before_chunk, top_)
                 : model.read_prompt(sequence_, prompt, chunk, before_chunk, logits_));
  if (request_.want_progress) sink_(PromptProgress{total, total});
  return {};
}

Status Generation::decode() {
  const auto enough = [this] {
    return request_.max_tokens && usage_.completion_tokens >= *request_.max_tokens;
  };
  if (enough()) {
    finish(FinishReason::kLength);
    return {};
  }
  for (;;) {
    STRATA_RETURN_IF_ERROR(begin_step());
    STRATA_ASSIGN_OR_RETURN(const SampleResult sampled, choose());
    ++usage_.completion_tokens;
    if (take(sampled)) return {};
    // The model is not run for a token after the last one.
    if (enough() || sequence_.length() >= sequence_.capacity()) {
      finish(FinishReason::kLength);
      return {};
    }
    const TokenId token = sampled.token;
    const model::BatchItem item{.sequence = &sequence_,
                                .tokens = {&token, 1},
                                .logits = model::LogitsOf::kLastToken,
                                .positions = {},
                                .next_position = 0,
                                .embeddings = {}};
    STRATA_RETURN_IF_ERROR(top_.k > 0 ? loaded_.model->forward({&item, 1}, top_)
                                      : loaded_.model->forward({&item, 1}, logits_));
  }
}

Result<SampleResult> Generation::choose() {
  const std::optional<TokenId> forced = thinking_.forced(utf8_.pending() == 0);
  mask_.clear();
  if (forced) {
    mask_.resize((static_cast<size_t>(loaded_.info.vocabulary) + 63) / 64);
    mask_[static_cast<size_t>(*forced) / 64] = uint64_t{1} << (*forced % 64);
  } else if (constraint_) {
    mask_.resize(constraint_->words());
    STRATA_RETURN_IF_ERROR(constraint_->fill_mask(mask_));
  }
  // The draw is addressed by where the token will stand, whatever came before it was computed.
  const int64_t position = sequence_.length();
  const bool all = top_.k == 0 || !mask_.empty();
  if (all && top_.k > 0) STRATA_RETURN_IF_ERROR(loaded_.model->fetch_logits(logits_));
  STRATA_ASSIGN_OR_RETURN(
      const SampleResult sampled,
      all ? sampler_.sample(logits_, position, mask_)
          : sampler_.sample_candidates(top_.values, top_.tokens, position));
  sampler_.accept(sampled.token, TokenOrigin::kGenerated);
  thinking_.accept(sampled.token, forced.has_value());
  if (constraint_) STRATA_RETURN_IF_ERROR(constraint_->advance(sampled.token));
  return sampled;
}

bool Generation::take(const SampleResult& sampled) {
  const text::Tokenizer& tokenizer = loaded_.text->tokenizer();
  const bool ends = tokenizer.is_end_of_generation(sampled.token) && !request_.ignore_eos;
  const bool silent = tokenizer.is_control(sampled.token) && !request_.emit_special;
  waiting_tokens_.push_back(sampled.token);
  if (sampled.logprob) {
    waiting_logprobs_.push_back(describe(sampled));
    waiting_logprobs_.back().silent = silent;
  }

  std::string text = utf8_.feed(silent ? std::string_view() : tokenizer.token_bytes(sampled.token));
  // Tokens before this one end inside `text`; this one does too, unless it left bytes behind.
  const bool complete = utf8_.pending() == 0;
  const int64_t ended = text.empty() && !complete ? 0 : unfinished_tokens_ + (complete ? 1 : 0);
  unfinished_tokens_ = unfinished_tokens_ + 1 - ended;
  emit(stop_.push(text, ended));
  if (stop_.matched()) {
    finish(FinishReason::kStop);
    return true;
  }
  if (ends) {
    finish(FinishReason::kStop);
    return true;
  }
  return false;
}

TokenLogprob Generation::describe(const SampleResult& sampled) const {
  const text::Tokenizer& tokenizer = loaded_.text->tokenizer();
  TokenLogprob out;
  out.token = sampled.token;
  out.logprob = *sampled.logprob;
  out.bytes = tokenizer.token_bytes(sampled.token);
  for (const RankedToken& ranked : sampled.best()) {
    out.top.push_back(
        {ranked.token, ranked.logprob, std::string(tokenizer.token_bytes(ranked.token))});
  }
  return out;
}

// Sends what became final: `text` and the tokens that the stop matcher released.
void Generation::emit(std::string text) {
  TextDelta delta;
  delta.text = std::move(text);
  for (; emitted_tokens_ < stop_.released_tokens() && !waiting_tokens_.empty(); ++emitted_tokens_) {
    delta.tokens.push_back(waiting_tokens_.front());
    waiting_tokens_.pop_front();
    if (!waiting_logprobs_.empty()) {
      delta.logprobs.push_back(std::move(waiting_logprobs_.front()));
      waiting_logprobs_.pop_front();
    }
  }
  if (!delta.text.empty() || !delta.tokens.empty()) sink_(delta);
}

void Generation::finish(FinishReason reason) {
  Finished finished;
  if (stop_.matched()) {
    finished.stop_string = request_.stop[*stop_.matched()];
  } else {
    std::string rest = stop_.push(utf8_.flush(), unfinished_tokens_);
    if (stop_.matched()) {
      reason = FinishReason::kStop;
      finished.stop_string = request_.stop[*stop_.matched()];
    } else {
      rest += stop_.flush();
    }
    emit(std::move(rest));
  }
  usage_.decode_ms = ms_since(decode_start_);
  finished.reason = reason;
  finished.usage = usage_;
  sink_(finished);
}

}  // namespace strata::engine
