#include "model/qwen4exp.h"

#include <algorithm>

#include "model/pipeline.h"
#include "model/stage.h"

namespace strata::model {

using backend::Device;
using backend::KvType;
using backend::QsaForm;
using memory::LayerPlace;
using memory::SequenceState;

struct Qwen4Exp::Impl {
  Config config;
  std::vector<LayerPlace> places;
  std::vector<std::unique_ptr<Stage>> stages{};
  std::vector<Handoffs> handoffs{};  // one per stage but the last
  ForwardObserver observer{};
  // Kept from call to call, so that a decode step allocates nothing.
  Step step{};
  TopLogits* top = nullptr;  // of the call underway: Step::top

  Status check(std::span<const BatchItem> batch) const;
  void plan(std::span<const BatchItem> batch, Step& out) const;
  Status check(const TopLogits& top) const;
  Status forward(std::span<const BatchItem> batch, std::vector<float>& logits);
  Status read_prompt(SequenceState& sequence, std::span<const TokenId> tokens, int chunk,
                     const std::function<Status(int)>& before_chunk, std::vector<float>& logits);
  Status run_stages(std::vector<float>& logits);
  Status submit_stages();
};

namespace {

int next_position(const BatchItem& item) {
  return item.positions.empty()
             ? item.sequence->next_position() + static_cast<int>(item.tokens.size())
             : item.next_position;
}

}  // namespace

Qwen4Exp::Qwen4Exp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Qwen4Exp::~Qwen4Exp() = default;

Result<std::unique_ptr<Qwen4Exp>> Qwen4Exp::load(std::shared_ptr<const GgufFile> file,
                                                 std::span<const LayerPlace> places,
                                                 std::span<const Route> routes) {
  STRATA_ASSIGN_OR_RETURN(Config config, Config::read(*file));
  int next = 0;
  for (const LayerPlace& place : places) {
    if (place.first != next || place.end <= place.first) {
      return invalid_argument(
          "stages must hold layers in order, at least one each; one holds {} to {}", place.first,
          place.end - 1);
    }
    next = place.end;
    // Stages run at the same time, and a device serves one thread at a time.
    const auto same = [&](const LayerPlace& other) { return other.device == place.device; };
    if (std::count_if(places.begin(), places.end(), same) > 1) {
      return invalid_argument("{} holds two stages; give each device one range of layers",
                              place.device->caps().id);
    }
  }
  if (next != config.layers) {
    return invalid_argument("the stages hold layers 0 to {} of {}", next - 1, config.layers);
  }
  auto impl = std::unique_ptr<Impl>(
      new Impl{.config = std::move(config), .places = {places.begin(), places.end()}});
  for (const LayerPlace& place : places) {
    STRATA_ASSIGN_OR_RETURN(
        std::unique_ptr<Stage> stage,
        Stage::load(file, impl->config, *place.device, {place.first, place.end}));
    impl->stages.push_back(std::move(stage));
  }
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const Route route = i < routes.size() ? routes[i] : Route::kHost;
    for (auto& handoff : impl->handoffs.emplace_back()) {
      STRATA_ASSIGN_OR_RETURN(handoff,
                              Handoff::make(*places[i].device, *places[i + 1].device, route));
    }
  }
  return std::unique_ptr<Qwen4Exp>(new Qwen4Exp(std::move(impl)));
}

Result<std::unique_ptr<Qwen4Exp>> Qwen4Exp::load(std::shared_ptr<const GgufFile> file,
                                                 Device& device) {
  STRATA_ASSIGN_OR_RETURN(const Config config, Config::read(*file));
  const LayerPlace everything{&device, 0, config.layers};
  return load(std::move(file), {&everything, 1}, {});
}

const Config& Qwen4Exp::config() const { return impl_->config; }
const std::vector<LayerPlace>& Qwen4Exp::places() const { return impl_->places; }

bool Qwen4Exp::direct_copies_failed() const {
  return std::any_of(impl_->handoffs.begin(), impl_->handoffs.end(), [](const Handoffs& pair) {
    return pair[0]->failed_check() || pair[1]->failed_check();
  });
}

