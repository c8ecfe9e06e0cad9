#include "server/responses_response.h"

#include <algorithm>
#include <deque>

#include "server/errors.h"
#include "server/openai_response.h"

namespace strata::server {
namespace {

Json logprob_object(const engine::TopLogprob& one) {
  return Json{{"token", valid_utf8(one.bytes)},
              {"logprob", one.logprob},
              {"bytes", byte_array(one.bytes)}};
}

Json logprob_list(const std::vector<engine::TokenLogprob>& tokens) {
  Json out = Json::array();
  for (const auto& token : tokens) {
    Json entry = logprob_object(token);
    entry["top_logprobs"] = Json::array();
    for (const auto& other : token.top) entry["top_logprobs"].push_back(logprob_object(other));
    out.push_back(std::move(entry));
  }
  return out;
}

// A token and the bytes of the answer that it stands for, [begin, end).
struct PlacedToken {
  engine::TokenLogprob token;
  size_t begin = 0;
  size_t end = 0;
};

class ResponsesAnswer final : public Answer {
 public:
  ResponsesAnswer(AnswerInfo info, ResponsesAnswerOptions options)
      : info_(std::move(info)), options_(std::move(options)), reader_(options_.reply) {}

  std::string begin() override {
    const Json response = object("in_progress");
    std::string out = event("response.created", Json{{"response", response}});
    out += event("response.in_progress", Json{{"response", response}});
    return out;
  }

  std::string delta(int, const engine::TextDelta& delta) override {
    place(delta);
    return take(reader_.push(delta));
  }

  std::string finish(int, const engine::Finished& finished) override {
    usage_ = finished.usage;
    finished_ = true;
    cut_ = finished.reason == engine::FinishReason::kLength;
    std::string out = take(reader_.finish(finished.reason), cut_);
    out += close_item(cut_ ? "incomplete" : "completed");
    final_ = object(cut_ ? "incomplete" : "completed");
    if (options_.keep) options_.keep(final_, message());
    out += event(cut_ ? "response.incomplete" : "response.completed", Json{{"response", final_}});
    return options_.stream ? out : std::string();
  }

  Json whole() override { return std::move(final_); }

