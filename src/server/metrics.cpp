#include "server/metrics.h"

#include <mutex>
#include <optional>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace strata::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;

// Bounds in seconds, as vLLM has them.
const Histogram::BucketBoundaries& first_token_bounds() {
  static const Histogram::BucketBoundaries bounds{
      0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
      1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
  return bounds;
}
const Histogram::BucketBoundaries& per_token_bounds() {
  static const Histogram::BucketBoundaries bounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                  0.3,  0.4,   0.5,  0.75,  1.0, 2.5,  5.0,
                                                  7.5,  10.0,  20.0, 40.0,  80.0};
  return bounds;
}
const Histogram::BucketBoundaries& request_bounds() {
  static const Histogram::BucketBoundaries bounds{
      0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,   5.0,   10.0,  15.0,  20.0,
      30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  return bounds;
}

Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& histograms(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}
Counter& counter(Registry& registry, const char* name, const char* help) {
  return counters(registry, name, help).Add({});
}
Gauge& gauge(Registry& registry, const char* name, const char* help) {
  return gauges(registry, name, help).Add({});
}

double rate(const Counter& count, const Counter& seconds) {
  return seconds.Value() > 0 ? count.Value() / seconds.Value() : 0.0;
}

// The names of our own.
struct OwnSeries {
  explicit OwnSeries(Registry& r)
      : prompt_tokens(counter(r, "strata_prompt_tokens_total",
                              "Prompt tokens, cached ones included.")),
        cached_tokens(counter(r, "strata_prompt_tokens_cached_total",
                              "Prompt tokens that needed no computation.")),
        completion_tokens(counter(r, "strata_completion_tokens_total", "Generated tokens.")),
        prompt_seconds(counter(r, "strata_prompt_seconds_total", "Time spent reading prompts.")),
        decode_seconds(counter(r, "strata_decode_seconds_total", "Time spent generating.")),
        http_requests(counters(r, "strata_http_requests_total", "HTTP requests by status.")),
        generations(counters(r, "strata_generations_total", "Answers by the reason they ended.")),
        connections(gauge(r, "strata_connections", "Open client connections.")),
        running(gauge(r, "strata_requests_running", "Requests being computed.")),
        waiting(gauge(r, "strata_requests_waiting", "Requests in the queue.")) {}

  Counter& prompt_tokens;
  Counter& cached_tokens;
  Counter& completion_tokens;
  Counter& prompt_seconds;
  Counter& decode_seconds;
  Family<Counter>& http_requests;
  Family<Counter>& generations;
  Gauge& connections;
  Gauge& running;
  Gauge& waiting;
};

// The names of llama-server.
struct LlamaSeries {
  explicit LlamaSeries(Registry& r)
      : prompt_tokens(counter(r, "llamacpp:prompt_tokens_total",
                              "Number of prompt tokens processed.")),
        prompt_seconds(counter(r, "llamacpp:prompt_seconds_total", "Prompt process time.")),
        predicted(counter(r, "llamacpp:tokens_predicted_total",
                          "Number of generation tokens processed.")),
        predicted_seconds(counter(r, "llamacpp:tokens_predicted_seconds_total",
                                  "Predict process time.")),
        longest(counter(r, "llamacpp:n_tokens_max",
                        "Largest observed number of tokens of a request.")),
        prompt_rate(gauge(r, "llamacpp:prompt_tokens_seconds",
                          "Average prompt throughput in tokens/s.")),
        predicted_rate(gauge(r, "llamacpp:predicted_tokens_seconds",
                             "Average generation throughput in tokens/s.")),
        running(gauge(r, "llamacpp:requests_processing", "Number of requests processing.")),
        waiting(gauge(r, "llamacpp:requests_deferred", "Number of requests deferred.")) {}

  Counter& prompt_tokens;
  Counter& prompt_seconds;
  Counter& predicted;
  Counter& predicted_seconds;
  Counter& longest;
  Gauge& prompt_rate;
  Gauge& predicted_rate;
  Gauge& running;
  Gauge& waiting;
};

// The names of vLLM, which carry the model's.
struct VllmFamilies {
  explicit VllmFamilies(Registry& r)
      : prompt_tokens(counters(r, "vllm:prompt_tokens_total",
                               "Number of prefill tokens processed.")),
        generated(counters(r, "vllm:generation_tokens_total",
                           "Number of generation tokens processed.")),
        cache_queries(counters(r, "vllm:prefix_cache_queries_total",
                               "Prompt tokens looked up in the cache.")),
        cache_hits(counters(r, "vllm:prefix_cache_hits_total",
                            "Prompt tokens found in the cache.")),
        success(counters(r, "vllm:request_success_total", "Finished requests by reason.")),
        running(gauges(r, "vllm:num_requests_running", "Number of requests being computed.")),
        waiting(gauges(r, "vllm:num_requests_waiting", "Number of requests waiting.")),
        first_token(histograms(r, "vllm:time_to_first_token_seconds", "Time to first token.")),
        per_token(histograms(r, "vllm:time_per_output_token_seconds", "Time per output token.")),
        whole(histograms(r, "vllm:e2e_request_latency_seconds", "Time of a whole request.")) {}

  Family<Counter>& prompt_tokens;
  Family<Counter>& generated;
  Family<Counter>& cache_queries;
  Family<Counter>& cache_hits;
  Family<Counter>& success;
  Family<Gauge>& running;
  Family<Gauge>& waiting;
  Family<Histogram>& first_token;
  Family<Histogram>& per_token;
  Family<Histogram>& whole;
};

struct VllmSeries {
  VllmSeries(VllmFamilies& all, const std::string& model)
      : labels{{"model_name", model}},
        prompt_tokens(all.prompt_tokens.Add(labels)),
        generated(all.generated.Add(labels)),
        cache_queries(all.cache_queries.Add(labels)),
        cache_hits(all.cache_hits.Add(labels)),
        success(all.success),
        running(all.running.Add(labels)),
        waiting(all.waiting.Add(labels)),
        first_token(all.first_token.Add(labels, first_token_bounds())),
        per_token(all.per_token.Add(labels, per_token_bounds())),
        whole(all.whole.Add(labels, request_bounds())) {}

  void finished(std::string_view reason) {
    Labels with_reason = labels;
    with_reason["finished_reason"] = reason;
    success.Add(with_reason).Increment();
  }

  const Labels labels;
  Counter& prompt_tokens;
  Counter& generated;
  Counter& cache_queries;
  Counter& cache_hits;
  Family<Counter>& success;
  Gauge& running;
  Gauge& waiting;
  Histogram& first_token;
  Histogram& per_token;
  Histogram& whole;
};

}  // namespace

