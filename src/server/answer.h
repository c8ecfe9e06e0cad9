// An Answer turns the events of one request into the bytes of one API dialect, streamed or whole.
// It knows nothing of sockets; calls come from one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/json_input.h"

namespace strata::server {

class Answer {
 public:
  virtual ~Answer() = default;

  // Streaming: begin(), then one delta() per TextDelta, then end(). Each returns SSE events, or
  // nothing when there is nothing to say yet.
  virtual std::string begin() = 0;
  virtual std::string delta(const engine::TextDelta& delta) = 0;
  virtual std::string end(const engine::Finished& finished) = 0;

  // Not streaming: one add() per TextDelta, then whole(), the response body.
  virtual void add(const engine::TextDelta& delta) = 0;
  virtual Json whole(const engine::Finished& finished) = 0;
};

// A checked request, ready for Engine::submit, with the Answer that will speak for it.
struct Generation {
  engine::GenerateRequest request;
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
