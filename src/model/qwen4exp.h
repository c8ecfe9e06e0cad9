// Qwen3.8-Flash-Next (GGUF architecture qwen4exp): the forward pass.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/device.h"
#include "memory/sequence_state.h"
#include "model/config.h"
#include "model/weights.h"

namespace strata::model {

using Position = std::array<int, 3>;  // t, h, w (docs/MODEL.md 3.4)

enum class LogitsOf { kNone, kLastToken, kEveryToken };

// Replaces the embedding of consecutive tokens, for pictures.
struct EmbeddingRows {
  size_t first = 0;            // index into BatchItem::tokens
  std::span<const float> rows;  // [count, width]
};

// New tokens of one sequence.
struct BatchItem {
  memory::SequenceState* sequence = nullptr;
  std::span<const TokenId> tokens;
  LogitsOf logits = LogitsOf::kLastToken;
  // Empty for text: positions then count on from the sequence's next one. Otherwise one per token.
  std::span<const Position> positions;
  int next_position = 0;  // after the tokens; read only when positions are given
  std::span<const EmbeddingRows> embeddings;
};

// What a diagnostic run may look at; all data is on the host and valid during the call.
struct ForwardObserver {
  // The wide residual [rows, streams * width]; layer -1: before the first layer.
  std::function<void(int layer, std::span<const float> residual)> on_residual;
  // Chosen experts, best first, and their weights: [rows, used].
  std::function<void(int layer, std::span<const int32_t> ids, std::span<const float> weights)>
      on_routes;
};

class Qwen4Exp {
 public:
  // The device must outlive the model.
  static Result<std::unique_ptr<Qwen4Exp>> load(std::shared_ptr<const GgufFile> file,
                                                backend::Device& device);
  ~Qwen4Exp();

  const Config& config() const;
  Result<memory::SequenceState> new_sequence(backend::KvType kv_type, int64_t capacity) const;

  // Runs the tokens of every item through the model, extends its sequence, and writes the logits
  // that were asked for to `logits`: [rows, vocabulary], items in order. Results of one item do not
  // depend on the others, nor on how its tokens are cut into calls. One call at a time.
  //
  // Fails with kOutOfRange when a sequence would outgrow its capacity, before anything is changed.
  // After any other failure the sequences of the batch must be reset.
  Status forward(std::span<const BatchItem> batch, std::vector<float>& logits);

  void set_qsa_form(backend::QsaForm form);
  void set_observer(ForwardObserver observer);

 private:
  struct Impl;
  explicit Qwen4Exp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::model
