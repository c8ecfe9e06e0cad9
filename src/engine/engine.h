// The engine as server/ and apps/ see it: text in, token events out. One engine thread owns the
// model and its sessions; submitted requests queue and are served in order.
//
// Thread safety: every method may be called from any thread. Event sinks run on the engine thread
// and must return quickly without blocking; they may call RequestHandle::cancel().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/types.h"
#include "engine/constraint.h"
#include "engine/sampling_params.h"

namespace strata::engine {

struct ModelInfo {
  std::string id;              // the name requests use, e.g. "strata-tiny"
  std::string path;            // the file that was opened
  std::string architecture;    // "qwen4exp"
  uint64_t parameters = 0;     // trunk, table and draft layer
  uint64_t file_bytes = 0;     // all shards
  int context_length = 0;      // tokens a session of this server may hold
  int trained_context = 0;     // tokens the model was trained for
  int vocabulary = 0;          // rows of the head, padding included
  bool has_chat_template = false;
  std::string chat_template;          // its source
  std::string bos_token, eos_token;   // as text; empty: the model has none
  SamplingParams sampling_defaults;   // where a request says nothing; no seed
};

enum class EngineStage { kLoading, kReady, kFailed };

struct EngineState {
  EngineStage stage = EngineStage::kLoading;
  double load_progress = 0.0;  // 0..1 while loading
  std::string message;         // what is being done, or why it failed: one sentence
  // Why it runs on fewer devices than it was given: one sentence; empty when all is well.
  std::string degraded;
};

// A chat to be turned into tokens by the template of the model file.
struct ChatRequest {
  nlohmann::ordered_json messages;         // OpenAI message array, checked to be a non-empty array
  nlohmann::ordered_json tools;            // OpenAI tool array, or null
  nlohmann::ordered_json template_kwargs;  // extra template variables (enable_thinking, ...), or null
  bool add_generation_prompt = true;
  // The answer goes on with the last message, an assistant's with text: its turn is left open behind
  // that text, blanks at its end aside, and no generation prompt follows.
  bool continue_final = false;
};

struct RenderedChat {
  std::string text;                // the prompt as text, control tokens written out
  std::vector<TokenId> tokens;     // control tokens come from the template only, never from messages
  bool starts_in_reasoning = false;  // the answer begins inside a <think> block
};

// A limit for an answer that begins inside a thinking block.
struct ReasoningBudget {
  int tokens = 0;                // >= 0: thinking tokens before the block is closed
  TokenId end = 0;               // the token by which the model closes the block itself
  std::vector<TokenId> closing;  // not empty; closes the block: `end` and line ends around it
};

struct GenerateRequest {
  std::string id;                   // for logs and cancellation; unique per request
  std::vector<TokenId> prompt;      // not empty, shorter than the context
  SamplingParams sampling;
  std::vector<std::string> stop;    // the text ends before the first occurrence of any of these
  // The answer begins inside a thinking block: stop strings are looked for after "</think>" and the
  // line ends behind it.
  bool stop_after_thinking = false;
  std::optional<ConstraintSpec> constraint;  // what the answer may be; not with ignore_eos
  std::optional<ReasoningBudget> reasoning_budget;  // absent: no limit, or no thinking
  std::optional<int> max_tokens;    // absent: until the context is full
  bool ignore_eos = false;          // go on after an end-of-turn token
  bool emit_special = false;        // control tokens appear in the text (the final one too)
  bool want_progress = false;       // send PromptProgress events
};

struct TopLogprob {
  TokenId token = 0;
  float logprob = 0.0f;  // natural log, after nothing but softmax of the raw logits
  std::string bytes;     // the token's bytes, which need not be valid UTF-8
};

struct TokenLogprob : TopLogprob {
  std::vector<TopLogprob> top;  // best first
  bool silent = false;          // a control token that is no part of the text
};

enum class FinishReason { kStop, kLength, kCancelled };

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;      // part of prompt_tokens that needed no computation
  int completion_tokens = 0;  // every sampled token, the end-of-turn token included
  double prompt_ms = 0.0;
  double decode_ms = 0.0;
};

struct PromptProgress {
  int read = 0;   // prompt tokens processed
  int total = 0;
};

// Text that is final: valid UTF-8, cut at character borders, never part of a stop string.
struct TextDelta {
  std::string text;                    // may be empty when only logprobs are new
  std::vector<TokenId> tokens;         // the tokens that became final with this delta
  std::vector<TokenLogprob> logprobs;  // one per token when logprobs were asked for
};

struct Finished {
  FinishReason reason = FinishReason::kStop;
  std::string stop_string;  // the stop string that matched, if one did
  Usage usage;
};

struct Failed {
  Status status;
};

using Event = std::variant<PromptProgress, TextDelta, Finished, Failed>;

// Called with zero or more PromptProgress and TextDelta events, then exactly one Finished or Failed.
using EventSink = std::function<void(const Event&)>;

class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Ends the request at its next step, queued or running; its sink gets Finished{kCancelled}.
  virtual void cancel() = 0;
};

struct QueueInfo {
  int waiting = 0;
  int running = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual EngineState state() const = 0;
  // Everything below fails with kUnavailable (or returns an empty value) before state() is kReady.
  virtual const ModelInfo& info() const = 0;
  virtual QueueInfo queue() const = 0;
  // Devices, where the layers lie and why, what was predicted: for people and dashboards.
  virtual nlohmann::ordered_json describe() const { return nlohmann::ordered_json::object(); }
  // What each device computes with: measured rates, kernels, compiled images. Long.
  virtual nlohmann::ordered_json describe_kernels() const { return nlohmann::ordered_json::array(); }

  // `parse_special`: control-token names in the text become those tokens; otherwise plain text.
  virtual Result<std::vector<TokenId>> tokenize(std::string_view text, bool parse_special) const = 0;
  // Bytes of the tokens; may be cut inside a UTF-8 character. Fails on an id outside the vocabulary.
  virtual Result<std::string> detokenize(std::span<const TokenId> tokens,
                                         bool include_special) const = 0;
  virtual Result<RenderedChat> render_chat(const ChatRequest& request) const = 0;

  // Checks the request (prompt length against the context, parameter ranges), compiles its
  // constraint, then queues it.
  // After an error the sink is never called. kResourceExhausted when the queue is full.
  virtual Result<std::shared_ptr<RequestHandle>> submit(GenerateRequest request, EventSink sink) = 0;
};

}  // namespace strata::engine
