// What a loop costs: the time of parallel_for over `items` items of `steps` steps of arithmetic
// (about 2 ns each) with so many workers. The item count 1 is the floor, a plain call.
#include <benchmark/benchmark.h>

#include "base/thread_pool.h"

namespace strata {
namespace {

void compute(int64_t steps) {
  volatile float x = 1.0f;
  for (int64_t i = 0; i < steps; ++i) x = x * 1.0001f;
}

void BM_ParallelFor(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const int64_t items = state.range(1);
  const int64_t steps = state.range(2);
  int64_t helped = 0;
  for (auto _ : state) {
    pool.parallel_for(items, [&](int64_t i, int worker) {
      compute(steps);
      if (i == items - 1 && worker != 0) ++helped;
    });
  }
  state.counters["helped"] = static_cast<double>(helped) / static_cast<double>(state.iterations());
  state.counters["wakes"] = static_cast<double>(pool.wakes());
  state.counters["stalls"] = static_cast<double>(pool.stalls());
}
BENCHMARK(BM_ParallelFor)
    ->ArgNames({"workers", "items", "steps"})
    ->ArgsProduct({{1, 2, 4, 8}, {1, 4, 64}, {0, 100, 2000}})
    ->UseRealTime();

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
