// Counts what the server does, for GET /metrics. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace strata::server {

class Metrics {
 public:
  using Seconds = std::chrono::duration<double>;

  // The model's name and the queue are asked of `engine`, which must outlive this.
  explicit Metrics(const engine::Engine& engine);
  ~Metrics();

  void http_request(int status);
  void first_token(Seconds since_request);
  // `reason`: "stop", "length" or "cancelled".
  void generation(std::string_view reason, const engine::Usage& usage, Seconds since_request);
  // A generation of which the engine gave no usage: "cancelled" or "error".
  void unfinished(std::string_view reason);
  void connections(int open);

  // The text format, version 0.0.4. Besides names of its own it has those of llama-server
  // (llamacpp:...) and vLLM (vllm:...), for dashboards made for them; the latter carry the model's
  // name and begin when it is known.
  std::string text() const;

 private:
  class Series;
  std::unique_ptr<Series> series_;
};

}  // namespace strata::server
