#include "apps/bench_run.h"

#include <algorithm>
#include <chrono>

#include "apps/bench_traffic.h"

namespace strata::apps {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMemoryPasses = 3;  // per round

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One case with the sequences it reuses from round to round.
class CaseRun {
 public:
  static Result<CaseRun> create(BenchModel& loaded, const BenchCase& plan,
                                const BenchOptions& options) {
    CaseRun run(loaded, plan, options);
    const model::Config& config = loaded.model->config();
    const auto length = static_cast<size_t>(plan.tokens + options.steps);
    for (int row = 0; row < plan.rows; ++row) {
      STRATA_ASSIGN_OR_RETURN(
          memory::SequenceState sequence,
          loaded.model->new_sequence(options.kv_type, static_cast<int64_t>(length)));
      run.sequences_.push_back(std::move(sequence));
      run.tokens_.push_back(bench_tokens(row, length, config.vocabulary, config.image_token));
    }
    if (plan.times_prompt) {
      run.prompt_.kind = BenchMeasure::Kind::kPrompt;
      run.prompt_.tokens = plan.tokens;
    }
    if (plan.times_decode) {
      run.decode_.kind = BenchMeasure::Kind::kDecode;
      run.decode_.depth = plan.tokens;
      run.decode_.rows = plan.rows;
      run.decode_.tokens = options.steps;
    }
    return run;
  }

  int64_t tokens_per_round() const {
    const int64_t decoded = plan_.times_decode ? options_->steps : 0;
    return plan_.rows * (plan_.tokens + decoded);
  }

  // `counts`: whether the times are kept. `done` is told after every forward call.
  Status round(bool counts, const std::function<void(int64_t tokens)>& done) {
    const Clock::time_point start = Clock::now();
    for (size_t row = 0; row < sequences_.size(); ++row) {
      STRATA_RETURN_IF_ERROR(sequences_[row].reset());
      STRATA_RETURN_IF_ERROR(read_prompt(row, done));
    }
    if (plan_.times_prompt && counts) prompt_.seconds.push_back(seconds_since(start));
    if (!plan_.times_decode) return {};
    if (counts) return time_decode(done);
    return look_at_decode(done);
  }

  void append_prompt(std::vector<BenchMeasure>& measures) const {
    if (plan_.times_prompt) measures.push_back(prompt_);
  }
  void append_decode(std::vector<BenchMeasure>& measures) const {
    if (plan_.times_decode) measures.push_back(decode_);
  }

 private:
  CaseRun(BenchModel& loaded, const BenchCase& plan, const BenchOptions& options)
      : loaded_(&loaded), plan_(plan), options_(&options) {}

  Status read_prompt(size_t row, const std::function<void(int64_t)>& done) {
    const std::span<const TokenId> prompt(tokens_[row].data(), static_cast<size_t>(plan_.tokens));
    if (prompt.empty()) return {};
    int64_t told = 0;
    STRATA_RETURN_IF_ERROR(loaded_->model->read_prompt(
        sequences_[row], prompt,
        loaded_->engine->prompt_chunk(static_cast<int>(prompt.size()), options_->prompt_chunk),
        [&](int read) -> Status {
          if (options_->cancelled()) return {StatusCode::kCancelled, "stopped"};
          if (read > told) done(read - told);
          told = read;
          return {};
        },
        logits_));
    done(plan_.tokens - told);
    return {};
  }

  Status step(int number) {
    if (options_->cancelled()) return {StatusCode::kCancelled, "stopped"};
    items_.resize(sequences_.size());
    for (size_t row = 0; row < sequences_.size(); ++row) {
      items_[row].sequence = &sequences_[row];
      items_[row].tokens = {&tokens_[row][static_cast<size_t>(plan_.tokens + number)], 1};
    }
    return loaded_->model->forward(items_, logits_);
  }

  Status time_decode(const std::function<void(int64_t)>& done) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < options_->steps; ++i) STRATA_RETURN_IF_ERROR(step(i));
    decode_.seconds.push_back(seconds_since(start));
    done(static_cast<int64_t>(options_->steps) * plan_.rows);
    return {};
  }

  // The same steps untimed, adding up what they read.
  Status look_at_decode(const std::function<void(int64_t)>& done) {
    const model::Config& config = loaded_->model->config();
    const WeightTraffic weights = weight_traffic(loaded_->file->tensors(), config);
    int64_t bytes = 0;
    loaded_->model->set_observer(
        {.on_residual = {},
         .on_routes = [&](int layer, std::span<const int32_t> ids, std::span<const float>) {
           std::vector<int32_t> chosen(ids.begin(), ids.end());
           std::sort(chosen.begin(), chosen.end());
           const auto distinct = std::unique(chosen.begin(), chosen.end()) - chosen.begin();
           bytes += distinct * weights.expert[static_cast<size_t>(layer)];
         }});
    Status status;
    for (int i = 0; i < options_->steps && status.ok(); ++i) {
      status = step(i);
      bytes += weights.dense + weights.head;
      bytes += plan_.rows *
               (weights.per_token + state_traffic(config, options_->kv_type, plan_.tokens + i + 1));
      done(plan_.rows);
    }
    loaded_->model->set_observer({});
    decode_.step_bytes = static_cast<double>(bytes) / options_->steps;
    return status;
  }

  BenchModel* loaded_;
  BenchCase plan_;
  const BenchOptions* options_;
  std::vector<memory::SequenceState> sequences_;
  std::vector<std::vector<TokenId>> tokens_;  // per sequence: prompt, then what is decoded
  std::vector<model::BatchItem> items_;
  std::vector<float> logits_;
  BenchMeasure prompt_, decode_;
};

}  // namespace

Result<std::vector<BenchMeasure>> run_bench(BenchModel& loaded, std::span<const BenchCase> cases,
                                            const BenchOptions& options, MemoryMeter& memory) {
  std::vector<CaseRun> runs;
  int64_t total = 0, done = 0;
  for (const BenchCase& plan : cases) {
    STRATA_ASSIGN_OR_RETURN(CaseRun run, CaseRun::create(loaded, plan, options));
    total += run.tokens_per_round() * (options.repeat + 1);
    runs.push_back(std::move(run));
  }
  const auto advance = [&](int64_t tokens) {
    done += tokens;
    options.progress(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1)));
  };
  for (int round = 0; round <= options.repeat; ++round) {
    for (CaseRun& run : runs) STRATA_RETURN_IF_ERROR(run.round(round > 0, advance));
    for (int i = 0; i < kMemoryPasses; ++i) STRATA_RETURN_IF_ERROR(memory.pass());
  }
  std::vector<BenchMeasure> measures;
  for (const CaseRun& run : runs) run.append_prompt(measures);
  for (const CaseRun& run : runs) run.append_decode(measures);
  return measures;
}

}  // namespace strata::apps
