// One device's part of the model: consecutive layers, with the embeddings before the first layer of
// the model and the head after the last. Stages hand rows of the wide residual on (handoff.h), so
// any two devices can follow each other.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/device.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/decode_graphs.h"
#include "model/handoff.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace strata::model {

// The new tokens of one sequence as every stage sees them. A later stage may still be at work on an
// earlier step while the first stage runs this one, so nothing here is read from the sequence's own
// counters.
struct StepItem {
  const memory::SequenceState* sequence = nullptr;
  std::span<const TokenId> tokens;
  std::span<const Position> positions;  // empty: text
  std::span<const EmbeddingRows> embeddings;
  int64_t start = 0;                // sequence index of the first token
  int first_position = 0;           // its rotary position, where `positions` is empty
  int first_row = 0;                // of the step's rows
  size_t past = 0, past_count = 0;  // the tokens before, in Step::past: what n-grams look back on
};

struct Step {
  std::vector<StepItem> items;
  std::vector<TokenId> past;
  std::vector<int> head_rows;  // rows whose logits are wanted
  int rows = 0;
  int64_t longest = 0;  // tokens of the longest sequence after this step
  TopLogits* top = nullptr;  // where the best logits go; nullptr: all are wanted
};

// Not thread-safe; different stages may run on different threads.
class Stage {
 public:
  // The device must outlive the stage.
  static Result<std::unique_ptr<Stage>> load(std::shared_ptr<const GgufFile> file,
                                             const Config& config, backend::Device& device,
                                             LayerRange range);

  // A step in three calls. begin() prepares it while the stage before may still be at work, then waits
  // for `in`, where the rows of that stage are (unused by the first stage); or, with Flow::kAlone and a
  // step that is replayed, leaves the waiting to Handoff::release(). finish() submits the layers
  // and sends the rows on through `out`. collect() of the last stage waits for `logits`,
  // [head rows, vocabulary], or Step::top, where there are any; of others it does nothing. With
  // Flow::kStream all return while the device is
  // at work, on this step and at most the one before; `out` must then be free, its last rows
  // received. With Flow::kAlone collect() of the last stage waits for the end.
  // `step` must live until collect() returns. A failure names the layer.
  Status begin(const Step& step, Handoff* in, Flow flow);
  // Whether a step with Flow::kAlone repeats a recorded one: then begin() and finish() wait for nothing
  // and allocate nothing.
  bool repeats(const Step& step);
  Status finish(Handoff* out);
  Status collect(std::vector<float>& logits);
  // Waits for what is under way, whatever becomes of it.
  void settle();

  // All logits of the last step, of the last stage.
  Status fetch_logits(std::vector<float>& logits);

  backend::Device& device() { return device_; }
  LayerRange range() const { return range_; }
  bool is_first() const { return range_.first == 0; }
  bool is_last() const { return range_.end == config_.layers; }
  void set_qsa_form(backend::QsaForm form) { qsa_form_ = form; }
  void set_observer(const ForwardObserver* observer) { observer_ = observer; }

 private:
  Stage(backend::Device& device, const Config& config, LayerRange range, Weights weights)
      : device_(device), config_(config), range_(range), weights_(std::move(weights)) {}

  Status begin_step(Handoff* in, Flow flow);
  int64_t head_rows() const {
    return is_last() ? static_cast<int64_t>(step_->head_rows.size()) : 0;
  }
  Status finish_step(Handoff* out);
  // Whether the n-grams are injected in one of this stage's layers.
  bool injects_ngrams() const {
    return config_.ple_layer >= range_.first && config_.ple_layer < range_.end;
  }
  backend::Stream& stream() { return device_.stream(); }
  // Whether the step is one new token of each of its sequences, as a recording serves it.
  bool replayable();
  // Whether the step is nothing but the start of what was recorded as `entry`.
  bool only_replays(const DecodeGraphs::Entry* entry) const;
  // Everything that the launches of the step depend on, for sequences of up to `tokens`.
  std::span<const uint64_t> replay_key(int64_t head_rows);
  // What the host computes, copied to the device.
  Status load_inputs();
  Status load_ngrams();
  Status look_up_ngrams();
  // Launches the layers, with the embeddings before the first and the head after the last, or replays
  // what launching them has recorded.
  Status run_part(size_t part, LayerRange layers);
  Status launch_part(LayerRange layers);
  Status launch_embeddings();
  Status inject_ngrams();
  Status mix(const HcWeights& hc, int rows, const float* residual, float* x, float* inject_weight);
  Status combine(int rows);
  Status run_gdn(size_t layer);
  Status run_attention(size_t layer);
  Status run_moe(int rows, size_t layer);
  Status run_layer(size_t layer);
  Status launch_head();
  Status fetch_top(TopLogits& top);
  Status project(std::initializer_list<backend::Product> products, const float* x, int rows);
  Status project(const backend::WeightRef& w, const float* x, int rows, float* y);
  Status observe_residual(int layer);

  backend::Device& device_;
  const Config& config_;
  const LayerRange range_;
  Weights weights_;
  Workspace ws_{};
  backend::QsaForm qsa_form_ = backend::QsaForm::kHf;
  const ForwardObserver* observer_ = nullptr;

  DecodeGraphs graphs_;
  bool refused_ = false;  // the device did not record what it should

  // The step at work, and host buffers that are kept so that a decode step allocates nothing.
  const Step* step_ = nullptr;
  DecodeGraphs::Entry* entry_ = nullptr;  // of a step that is recorded; nullptr for others
  int64_t tokens_ = 0;                    // of the longest sequence that launches have room for
  size_t logit_rows_ = 0;                 // of the last step
  std::vector<uint64_t> key_;
  // Steps that flow take turns, so that the host prepares one while the device computes another.
  struct Turn {
    HostRows inputs;
    HostRows ngram_values;
    std::unique_ptr<backend::CopyLane> end;  // follows the work of the step; made when steps flow
  };
  std::array<Turn, 2> turns_;
  size_t turn_ = 0;
  Flow flow_ = Flow::kAlone;
  HostRows top_;
  std::vector<TokenId> ngram_window_;
  std::vector<uint64_t> ngram_rows_;
};

}  // namespace strata::model
