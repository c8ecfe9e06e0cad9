#include "server/openai_response.h"

#include <algorithm>
#include <string_view>

#include "server/errors.h"

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

// What the answers of both endpoints share: one state per choice, and the sums over them.
template <class State>
class ChoicesAnswer : public Answer {
 protected:
  ChoicesAnswer(AnswerInfo info, const OpenAiAnswerOptions& options, const char* object,
                std::vector<State> states)
      : info_(std::move(info)), common_(options), object_(object), states_(std::move(states)) {}

  std::string fail(const Status& status) override { return sse_event(error_object(status)); }

  std::string progress(int choice, const engine::PromptProgress& progress) override {
    if (!common_.stream) return {};
    Json out = frame(object_);
    out["choices"] = Json::array({empty_choice(choice)});
    out["prompt_progress"] = progress_object(progress, start_);
    if (common_.include_usage) out["usage"] = nullptr;
    return sse_event(out);
  }

  virtual Json empty_choice(int choice) = 0;
  virtual std::optional<int> reasoning_tokens() const { return std::nullopt; }

  // A chunk that holds one choice.
  std::string event(Json choice) {
    Json out = frame(object_);
    out["choices"] = Json::array({std::move(choice)});
    if (common_.include_usage) out["usage"] = nullptr;
    return sse_event(out);
  }

  // Counts a finished choice; true for the last one.
  bool count(int index, const engine::Usage& usage) {
    add_usage(usage_, usage, index % common_.choices == 0);
    return ++finished_ == static_cast<int>(states_.size());
  }

