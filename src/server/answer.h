// An Answer turns the events of a request into the bytes of one API dialect, streamed or whole. It
// knows nothing of sockets; calls come from one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/http_message.h"
#include "server/json_input.h"
#include "server/sse.h"

namespace strata::server {

// A request may have several choices, generated one beside the other; `choice` counts them from 0.
// begin() comes first, once; then, per choice, any number of progress() and delta() and one
// finish(). A streamed answer returns the events to send, if any; the finish() of the last choice
// ends the stream. A whole answer returns nothing until every choice has finished; then whole() is
// its body.
class Answer {
 public:
  virtual ~Answer() = default;

  virtual std::string begin() = 0;
  virtual std::string progress(int choice, const engine::PromptProgress& progress) {
    static_cast<void>(choice);
    static_cast<void>(progress);
    return {};
  }
  virtual std::string delta(int choice, const engine::TextDelta& delta) = 0;
  virtual std::string finish(int choice, const engine::Finished& finished) = 0;
  virtual Json whole() = 0;

  // The events that end a stream which has failed.
  virtual std::string fail(const Status& status) = 0;
  // What is sent when there has been nothing to say for a while.
  virtual std::string keep_alive() { return sse_comment("keep-alive"); }
};

// A checked request, ready for Engine::submit, with the Answer that will speak for it.
struct Generation {
  std::vector<engine::GenerateRequest> requests;  // one per choice, those of a prompt together
  int choices_per_prompt = 1;
  std::unique_ptr<Answer> answer;
  bool stream = false;
};

// Identity of an answer.
struct AnswerInfo {
  std::string id;       // "chatcmpl-..."
  std::string model;    // ModelInfo::id
  int64_t created = 0;  // Unix seconds
};

}  // namespace strata::server