class Metrics::Series {
 public:
  explicit Series(const engine::Engine& engine)
      : engine_(engine), own(registry_), llama(registry_), vllm_families_(registry_) {}

  // Nothing before the model is known.
  VllmSeries* vllm() {
    const std::lock_guard lock(mutex_);
    if (!vllm_) {
      const std::string& model = engine_.info().id;
      if (model.empty()) return nullptr;
      vllm_.emplace(vllm_families_, model);
    }
    return &*vllm_;
  }

  void ended(std::string_view reason) {
    own.generations.Add({{"reason", std::string(reason)}}).Increment();
  }

  void longest(int tokens) {
    const std::lock_guard lock(mutex_);
    if (tokens > llama.longest.Value()) llama.longest.Increment(tokens - llama.longest.Value());
  }

  std::string text() {
    const engine::QueueInfo queue = engine_.queue();
    own.running.Set(queue.running);
    own.waiting.Set(queue.waiting);
    llama.running.Set(queue.running);
    llama.waiting.Set(queue.waiting);
    llama.prompt_rate.Set(rate(llama.prompt_tokens, llama.prompt_seconds));
    llama.predicted_rate.Set(rate(llama.predicted, llama.predicted_seconds));
    if (VllmSeries* series = vllm()) {
      series->running.Set(queue.running);
      series->waiting.Set(queue.waiting);
    }
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  const engine::Engine& engine_;
  std::mutex mutex_;
  Registry registry_{Registry::InsertBehavior::Throw};

 public:
  OwnSeries own;
  LlamaSeries llama;

 private:
  VllmFamilies vllm_families_;
  std::optional<VllmSeries> vllm_;
};

Metrics::Metrics(const engine::Engine& engine) : series_(std::make_unique<Series>(engine)) {}
Metrics::~Metrics() = default;

void Metrics::http_request(int status) {
  series_->own.http_requests.Add({{"status", std::to_string(status)}}).Increment();
}

void Metrics::first_token(Seconds since_request) {
  if (VllmSeries* vllm = series_->vllm()) vllm->first_token.Observe(since_request.count());
}

void Metrics::generation(std::string_view reason, const engine::Usage& usage,
                         Seconds since_request) {
  series_->ended(reason);
  const double prompt_seconds = usage.prompt_ms / 1000.0;
  const double decode_seconds = usage.decode_ms / 1000.0;
  OwnSeries& own = series_->own;
  own.prompt_tokens.Increment(usage.prompt_tokens);
  own.cached_tokens.Increment(usage.cached_tokens);
  own.completion_tokens.Increment(usage.completion_tokens);
  own.prompt_seconds.Increment(prompt_seconds);
  own.decode_seconds.Increment(decode_seconds);
  LlamaSeries& llama = series_->llama;
  llama.prompt_tokens.Increment(usage.prompt_tokens - usage.cached_tokens);
  llama.prompt_seconds.Increment(prompt_seconds);
  llama.predicted.Increment(usage.completion_tokens);
  llama.predicted_seconds.Increment(decode_seconds);
  series_->longest(usage.prompt_tokens + usage.completion_tokens);
  VllmSeries* vllm = series_->vllm();
  if (vllm == nullptr) return;
  if (reason != "cancelled") vllm->finished(reason);
  vllm->prompt_tokens.Increment(usage.prompt_tokens);
  vllm->generated.Increment(usage.completion_tokens);
  vllm->cache_queries.Increment(usage.prompt_tokens);
  vllm->cache_hits.Increment(usage.cached_tokens);
  vllm->whole.Observe(since_request.count());
  if (usage.completion_tokens > 1) {
    vllm->per_token.Observe(decode_seconds / usage.completion_tokens);
  }
}

void Metrics::unfinished(std::string_view reason) { series_->ended(reason); }

void Metrics::connections(int open) { series_->own.connections.Set(open); }

std::string Metrics::text() const { return series_->text(); }

}  // namespace strata::server
