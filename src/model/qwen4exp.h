// Qwen3.8-Flash-Next (GGUF architecture qwen4exp) on one device or spread over several in stages of
// consecutive layers (stage.h). Where the layers lie never changes a result.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/device.h"
#include "memory/sequence_state.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/handoff.h"

namespace strata::model {

class Qwen4Exp {
 public:
  // One stage per place; the places cover all layers in order, each once, each on a device of its
  // own. Between stage i and the next one rows of prompts take routes[i], kHost where there is none.
  // The devices must outlive the model.
  static Result<std::unique_ptr<Qwen4Exp>> load(std::shared_ptr<const GgufFile> file,
                                                std::span<const memory::LayerPlace> places,
                                                std::span<const Route> routes = {});
  static Result<std::unique_ptr<Qwen4Exp>> load(std::shared_ptr<const GgufFile> file,
                                                backend::Device& device);
  ~Qwen4Exp();

  const Config& config() const;
  const std::vector<memory::LayerPlace>& places() const;
  Result<memory::SequenceState> new_sequence(backend::KvType kv_type, int64_t capacity) const;

  // Runs the tokens of every item through the model, extends its sequence, and writes the logits
  // that were asked for to `logits`: [rows, vocabulary], items in order. Results of one item do not
  // depend on the others, nor on how its tokens are cut into calls. One call at a time.
  //
  // Fails with kOutOfRange when a sequence would outgrow its capacity, before anything is changed.
  // After any other failure the sequences of the batch must be reset.
  Status forward(std::span<const BatchItem> batch, std::vector<float>& logits);
  // The same, but only the best logits come to the host. `top` says how many.
  Status forward(std::span<const BatchItem> batch, TopLogits& top);

  // Reads `tokens` into the sequence, `chunk` at a time, and gives the logits after the last one. With
  // several stages the chunks flow through them like through a pipeline, so several chunks keep
  // several devices at work. `before_chunk` is told on the calling thread how
  // many tokens the first stage was given; its failure ends the reading. Fails like forward().
  Status read_prompt(memory::SequenceState& sequence, std::span<const TokenId> tokens, int chunk,
                     const std::function<Status(int read)>& before_chunk,
                     std::vector<float>& logits);
  Status read_prompt(memory::SequenceState& sequence, std::span<const TokenId> tokens, int chunk,
                     const std::function<Status(int read)>& before_chunk, TopLogits& top);

  // All logits of the last of the calls above, when that gave the best of them.
  Status fetch_logits(std::vector<float>& logits);

  // Whether forward() or read_prompt() has failed because a direct copy arrived wrong.
  bool direct_copies_failed() const;

  void set_qsa_form(backend::QsaForm form);
  void set_observer(ForwardObserver observer);

 private:
  struct Impl;
  explicit Qwen4Exp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::model