void Qwen4Exp::set_qsa_form(QsaForm form) {
  for (const auto& stage : impl_->stages) stage->set_qsa_form(form);
}

void Qwen4Exp::set_observer(ForwardObserver observer) {
  impl_->observer = std::move(observer);
  for (const auto& stage : impl_->stages) stage->set_observer(&impl_->observer);
}

Result<SequenceState> Qwen4Exp::new_sequence(KvType kv_type, int64_t capacity) const {
  return SequenceState::create(impl_->places, impl_->config.state_shape(), kv_type, capacity);
}

Status Qwen4Exp::forward(std::span<const BatchItem> batch, std::vector<float>& logits) {
  impl_->top = nullptr;
  return impl_->forward(batch, logits);
}
Status Qwen4Exp::forward(std::span<const BatchItem> batch, TopLogits& top) {
  STRATA_RETURN_IF_ERROR(impl_->check(top));
  impl_->top = &top;
  std::vector<float> none;
  return impl_->forward(batch, none);
}
Status Qwen4Exp::read_prompt(SequenceState& sequence, std::span<const TokenId> tokens, int chunk,
                             const std::function<Status(int)>& before_chunk,
                             std::vector<float>& logits) {
  impl_->top = nullptr;
  return impl_->read_prompt(sequence, tokens, chunk, before_chunk, logits);
}
Status Qwen4Exp::read_prompt(SequenceState& sequence, std::span<const TokenId> tokens, int chunk,
                             const std::function<Status(int)>& before_chunk, TopLogits& top) {
  STRATA_RETURN_IF_ERROR(impl_->check(top));
  impl_->top = &top;
  std::vector<float> none;
  return impl_->read_prompt(sequence, tokens, chunk, before_chunk, none);
}

Status Qwen4Exp::fetch_logits(std::vector<float>& logits) {
  return impl_->stages.back()->fetch_logits(logits);
}

Status Qwen4Exp::Impl::forward(std::span<const BatchItem> batch, std::vector<float>& logits) {
  STRATA_RETURN_IF_ERROR(check(batch));
  plan(batch, step);
  STRATA_RETURN_IF_ERROR(run_stages(logits));
  for (const BatchItem& item : batch) item.sequence->append(item.tokens, next_position(item));
  return {};
}

Status Qwen4Exp::Impl::read_prompt(SequenceState& sequence, std::span<const TokenId> tokens,
                                   int chunk, const std::function<Status(int)>& before_chunk,
                                   std::vector<float>& logits) {
  const BatchItem whole{.sequence = &sequence,
                        .tokens = tokens,
                        .logits = LogitsOf::kLastToken,
                        .positions = {},
                        .next_position = 0,
                        .embeddings = {}};
  STRATA_RETURN_IF_ERROR(check({&whole, 1}));
  const auto cut = static_cast<size_t>(chunk);
  // Sequence counters advance when a chunk enters the first stage; the other stages read the step.
  const auto next_step = [&](size_t begin, Step& next) -> Status {
    STRATA_RETURN_IF_ERROR(before_chunk(static_cast<int>(begin)));
    const size_t count = std::min(cut, tokens.size() - begin);
    const bool last = begin + count == tokens.size();
    BatchItem item = whole;
    item.tokens = tokens.subspan(begin, count);
    item.logits = last ? LogitsOf::kLastToken : LogitsOf::kNone;
    plan({&item, 1}, next);
    sequence.append(item.tokens, next_position(item));
    return {};
  };
  if (stages.size() == 1) {
    for (size_t begin = 0; begin < tokens.size(); begin += cut) {
      Status status = next_step(begin, step);
      if (status.ok()) status = stages[0]->begin(step, nullptr, Flow::kStream);
      if (status.ok()) status = stages[0]->finish(nullptr);
      if (status.ok()) status = stages[0]->collect(logits);
      if (status.ok()) continue;
      stages[0]->settle();
      return status;
    }
    return {};
  }
  return run_pipeline(stages, handoffs, tokens.size(), cut, next_step, logits);
}

