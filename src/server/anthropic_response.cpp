#include "server/anthropic_response.h"

#include <array>

#include "server/errors.h"

namespace strata::server {
namespace {

// Clients send it back with the thinking; nothing here depends on it.
constexpr const char* kSignature = "c3RyYXRh";

struct ErrorWord {
  int status;
  const char* type;
};
// Of this API alone.
constexpr int kOverloadedStatus = 529;
constexpr std::array<ErrorWord, 8> kErrorWords{{{400, "invalid_request_error"},
                                                {401, "authentication_error"},
                                                {403, "permission_error"},
                                                {404, "not_found_error"},
                                                {405, "invalid_request_error"},
                                                {413, "request_too_large"},
                                                {429, "rate_limit_error"},
                                                {kOverloadedStatus, "overloaded_error"}}};

Json parsed(const std::string& arguments) {
  Json out = json_in(valid_utf8(arguments));
  return out.is_object() ? out : Json::object();
}

class MessagesAnswer final : public Answer {
 public:
  MessagesAnswer(AnswerInfo info, const MessagesAnswerOptions& options)
      : info_(std::move(info)), options_(options), reader_(options.reply) {
    usage_.prompt_tokens = options.prompt_tokens;
  }

  std::string begin() override {
    if (!options_.stream) return {};
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = usage();
    return event("message_start", Json{{"message", std::move(message)}}) + keep_alive();
  }

  std::string delta(int, const engine::TextDelta& delta) override {
    return take(reader_.push(delta));
  }

  std::string finish(int, const engine::Finished& finished) override {
    std::string out = take(reader_.finish(finished.reason));
    usage_ = finished.usage;
    finished_ = finished;
    if (!options_.stream) return {};
    out += close_block();
    Json changes = Json::object();
    changes["stop_reason"] = stop_reason();
    changes["stop_sequence"] = stop_sequence();
    out += event("message_delta", Json{{"delta", std::move(changes)}, {"usage", usage()}});
    out += event("message_stop", Json::object());
    return out;
  }

  Json whole() override {
    Json out = head();
    out["content"] = std::move(content_);
    out["stop_reason"] = stop_reason();
    out["stop_sequence"] = stop_sequence();
    out["usage"] = usage();
    return out;
  }

  std::string fail(const Status& status) override {
    const ErrorRow& row = error_row(status.code());
    const int told = messages_status(row.http_status, row.code != nullptr ? row.code : "");
    Json error = messages_error(told, status.message(), options_.request_id);
    error.erase("type");
    return event("error", std::move(error));
  }

  std::string keep_alive() override { return event("ping", Json::object()); }

 private:
  enum class Block { kNone, kThinking, kText, kTool };

  static std::string event(const char* type, Json data) {
    Json out = Json{{"type", type}};
    out.update(data);
    return sse_event(type, out);
  }

  Json head() const {
    Json out = Json::object();
    out["id"] = info_.id;
    out["type"] = "message";
    out["role"] = "assistant";
    out["model"] = info_.model;
    return out;
  }

  Json usage() const {
    Json out = Json::object();
    out["input_tokens"] = usage_.prompt_tokens - usage_.cached_tokens;
    out["cache_creation_input_tokens"] = 0;
    out["cache_read_input_tokens"] = usage_.cached_tokens;
    out["output_tokens"] = usage_.completion_tokens;
    return out;
  }

  const char* stop_reason() const {
    if (finished_.reason == engine::FinishReason::kLength) return "max_tokens";
    if (!finished_.stop_string.empty()) return "stop_sequence";
    return reader_.calls() > 0 ? "tool_use" : "end_turn";
  }
  Json stop_sequence() const {
    return finished_.stop_string.empty() ? Json(nullptr) : Json(finished_.stop_string);
  }

  std::string call_name(int call) const {
    return fmt::format("toolu_{}{:03x}", info_.id.substr(info_.id.find('_') + 1), call);
  }

