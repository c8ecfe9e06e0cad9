// Reads the tool calls that a model writes into its answer, while the answer streams in:
//
//   <tool_call>
//   <function=NAME>
//   <parameter=KEY>
//   value
//   </parameter>
//   </function>
//   </tool_call>
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/tool_schema.h"

namespace strata::server {

// A piece of an answer.
struct CallPiece {
  enum class Kind {
    kText,       // text of the answer, outside calls
    kBegin,      // a call of function `text` begins
    kArguments,  // `text` continues the JSON of the call's arguments
    kEnd,        // the call is complete
  };
  Kind kind = Kind::kText;
  int call = 0;  // counts the calls of the answer from 0
  std::string text;
  size_t at = 0;  // of kText: where it stands, in bytes of all that was pushed
};

// The pieces, joined, do not depend on how the text is cut. The arguments of a call are one valid
// JSON object when the call ends, and every call that begins ends, however damaged or short the
// text is. String parameters are passed on as they come, others when they are complete.
//
// A tag inside a value is part of it unless it stands where the form needs it:
//  - </parameter> counts before the next parameter or the end of the call;
//  - a call written inside a value (a line that begins with <function=...>) is text of the value up
//    to its own </function>;
//  - a missing </parameter> is made up for at the start of a line, before </function></tool_call>
//    or a parameter of the tool that has no value yet.
// Also read: a call without <tool_call> when the tool is known, quoted names, and a JSON object
// {"name", "arguments"} between the outer tags. What is no call after all stays text. White space
// between text and calls is dropped.
class ToolCallParser {
 public:
  // `tools` must outlive the parser. Calls after the first `max_calls` are read and dropped.
  explicit ToolCallParser(const ToolSet& tools, int max_calls = 1 << 20);

  void push(std::string_view text, std::vector<CallPiece>& out);
  void finish(std::vector<CallPiece>& out);  // once, at the end

  int calls() const { return calls_; }  // begun so far, dropped ones not counted

 private:
  enum class State { kText, kOpened, kJson, kBody, kValueStart, kValue, kAfterFunction };
  enum class Match { kNo, kYes, kMore };

  bool step(std::vector<CallPiece>& out);  // false when more text is needed
  bool step_text(std::vector<CallPiece>& out);
  bool step_opened(std::vector<CallPiece>& out);
  bool step_json(std::vector<CallPiece>& out);
  bool step_body(std::vector<CallPiece>& out);
  bool step_value_start();
  bool step_value(std::vector<CallPiece>& out);
  bool step_after_function(std::vector<CallPiece>& out);

  // Whether the value ends at the tag at `at`; `end` is where the text after the value goes on.
  Match value_end(size_t at, bool line_start, size_t& end) const;
  Match close_frame(size_t at, bool after_value) const;
  Match literal(size_t at, std::string_view tag) const;
  Match tag(size_t at, std::string_view keyword, bool strict, std::string& name, size_t& end) const;
  Match at_end(size_t at) const;  // nothing but white space follows
  size_t skip_space(size_t at) const;

  // Text of the answer that stands `back` bytes before what is pending.
  void text(std::string_view text, size_t back, std::vector<CallPiece>& out);
  void text_opened(std::string_view more, std::vector<CallPiece>& out);
  void begin_call(std::string name, std::vector<CallPiece>& out);
  void arguments(std::string text, std::vector<CallPiece>& out);
  void begin_value(std::string key, std::vector<CallPiece>& out);
  void value(std::string_view text, std::vector<CallPiece>& out);
  void end_value(std::vector<CallPiece>& out);
  void end_call(std::vector<CallPiece>& out);
  void consume(size_t count) {
    pending_.erase(0, count);
    consumed_ += count;
  }

  const ToolSet& tools_;
  const int max_calls_;
  State state_ = State::kText;
  bool final_ = false;
  std::string pending_;
  size_t consumed_ = 0;  // bytes of the text that are no longer pending

  std::string space_;       // white space after the text so far, dropped before a call
  bool line_start_ = true;  // the text so far ends a line
  bool after_call_ = false;
  std::string opened_;  // "<tool_call>" and what followed, in case it is text

  int calls_ = 0;
  bool dropping_ = false;  // the call is one too many
  bool framed_ = false;    // the call stands between the outer tags
  const Tool* tool_ = nullptr;
  bool any_argument_ = false;
  std::vector<std::string> given_;  // names of the parameters so far
  TypeSet types_ = kAnyType;
  std::string value_;       // of a parameter that is converted when it is complete
  bool value_empty_ = true;
  int nested_ = 0;          // calls open inside the value
  size_t json_scanned_ = 0;
  int json_depth_ = 0;
  bool json_string_ = false;
  bool json_escape_ = false;
};

}  // namespace strata::server
