// What an answer is made of, whichever API it is told in: thinking, text and tool calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/reasoning_splitter.h"
#include "server/tool_call_parser.h"

namespace strata::server {

struct ReplyPart {
  enum class Kind {
    kReasoning,
    kText,
    kCallBegin,      // `text` is the function's name
    kCallArguments,  // `text` continues the JSON of the arguments
    kCallEnd,
  };
  Kind kind = Kind::kText;
  int call = 0;  // index of the call in the answer
  std::string text;
  size_t at = 0;  // of kText: where it stands, in bytes of all the text of the deltas
};

struct ReplyOptions {
  bool starts_in_reasoning = false;
  std::optional<TokenId> think_close;    // id of "</think>", for counting reasoning tokens
  std::shared_ptr<const ToolSet> tools;  // none: calls stay text
  int max_calls = 1 << 20;
};

// Turns the events of one generation into parts. The joined parts do not depend on how the engine
// cuts the text.
class ReplyReader {
 public:
  explicit ReplyReader(ReplyOptions options);

  std::vector<ReplyPart> push(const engine::TextDelta& delta);
  // What was held back. A complete call at the very end of thinking that was never closed counts as
  // a call: the model forgot the closing tag, and the client waits for the call.
  std::vector<ReplyPart> finish(engine::FinishReason reason);

  // Tokens up to and with the one that closes the thinking.
  int reasoning_tokens() const { return reasoning_tokens_; }
  int calls() const { return calls_; }

 private:
  void take(const ReasoningSplitter::Piece& piece, std::vector<ReplyPart>& out);
  void take(std::vector<CallPiece> pieces, std::vector<ReplyPart>& out);
  void remember(const std::string& reasoning);

  ReplyOptions options_;
  ReasoningSplitter splitter_;
  std::optional<ToolCallParser> parser_;
  int reasoning_tokens_ = 0;
  bool closed_ = false;
  int calls_ = 0;
  size_t content_ = 0;  // bytes of content so far, without a parser
  std::string tail_;  // of the thinking: from its last "<tool_call>"
};

// The parts of an answer put together.
struct Reply {
  struct Call {
    std::string name;
    std::string arguments;  // one JSON object
  };
  std::string reasoning;
  std::string text;
  std::vector<Call> calls;

  void add(const std::vector<ReplyPart>& parts);
};

}  // namespace strata::server
