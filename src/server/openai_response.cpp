#include "server/openai_response.h"

#include "server/reasoning_splitter.h"
#include "server/sse.h"

namespace strata::server {
namespace {

const char* finish_name(engine::FinishReason reason) {
  return reason == engine::FinishReason::kLength ? "length" : "stop";
}

Json chat_logprob(const engine::TopLogprob& one) {
  Json out = Json::object();
  out["token"] = valid_utf8(one.bytes);
  out["logprob"] = one.logprob;
  out["bytes"] = byte_array(one.bytes);
  return out;
}

Json chat_logprobs(const std::vector<engine::TokenLogprob>& tokens) {
  Json content = Json::array();
  for (const auto& token : tokens) {
    Json entry = chat_logprob(token);
    Json top = Json::array();
    for (const auto& other : token.top) top.push_back(chat_logprob(other));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return Json{{"content", std::move(content)}, {"refusal", nullptr}};
}

class ChatAnswer final : public Answer {
 public:
  ChatAnswer(AnswerInfo info, const ChatAnswerOptions& options)
      : info_(std::move(info)), options_(options), splitter_(options.starts_in_reasoning) {}

  std::string begin() override {
    return event(Json{{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }

  std::string delta(const engine::TextDelta& delta) override {
    return piece_event(take(delta), delta.logprobs);
  }

  std::string end(const engine::Finished& finished) override {
    std::string out = piece_event(splitter_.finish(), {});
    Json last = frame("chat.completion.chunk");
    last["choices"] =
        Json::array({choice("delta", Json::object(), nullptr, finish_name(finished.reason))});
    last["timings"] = timings_object(finished.usage);
    if (options_.include_usage) {
      last["usage"] = nullptr;
      out += sse_event(last);
      Json usage = frame("chat.completion.chunk");
      usage["choices"] = Json::array();
      usage["usage"] = usage_object(finished.usage, reasoning_tokens_);
      out += sse_event(usage);
    } else {
      out += sse_event(last);
    }
    out += kSseDone;
    return out;
  }

  void add(const engine::TextDelta& delta) override {
    append(take(delta));
    logprobs_.insert(logprobs_.end(), delta.logprobs.begin(), delta.logprobs.end());
  }

  Json whole(const engine::Finished& finished) override {
    append(splitter_.finish());
    Json message = Json::object();
    message["role"] = "assistant";
    message["content"] = std::move(content_);
    if (!reasoning_.empty()) message["reasoning_content"] = std::move(reasoning_);
    message["refusal"] = nullptr;
    Json out = frame("chat.completion");
    out["choices"] = Json::array({choice(
        "message", std::move(message), options_.logprobs ? chat_logprobs(logprobs_) : Json(nullptr),
        finish_name(finished.reason))});
    out["usage"] = usage_object(finished.usage, reasoning_tokens_);
    out["timings"] = timings_object(finished.usage);
    return out;
  }

 private:
  ReasoningSplitter::Piece take(const engine::TextDelta& delta) {
    const bool before = splitter_.in_reasoning();
    ReasoningSplitter::Piece piece = splitter_.push(delta.text);
    const bool reasoned = before || splitter_.in_reasoning() || !piece.reasoning.empty();
    if (reasoned && !closed_) {
      for (const TokenId token : delta.tokens) {
        ++reasoning_tokens_;
        if (options_.think_close && token == *options_.think_close) {
          closed_ = true;
          break;
        }
      }
    }
    return piece;
  }

  void append(const ReasoningSplitter::Piece& piece) {
    reasoning_ += piece.reasoning;
    content_ += piece.content;
  }

  std::string piece_event(const ReasoningSplitter::Piece& piece,
                          const std::vector<engine::TokenLogprob>& logprobs) {
    if (piece.empty() && logprobs.empty()) return {};
    Json delta = Json::object();
    if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
    if (!piece.content.empty()) delta["content"] = piece.content;
    return event(std::move(delta),
                 options_.logprobs && !logprobs.empty() ? chat_logprobs(logprobs) : Json(nullptr),
                 nullptr);
  }

  std::string event(Json delta, Json logprobs, const char* finish) {
    Json out = frame("chat.completion.chunk");
    out["choices"] = Json::array({choice("delta", std::move(delta), std::move(logprobs), finish)});
    if (options_.include_usage) out["usage"] = nullptr;
    return sse_event(out);
  }

  static Json choice(const char* what, Json value, Json logprobs, const char* finish) {
    Json out = Json::object();
    out["index"] = 0;
    out[what] = std::move(value);
    out["logprobs"] = std::move(logprobs);
    out["finish_reason"] = finish == nullptr ? Json(nullptr) : Json(finish);
    return out;
  }

  Json frame(const char* object) const {
    Json out = Json::object();
    out["id"] = info_.id;
    out["object"] = object;
    out["created"] = info_.created;
    out["model"] = info_.model;
    return out;
  }

  AnswerInfo info_;
  ChatAnswerOptions options_;
  ReasoningSplitter splitter_;
  int reasoning_tokens_ = 0;
  bool closed_ = false;
  std::string reasoning_;
  std::string content_;
  std::vector<engine::TokenLogprob> logprobs_;
};

class CompletionAnswer final : public Answer {
 public:
  CompletionAnswer(AnswerInfo info, CompletionAnswerOptions options)
      : info_(std::move(info)), options_(std::move(options)) {}

  std::string begin() override {
    offset_ = options_.echo.size();
    if (options_.echo.empty()) return {};
    return event(options_.echo, nullptr, nullptr);
  }

  std::string delta(const engine::TextDelta& delta) override {
    if (delta.text.empty() && delta.logprobs.empty()) return {};
    return event(delta.text, logprobs(delta.logprobs), nullptr);
  }

  std::string end(const engine::Finished& finished) override {
    Json last = frame();
    last["choices"] = Json::array({choice("", nullptr, finish_name(finished.reason))});
    last["timings"] = timings_object(finished.usage);
    if (options_.include_usage) last["usage"] = nullptr;
    std::string out = sse_event(last);
    if (options_.include_usage) {
      Json usage = frame();
      usage["choices"] = Json::array();
      usage["usage"] = usage_object(finished.usage, std::nullopt);
      out += sse_event(usage);
    }
    out += kSseDone;
    return out;
  }

  void add(const engine::TextDelta& delta) override {
    text_ += delta.text;
    logprobs_.insert(logprobs_.end(), delta.logprobs.begin(), delta.logprobs.end());
  }

  Json whole(const engine::Finished& finished) override {
    offset_ = options_.echo.size();
    Json out = frame();
    Json lp = logprobs(logprobs_);
    out["choices"] =
        Json::array({choice(options_.echo + text_, std::move(lp), finish_name(finished.reason))});
    out["usage"] = usage_object(finished.usage, std::nullopt);
    out["timings"] = timings_object(finished.usage);
    return out;
  }

 private:
  // The completions form: parallel arrays, and offsets into the text counted in bytes.
  Json logprobs(const std::vector<engine::TokenLogprob>& tokens) {
    if (!options_.logprobs) return nullptr;
    Json names = Json::array();
    Json values = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    for (const auto& token : tokens) {
      names.push_back(valid_utf8(token.bytes));
      values.push_back(token.logprob);
      Json top = Json::object();
      for (const auto& other : token.top) {
        // Different bytes may read the same once repaired; the likelier one, which comes first,
        // stays.
        top.emplace(valid_utf8(other.bytes), other.logprob);
      }
      tops.push_back(std::move(top));
      offsets.push_back(offset_);
      offset_ += token.bytes.size();
    }
    Json out = Json::object();
    out["tokens"] = std::move(names);
    out["token_logprobs"] = std::move(values);
    out["top_logprobs"] = std::move(tops);
    out["text_offset"] = std::move(offsets);
    return out;
  }

  std::string event(const std::string& text, Json logprobs, const char* finish) {
    Json out = frame();
    out["choices"] = Json::array({choice(text, std::move(logprobs), finish)});
    if (options_.include_usage) out["usage"] = nullptr;
    return sse_event(out);
  }

  static Json choice(std::string text, Json logprobs, const char* finish) {
    Json out = Json::object();
    out["index"] = 0;
    out["text"] = std::move(text);
    out["logprobs"] = std::move(logprobs);
    out["finish_reason"] = finish == nullptr ? Json(nullptr) : Json(finish);
    return out;
  }

  Json frame() const {
    Json out = Json::object();
    out["id"] = info_.id;
    out["object"] = "text_completion";
    out["created"] = info_.created;
    out["model"] = info_.model;
    return out;
  }

  AnswerInfo info_;
  CompletionAnswerOptions options_;
  size_t offset_ = 0;
  std::string text_;
  std::vector<engine::TokenLogprob> logprobs_;
};

}  // namespace

std::unique_ptr<Answer> make_chat_answer(AnswerInfo info, const ChatAnswerOptions& options) {
  return std::make_unique<ChatAnswer>(std::move(info), options);
}

std::unique_ptr<Answer> make_completion_answer(AnswerInfo info, CompletionAnswerOptions options) {
  return std::make_unique<CompletionAnswer>(std::move(info), std::move(options));
}

Json usage_object(const engine::Usage& usage, std::optional<int> reasoning_tokens) {
  Json out = Json::object();
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["prompt_tokens_details"] = Json{{"cached_tokens", usage.cached_tokens}};
  if (reasoning_tokens) {
    out["completion_tokens_details"] = Json{{"reasoning_tokens", *reasoning_tokens}};
  }
  return out;
}

Json timings_object(const engine::Usage& usage) {
  const int read = usage.prompt_tokens - usage.cached_tokens;
  const auto rate = [](int tokens, double ms) { return ms > 0 ? tokens * 1000.0 / ms : 0.0; };
  const auto each = [](int tokens, double ms) { return tokens > 0 ? ms / tokens : 0.0; };
  Json out = Json::object();
  out["cache_n"] = usage.cached_tokens;
  out["prompt_n"] = read;
  out["prompt_ms"] = usage.prompt_ms;
  out["prompt_per_token_ms"] = each(read, usage.prompt_ms);
  out["prompt_per_second"] = rate(read, usage.prompt_ms);
  out["predicted_n"] = usage.completion_tokens;
  out["predicted_ms"] = usage.decode_ms;
  out["predicted_per_token_ms"] = each(usage.completion_tokens, usage.decode_ms);
  out["predicted_per_second"] = rate(usage.completion_tokens, usage.decode_ms);
  return out;
}

Json byte_array(const std::string& bytes) {
  Json out = Json::array();
  for (const char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace strata::server