  std::string take(const std::vector<ReplyPart>& parts) {
    std::string out;
    for (const ReplyPart& part : parts) {
      if (!options_.stream) {
        collect(part);
        continue;
      }
      switch (part.kind) {
        case ReplyPart::Kind::kReasoning:
          out += open_block(Block::kThinking,
                            Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
          out += block_delta(Json{{"type", "thinking_delta"}, {"thinking", part.text}});
          break;
        case ReplyPart::Kind::kText:
          out += open_block(Block::kText, Json{{"type", "text"}, {"text", ""}});
          out += block_delta(Json{{"type", "text_delta"}, {"text", part.text}});
          break;
        case ReplyPart::Kind::kCallBegin:
          out += close_block();
          out += open_block(Block::kTool, Json{{"type", "tool_use"},
                                               {"id", call_name(part.call)},
                                               {"name", part.text},
                                               {"input", Json::object()}});
          break;
        case ReplyPart::Kind::kCallArguments:
          out += block_delta(Json{{"type", "input_json_delta"}, {"partial_json", part.text}});
          break;
        case ReplyPart::Kind::kCallEnd: out += close_block(); break;
      }
    }
    return out;
  }

  // Into content_, with the blocks that a stream has.
  void collect(const ReplyPart& part) {
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning:
        if (std::exchange(block_, Block::kThinking) != Block::kThinking) {
          content_.push_back(
              Json{{"type", "thinking"}, {"thinking", ""}, {"signature", kSignature}});
        }
        content_.back()["thinking"].get_ref<std::string&>() += part.text;
        break;
      case ReplyPart::Kind::kText:
        if (std::exchange(block_, Block::kText) != Block::kText) {
          content_.push_back(Json{{"type", "text"}, {"text", ""}});
        }
        content_.back()["text"].get_ref<std::string&>() += part.text;
        break;
      case ReplyPart::Kind::kCallBegin:
        block_ = Block::kTool;
        arguments_.clear();
        content_.push_back(Json{{"type", "tool_use"},
                                {"id", call_name(part.call)},
                                {"name", part.text},
                                {"input", Json::object()}});
        break;
      case ReplyPart::Kind::kCallArguments: arguments_ += part.text; break;
      case ReplyPart::Kind::kCallEnd:
        block_ = Block::kNone;
        content_.back()["input"] = parsed(arguments_);
        break;
    }
  }

  // Nothing when such a block is open already.
  std::string open_block(Block kind, Json content) {
    if (block_ == kind) return {};
    std::string out = close_block();
    block_ = kind;
    out += event("content_block_start",
                 Json{{"index", index_}, {"content_block", std::move(content)}});
    return out;
  }

  std::string block_delta(Json delta) {
    return event("content_block_delta", Json{{"index", index_}, {"delta", std::move(delta)}});
  }

  std::string close_block() {
    if (block_ == Block::kNone) return {};
    std::string out;
    if (block_ == Block::kThinking) {
      out += block_delta(Json{{"type", "signature_delta"}, {"signature", kSignature}});
    }
    out += event("content_block_stop", Json{{"index", index_}});
    block_ = Block::kNone;
    ++index_;
    return out;
  }

  const AnswerInfo info_;
  const MessagesAnswerOptions options_;
  ReplyReader reader_;
  Json content_ = Json::array();  // of a whole answer
  std::string arguments_;         // of its open call
  engine::Usage usage_;
  engine::Finished finished_;
  Block block_ = Block::kNone;
  int index_ = 0;
};

}  // namespace

std::unique_ptr<Answer> make_messages_answer(AnswerInfo info, const MessagesAnswerOptions& options) {
  return std::make_unique<MessagesAnswer>(std::move(info), options);
}

int messages_status(int http_status, std::string_view code) {
  return code == kOverloaded ? kOverloadedStatus : http_status;
}

Json messages_error(int http_status, const std::string& message, const std::string& request_id) {
  const char* type = http_status >= 500 ? "api_error" : "invalid_request_error";
  for (const ErrorWord& word : kErrorWords) {
    if (word.status == http_status) type = word.type;
  }
  Json out = Json::object();
  out["type"] = "error";
  out["error"] = Json{{"type", type}, {"message", message}};
  out["request_id"] = request_id;
  return out;
}

}  // namespace strata::server