  std::string fail(const Status& status) override {
    const ErrorRow& row = error_row(status.code());
    Json error = Json::object();
    error["code"] = row.code != nullptr ? row.code : row.type;
    error["message"] = status.message();
    error["param"] = nullptr;
    std::string out = event("error", error);
    error.erase("param");
    error["code"] = "server_error";
    Json response = object("failed");
    response["error"] = std::move(error);
    return out + event("response.failed", Json{{"response", std::move(response)}});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  std::string event(const char* type, Json data) {
    if (!options_.stream) return {};
    Json out = Json::object();
    out["type"] = type;
    out["sequence_number"] = sequence_++;
    out.update(data);
    return sse_event(type, out);
  }

  // Names the item, or the part of it, that an event is about.
  Json about(bool part) const {
    Json out = Json::object();
    out["item_id"] = item_["id"];
    out["output_index"] = output_.size();
    if (part) out["content_index"] = 0;
    return out;
  }
  std::string item_event(const char* type, bool part, Json data) {
    Json out = about(part);
    out.update(data);
    return event(type, std::move(out));
  }

  Json object(const char* status) const {
    Json out = Json::object();
    out["id"] = info_.id;
    out["object"] = "response";
    out["created_at"] = info_.created;
    out["status"] = status;
    out["background"] = false;
    out["error"] = nullptr;
    out["incomplete_details"] = cut_ ? Json{{"reason", "max_output_tokens"}} : Json(nullptr);
    out["model"] = info_.model;
    out["output"] = output_;
    out.update(options_.echo);
    // Of an answer that goes on or failed nobody has counted it.
    out["usage"] = finished_ ? usage() : Json(nullptr);
    return out;
  }

  Json usage() const {
    Json out = Json::object();
    out["input_tokens"] = usage_.prompt_tokens;
    out["input_tokens_details"] = Json{{"cached_tokens", usage_.cached_tokens}};
    out["output_tokens"] = usage_.completion_tokens;
    out["output_tokens_details"] = Json{{"reasoning_tokens", reader_.reasoning_tokens()}};
    out["total_tokens"] = usage_.prompt_tokens + usage_.completion_tokens;
    return out;
  }

  std::string unique() const { return info_.id.substr(info_.id.find('_') + 1); }

  // Finds the bytes of the text that each token stands for. Characters that were repaired have
  // other lengths than their tokens, so a token never reaches out of its delta.
  void place(const engine::TextDelta& delta) {
    delta_begin_ = raw_;
    const size_t limit = raw_ + delta.text.size();
    if (options_.logprobs) {
      size_t at = raw_;
      for (const engine::TokenLogprob& token : delta.logprobs) {
        const size_t end = std::min(at + token.bytes.size(), limit);
        waiting_logprobs_.push_back({token, at, end});
        at = end;
      }
    }
    raw_ = limit;
  }

  // The tokens of the `size` bytes of text at `at`. Those before them are of no text.
  std::vector<engine::TokenLogprob> tokens_of(size_t at, size_t size) {
    std::vector<engine::TokenLogprob> out;
    while (!waiting_logprobs_.empty() && waiting_logprobs_.front().begin < at + size) {
      PlacedToken token = std::move(waiting_logprobs_.front());
      waiting_logprobs_.pop_front();
      const bool empty = token.begin == token.end && token.begin >= at;
      if (empty || token.end > at) out.push_back(std::move(token.token));
    }
    return out;
  }

  // `ends_cut`: the parts are the last ones, and a call among them that ends last was not written
  // to its end.
  std::string take(const std::vector<ReplyPart>& parts, bool ends_cut = false) {
    reply_.add(parts);
    std::string out;
    for (const ReplyPart& part : parts) {
      switch (part.kind) {
        case ReplyPart::Kind::kReasoning: out += reasoning(part.text); break;
        case ReplyPart::Kind::kText: out += text(part); break;
        case ReplyPart::Kind::kCallBegin: out += begin_call(part); break;
        case ReplyPart::Kind::kCallArguments:
          text_ += part.text;
          out += item_event("response.function_call_arguments.delta", false,
                            Json{{"delta", part.text}});
          break;
        case ReplyPart::Kind::kCallEnd:
          out += close_item(ends_cut && &part == &parts.back() ? "incomplete" : "completed");
          break;
      }
    }
    return out;
  }

  std::string reasoning(const std::string& text) {
    std::string out;
    if (kind_ != Item::kReasoning) {
      out += open_item(Item::kReasoning, "rs",
                       Json{{"type", "reasoning"},
                            {"summary", Json::array()},
                            {"content", Json::array()},
                            {"status", "in_progress"}});
      out += item_event("response.content_part.added", true,
                        Json{{"part", {{"type", "reasoning_text"}, {"text", ""}}}});
    }
    text_ += text;
    // Tokens of earlier deltas were thinking too, and there may be many.
    while (!waiting_logprobs_.empty() && waiting_logprobs_.front().end <= delta_begin_) {
      waiting_logprobs_.pop_front();
    }
    return out + item_event("response.reasoning_text.delta", true, Json{{"delta", text}});
  }

  std::string text(const ReplyPart& part) {
    const std::string& text = part.text;
    std::string out;
    if (kind_ != Item::kMessage) {
      out += open_item(Item::kMessage, "msg",
                       Json{{"type", "message"},
                            {"status", "in_progress"},
                            {"role", "assistant"},
                            {"content", Json::array()}});
      out += item_event("response.content_part.added", true, Json{{"part", text_part("")}});
    }
    text_ += text;
    Json told = logprob_list(tokens_of(part.at, text.size()));
    for (const Json& one : told) logprobs_.push_back(one);
    return out + item_event("response.output_text.delta", true,
                            Json{{"delta", text}, {"logprobs", std::move(told)}});
  }

  std::string begin_call(const ReplyPart& part) {
    return open_item(Item::kCall, "fc",
                     Json{{"type", "function_call"},
                          {"status", "in_progress"},
                          {"arguments", ""},
                          {"call_id", call_id(info_.id, 0, part.call)},
                          {"name", part.text}});
  }

  Json text_part(const std::string& text) const {
    return Json{{"type", "output_text"},
                {"text", text},
                {"annotations", Json::array()},
                {"logprobs", logprobs_}};
  }

  std::string open_item(Item kind, const char* prefix, Json item) {
    std::string out = close_item("completed");
    kind_ = kind;
    text_.clear();
    logprobs_ = Json::array();
    item_ = Json{{"id", fmt::format("{}_{}{:03x}", prefix, unique(), output_.size())}};
    item_.update(item);
    out += event("response.output_item.added",
                 Json{{"output_index", output_.size()}, {"item", item_}});
    return out;
  }

  std::string close_item(const char* status) {
    std::string out;
    switch (std::exchange(kind_, Item::kNone)) {
      case Item::kNone: return {};
      case Item::kReasoning: {
        const Json part{{"type", "reasoning_text"}, {"text", text_}};
        out += item_event("response.reasoning_text.done", true, Json{{"text", text_}});
        out += item_event("response.content_part.done", true, Json{{"part", part}});
        item_["content"] = Json::array({part});
        break;
      }
      case Item::kMessage: {
        const Json part = text_part(text_);
        out += item_event("response.output_text.done", true,
                          Json{{"text", text_}, {"logprobs", logprobs_}});
        out += item_event("response.content_part.done", true, Json{{"part", part}});
        item_["content"] = Json::array({part});
        break;
      }
      case Item::kCall:
        out += item_event("response.function_call_arguments.done", false,
                          Json{{"name", item_["name"]}, {"arguments", text_}});
        item_["arguments"] = text_;
        break;
    }
    item_["status"] = status;
    out += event("response.output_item.done",
                 Json{{"output_index", output_.size()}, {"item", item_}});
    output_.push_back(std::move(item_));
    return out;
  }

  // The answer as a message of a chat.
  Json message() {
    Json out = Json{{"role", "assistant"}, {"content", reply_.text}};
    if (!reply_.reasoning.empty()) out["reasoning_content"] = reply_.reasoning;
    for (size_t i = 0; i < reply_.calls.size(); ++i) {
      out["tool_calls"].push_back(
          Json{{"id", call_id(info_.id, 0, static_cast<int>(i))},
               {"type", "function"},
               {"function",
                {{"name", reply_.calls[i].name}, {"arguments", reply_.calls[i].arguments}}}});
    }
    return out;
  }

  const AnswerInfo info_;
  const ResponsesAnswerOptions options_;
  ReplyReader reader_;
  Reply reply_;
  engine::Usage usage_;
  bool finished_ = false;
  bool cut_ = false;  // for want of tokens
  int sequence_ = 0;
  Json output_ = Json::array();  // complete items
  Item kind_ = Item::kNone;
  Json item_;
  std::string text_;  // of the open item
  size_t raw_ = 0;          // bytes of text that the engine has given
  size_t delta_begin_ = 0;  // those before its last delta
  std::deque<PlacedToken> waiting_logprobs_;
  Json logprobs_ = Json::array();
  Json final_;
};

}  // namespace

std::unique_ptr<Answer> make_responses_answer(AnswerInfo info, ResponsesAnswerOptions options) {
  return std::make_unique<ResponsesAnswer>(std::move(info), std::move(options));
}

}  // namespace strata::server
