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
  STRATA_ASSIGN_OR_RETURN(
      ResolvedSampling sampling,
      resolve(request.sampling, loaded.text->sampling_defaults(), info.vocabulary));
  STRATA_ASSIGN_OR_RETURN(StopMatcher stop, StopMatcher::create(request.stop));
  return PreparedRequest{std::move(request), std::move(sampling), std::move(stop)};
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
      sink_(std::move(sink)),
      cancelled_(cancelled),
      on_step_(std::move(on_step)) {}

void Generation::run() {
  usage_.prompt_tokens = static_cast<int>(request_.prompt.size());
  const auto start = std::chrono::steady_clock::now();
  Status status = read_prompt();
  usage_.prompt_ms = ms_since(start);
  decode_start_ = std::chrono::steady_clock::now();
  if (status.ok()) status = decode();
  if (status.code() == StatusCode::kCancelled) {
    finish(FinishReason::kCancelled);
  } else if (!status.ok()) {
    sink_(Failed{status});
  }
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
  for (size_t begin = 0; begin < prompt.size();) {
    STRATA_RETURN_IF_ERROR(begin_step());
    const size_t count = std::min(prompt.size() - begin, static_cast<size_t>(prompt_chunk_));
    const bool last = begin + count == prompt.size();
    const model::BatchItem item{.sequence = &sequence_,
                                .tokens = prompt.subspan(begin, count),
                                .logits = last ? model::LogitsOf::kLastToken : model::LogitsOf::kNone,
                                .positions = {},
                                .next_position = 0,
                                .embeddings = {}};
    STRATA_RETURN_IF_ERROR(loaded_.model->forward({&item, 1}, logits_));
    begin += count;
    if (request_.want_progress) {
      sink_(PromptProgress{static_cast<int>(begin), static_cast<int>(prompt.size())});
    }
  }
  return {};
}

Status Generation::decode() {
  for (;;) {
    STRATA_RETURN_IF_ERROR(begin_step());
    if (request_.max_tokens && usage_.completion_tokens >= *request_.max_tokens) {
      finish(FinishReason::kLength);
      return {};
    }
    // The draw is addressed by where the token will stand, whatever came before it was computed.
    STRATA_ASSIGN_OR_RETURN(const SampleResult sampled,
                            sampler_.sample(logits_, sequence_.length()));
    sampler_.accept(sampled.token, TokenOrigin::kGenerated);
    ++usage_.completion_tokens;
    if (take(sampled)) return {};
    if (sequence_.length() >= sequence_.capacity()) {
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
    STRATA_RETURN_IF_ERROR(loaded_.model->forward({&item, 1}, logits_));
  }
}

bool Generation::take(const SampleResult& sampled) {
  const text::Tokenizer& tokenizer = loaded_.text->tokenizer();
  const bool ends = tokenizer.is_end_of_generation(sampled.token) && !request_.ignore_eos;
  const bool silent = tokenizer.is_control(sampled.token) && !request_.emit_special;
  waiting_tokens_.push_back(sampled.token);
  if (sampled.logprob) waiting_logprobs_.push_back(describe(sampled));

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