  // The last chunk of a choice and, for the last one, the end of the stream.
  std::string last_events(Json choice, bool all_done) {
    Json last = frame(object_);
    last["choices"] = Json::array({std::move(choice)});
    if (all_done) last["timings"] = timings_object(usage_);
    if (common_.include_usage) last["usage"] = nullptr;
    std::string out = sse_event(last);
    if (!all_done) return out;
    if (common_.include_usage) {
      Json usage = frame(object_);
      usage["choices"] = Json::array();
      usage["usage"] = usage_object(usage_, reasoning_tokens());
      out += sse_event(usage);
    }
    out += kSseDone;
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
  const OpenAiAnswerOptions common_;
  const char* object_;
  std::vector<State> states_;
  engine::Usage usage_;
  int finished_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Keeps the log-probabilities of the tokens that make the content: those of thinking, of the tags
// around it and of control tokens are left out.
class ContentLogprobs {
 public:
  explicit ContentLogprobs(bool starts_in_reasoning) : splitter_(starts_in_reasoning) {}

  std::vector<engine::TokenLogprob> push(const std::vector<engine::TokenLogprob>& tokens) {
    std::vector<engine::TokenLogprob> out;
    for (const auto& token : tokens) {
      if (token.silent) continue;
      waiting_.push_back(token);
      take(splitter_.push(token.bytes), out);
    }
    return out;
  }
  std::vector<engine::TokenLogprob> finish() {
    std::vector<engine::TokenLogprob> out;
    take(splitter_.finish(), out);
    return out;
  }

 private:
  // The content is the end of what waits; what stands before it is no content.
  void take(const ReasoningSplitter::Piece& piece, std::vector<engine::TokenLogprob>& out) {
    if (piece.empty()) return;
    size_t from = waiting_.size();
    for (size_t bytes = 0; from > 0 && bytes < piece.content.size();) {
      bytes += waiting_[--from].bytes.size();
    }
    out.insert(out.end(), waiting_.begin() + static_cast<std::ptrdiff_t>(from), waiting_.end());
    waiting_.clear();
  }

  ReasoningSplitter splitter_;
  std::vector<engine::TokenLogprob> waiting_;
};

struct ChatState {
  explicit ChatState(const ReplyOptions& options)
      : reader(options), content_logprobs(options.starts_in_reasoning) {}
  ReplyReader reader;
  ContentLogprobs content_logprobs;
  Reply reply;
  std::vector<engine::TokenLogprob> logprobs;
  engine::FinishReason reason = engine::FinishReason::kStop;
};

std::vector<ChatState> chat_states(const ChatAnswerOptions& options) {
  return std::vector<ChatState>(static_cast<size_t>(options.choices), ChatState(options.reply));
}

class ChatAnswer final : public ChoicesAnswer<ChatState> {
 public:
  ChatAnswer(AnswerInfo info, const ChatAnswerOptions& options)
      : ChoicesAnswer(std::move(info), options, "chat.completion.chunk", chat_states(options)),
        show_reasoning_(options.show_reasoning) {}

  std::string begin() override {
    std::string out;
    for (size_t i = 0; common_.stream && i < states_.size(); ++i) {
      out += event(choice(static_cast<int>(i), "delta",
                          Json{{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
    }
    return out;
  }

  std::string delta(int index, const engine::TextDelta& delta) override {
    ChatState& state = states_[static_cast<size_t>(index)];
    return take(index, state.reader.push(delta), state.content_logprobs.push(delta.logprobs));
  }

  std::string finish(int index, const engine::Finished& finished) override {
    ChatState& state = states_[static_cast<size_t>(index)];
    state.reason = finished.reason;
    std::string out = take(index, state.reader.finish(finished.reason),
                           state.content_logprobs.finish());
    const bool all_done = count(index, finished.usage);
    if (!common_.stream) return {};
    return out + last_events(choice(index, "delta", Json::object(), nullptr, reason_name(state)),
                             all_done);
  }

  Json whole() override {
    Json choices = Json::array();
    for (size_t i = 0; i < states_.size(); ++i) {
      choices.push_back(whole_choice(static_cast<int>(i), states_[i]));
    }
    Json out = frame("chat.completion");
    out["choices"] = std::move(choices);
    out["usage"] = usage_object(usage_, reasoning_tokens());
    out["timings"] = timings_object(usage_);
    return out;
  }

 private:
  static const char* reason_name(const ChatState& state) {
    if (state.reason == engine::FinishReason::kStop && state.reader.calls() > 0) return "tool_calls";
    return finish_name(state.reason);
  }

  std::optional<int> reasoning_tokens() const override {
    int sum = 0;
    for (const ChatState& state : states_) sum += state.reader.reasoning_tokens();
    return sum;
  }

  Json empty_choice(int index) override {
    return choice(index, "delta", Json::object(), nullptr, nullptr);
  }

  Json whole_choice(int index, ChatState& state) {
    Reply& reply = state.reply;
    Json message = Json::object();
    message["role"] = "assistant";
    message["content"] =
        reply.text.empty() && !reply.calls.empty() ? Json(nullptr) : Json(std::move(reply.text));
    if (!reply.reasoning.empty() && show_reasoning_) message["reasoning_content"] = std::move(reply.reasoning);
    message["refusal"] = nullptr;
    if (!reply.calls.empty()) {
      Json calls = Json::array();
      for (size_t i = 0; i < reply.calls.size(); ++i) {
        calls.push_back(Json{
            {"id", call_id(info_.id, index, static_cast<int>(i))},
            {"type", "function"},
            {"function",
             {{"name", reply.calls[i].name}, {"arguments", std::move(reply.calls[i].arguments)}}}});
      }
      message["tool_calls"] = std::move(calls);
    }
    return choice(index, "message", std::move(message),
                  common_.logprobs ? chat_logprobs(state.logprobs) : Json(nullptr),
                  reason_name(state));
  }

  // Keeps or sends parts; log-probabilities go with the first event.
  std::string take(int index, const std::vector<ReplyPart>& parts,
                   const std::vector<engine::TokenLogprob>& logprobs) {
    ChatState& state = states_[static_cast<size_t>(index)];
    if (!common_.stream) {
      state.reply.add(parts);
      state.logprobs.insert(state.logprobs.end(), logprobs.begin(), logprobs.end());
      return {};
    }
    std::string out;
    Json told = common_.logprobs && !logprobs.empty() ? chat_logprobs(logprobs) : Json(nullptr);
    const auto send = [&](Json delta) {
      out += event(choice(index, "delta", std::move(delta), std::exchange(told, nullptr), nullptr));
    };
    for (size_t i = 0; i < parts.size();) {
      Json delta = Json::object();
      // What belongs to one field goes into one event.
      const ReplyPart& first = parts[i];
      std::string text;
      for (; i < parts.size() && parts[i].kind == first.kind && parts[i].call == first.call; ++i) {
        text += parts[i].text;
      }
      if (first.kind == ReplyPart::Kind::kReasoning && !show_reasoning_) continue;
      switch (first.kind) {
        case ReplyPart::Kind::kReasoning: delta["reasoning_content"] = std::move(text); break;
        case ReplyPart::Kind::kText: delta["content"] = std::move(text); break;
        case ReplyPart::Kind::kCallBegin:
          delta["tool_calls"] = Json::array(
              {Json{{"index", first.call},
                    {"id", call_id(info_.id, index, first.call)},
                    {"type", "function"},
                    {"function", {{"name", std::move(text)}, {"arguments", ""}}}}});
          break;
        case ReplyPart::Kind::kCallArguments:
          delta["tool_calls"] = Json::array({Json{
              {"index", first.call}, {"function", {{"arguments", std::move(text)}}}}});
          break;
        case ReplyPart::Kind::kCallEnd: continue;
      }
      send(std::move(delta));
    }
    if (!told.is_null()) send(Json::object());
    return out;
  }

  static Json choice(int index, const char* what, Json value, Json logprobs, const char* finish) {
    Json out = Json::object();
    out["index"] = index;
    out[what] = std::move(value);
    out["logprobs"] = std::move(logprobs);
    out["finish_reason"] = finish == nullptr ? Json(nullptr) : Json(finish);
    return out;
  }

  const bool show_reasoning_;
};

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// A token as the completions form names it: its text, or its bytes where they are no text.
std::string token_name(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

struct CompletionState {
  size_t offset = 0;
  std::string text;
  std::vector<engine::TokenLogprob> logprobs;
  engine::FinishReason reason = engine::FinishReason::kStop;
};

class CompletionAnswer final : public ChoicesAnswer<CompletionState> {
 public:
  CompletionAnswer(AnswerInfo info, CompletionAnswerOptions options)
      : ChoicesAnswer(std::move(info), options, "text_completion",
                      std::vector<CompletionState>(static_cast<size_t>(options.choices) *
                                                   options.echo.size())),
        echo_(std::move(options.echo)) {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].offset = characters(echo_of(i));
    }
  }

  std::string begin() override {
    std::string out;
    for (size_t i = 0; common_.stream && i < states_.size(); ++i) {
      if (echo_of(i).empty()) continue;
      out += event(choice(static_cast<int>(i), echo_of(i), nullptr, nullptr));
    }
    return out;
  }

  std::string delta(int index, const engine::TextDelta& delta) override {
    CompletionState& state = states_[static_cast<size_t>(index)];
    if (!common_.stream) {
      state.text += delta.text;
      state.logprobs.insert(state.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
      return {};
    }
    if (delta.text.empty() && delta.logprobs.empty()) return {};
    return event(choice(index, delta.text, logprobs(state, delta.logprobs), nullptr));
  }

  std::string finish(int index, const engine::Finished& finished) override {
    states_[static_cast<size_t>(index)].reason = finished.reason;
    const bool all_done = count(index, finished.usage);
    if (!common_.stream) return {};
    return last_events(choice(index, "", nullptr, finish_name(finished.reason)), all_done);
  }

  Json whole() override {
    Json choices = Json::array();
    for (size_t i = 0; i < states_.size(); ++i) {
      CompletionState& state = states_[i];
      Json told = logprobs(state, state.logprobs);
      choices.push_back(choice(static_cast<int>(i), echo_of(i) + state.text, std::move(told),
                               finish_name(state.reason)));
    }
    Json out = frame("text_completion");
    out["choices"] = std::move(choices);
    out["usage"] = usage_object(usage_, std::nullopt);
    out["timings"] = timings_object(usage_);
    return out;
  }

 private:
  Json empty_choice(int index) override { return choice(index, "", nullptr, nullptr); }

  // The completions form: parallel arrays, and offsets into the text counted in characters.
  Json logprobs(CompletionState& state, const std::vector<engine::TokenLogprob>& tokens) {
    if (!common_.logprobs) return nullptr;
    Json names = Json::array();
    Json values = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    for (const auto& token : tokens) {
      names.push_back(token_name(token.bytes));
      values.push_back(token.logprob);
      Json top = Json::object();
      for (const auto& other : token.top) {
        top.emplace(token_name(other.bytes), other.logprob);
      }
      top.emplace(token_name(token.bytes), token.logprob);
      tops.push_back(std::move(top));
      offsets.push_back(state.offset);
      if (!token.silent) state.offset += characters(token.bytes);
    }
    Json out = Json::object();
    out["tokens"] = std::move(names);
    out["token_logprobs"] = std::move(values);
    out["top_logprobs"] = std::move(tops);
    out["text_offset"] = std::move(offsets);
    return out;
  }

  static Json choice(int index, std::string text, Json logprobs, const char* finish) {
    Json out = Json::object();
    out["index"] = index;
    out["text"] = std::move(text);
    out["logprobs"] = std::move(logprobs);
    out["finish_reason"] = finish == nullptr ? Json(nullptr) : Json(finish);
    return out;
  }

  const std::string& echo_of(size_t index) const {
    return echo_[index / static_cast<size_t>(common_.choices)];
  }

  const std::vector<std::string> echo_;  // by prompt
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

void add_usage(engine::Usage& sum, const engine::Usage& choice, bool first) {
  if (first) {
    sum.prompt_tokens += choice.prompt_tokens;
    sum.cached_tokens += choice.cached_tokens;
  }
  sum.completion_tokens += choice.completion_tokens;
  sum.prompt_ms += choice.prompt_ms;
  sum.decode_ms += choice.decode_ms;
}

std::string call_id(const std::string& answer_id, int choice, int call) {
  const size_t dash = answer_id.find_first_of("-_");
  const std::string unique = dash == std::string::npos ? answer_id : answer_id.substr(dash + 1);
  return fmt::format("call_{}{:02x}{:03x}", unique, choice, call);
}

Json progress_object(const engine::PromptProgress& progress,
                     std::chrono::steady_clock::time_point start) {
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  Json out = Json::object();
  out["total"] = progress.total;
  out["cache"] = 0;
  out["processed"] = progress.read;
  out["time_ms"] = spent.count();
  return out;
}

Json byte_array(const std::string& bytes) {
  Json out = Json::array();
  for (const char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace strata::server