Status Qwen4Exp::Impl::check(std::span<const BatchItem> batch) const {
  for (const BatchItem& item : batch) {
    const auto count = static_cast<int>(item.tokens.size());
    if (count == 0) return invalid_argument("a batch item without tokens");
    if (item.sequence->length() + count > item.sequence->capacity()) {
      return out_of_range("{} tokens and {} more do not fit a context of {}",
                          item.sequence->length(), count, item.sequence->capacity());
    }
    for (const TokenId id : item.tokens) {
      if (id < 0 || id >= config.vocabulary) {
        return invalid_argument("token id {} is outside the vocabulary of {}", id,
                                config.vocabulary);
      }
    }
    if (!item.positions.empty() && item.positions.size() != item.tokens.size()) {
      return invalid_argument("{} positions for {} tokens", item.positions.size(), count);
    }
  }
  return {};
}

Status Qwen4Exp::Impl::check(const TopLogits& wanted) const {
  using TopK = backend::TopKLogitsArgs;
  if (wanted.k < 1 || wanted.k > std::min(TopK::kMost, wanted.valid) ||
      wanted.valid > std::min(config.vocabulary, TopK::kMostTokens)) {
    return invalid_argument("the {} best of {} logits are wanted; 1 to {} of a vocabulary of {} can be had",
                            wanted.k, wanted.valid, TopK::kMost, config.vocabulary);
  }
  return {};
}

void Qwen4Exp::Impl::plan(std::span<const BatchItem> batch, Step& out) const {
  out.items.clear();
  out.past.clear();
  out.head_rows.clear();
  out.rows = 0;
  out.longest = 0;
  out.top = top;
  const auto look_back = static_cast<size_t>(config.has_ple() ? config.ple.ngram - 1 : 0);
  for (const BatchItem& item : batch) {
    const auto count = static_cast<int>(item.tokens.size());
    const std::vector<TokenId>& past = item.sequence->tokens();
    const size_t keep = std::min(past.size(), look_back);
    out.items.push_back({.sequence = item.sequence,
                         .tokens = item.tokens,
                         .positions = item.positions,
                         .embeddings = item.embeddings,
                         .start = item.sequence->length(),
                         .first_position = item.sequence->next_position(),
                         .first_row = out.rows,
                         .past = out.past.size(),
                         .past_count = keep});
    out.past.insert(out.past.end(), past.end() - static_cast<ptrdiff_t>(keep), past.end());
    if (item.logits == LogitsOf::kEveryToken) {
      for (int i = 0; i < count; ++i) out.head_rows.push_back(out.rows + i);
    } else if (item.logits == LogitsOf::kLastToken) {
      out.head_rows.push_back(out.rows + count - 1);
    }
    out.rows += count;
    out.longest = std::max(out.longest, item.sequence->length() + count);
  }
}

// All stages one after the other on the calling thread.
Status Qwen4Exp::Impl::run_stages(std::vector<float>& logits) {
  Status status = submit_stages();
  if (status.ok()) status = stages.back()->collect(logits);
  if (status.ok()) return {};
  for (const Handoffs& pair : handoffs) pair[0]->settle();
  return status;
}

// Leaves the last stage at work. A stage that can be told to wait is given its work while the stages
// before it compute.
Status Qwen4Exp::Impl::submit_stages() {
  size_t released = 0;  // hand-offs whose receivers have begun
  const auto release = [&](size_t end) -> Status {
    for (; released < end; ++released) STRATA_RETURN_IF_ERROR(handoffs[released][0]->release());
    return {};
  };
  for (size_t i = 0; i < stages.size(); ++i) {
    Handoff* in = i > 0 ? handoffs[i - 1][0].get() : nullptr;
    // What does not repeat a recording waits for its device and for the stage before, which must then
    // be on its way.
    if (i > 0 && !stages[i]->repeats(step)) STRATA_RETURN_IF_ERROR(release(i - 1));
    STRATA_RETURN_IF_ERROR(stages[i]->begin(step, in, Flow::kAlone));
    STRATA_RETURN_IF_ERROR(stages[i]->finish(i < handoffs.size() ? handoffs[i][0].get() : nullptr));
  }
  return release(handoffs.size());
}

}  // namespace strata::model
