// Times the ops in the shapes of the full model on every contract row that this CPU admits:
//
//   ops_bench [--workers=N] [--benchmark_filter=matmul/avx2/Q8_0 ...]
//
// Names are OP/INSTRUCTION SET/case. bytes_per_second and flops are rates of what the op must move
// and compute at least (op_cases.h). One worker unless told otherwise.
#include <charconv>
#include <cstdio>
#include <string_view>

#include <benchmark/benchmark.h>

#include "backend/cpu/cpu_device.h"
#include "op_cases.h"

namespace strata::bench {
namespace {

void time_call(benchmark::State& state, const backend::KernelSpec& kernel, backend::Stream& stream,
               const OpCase& plan) {
  const OpCall call = plan.prepare();
  for (auto _ : state) {
    if (const Status status = call.run(kernel, stream); !status.ok()) {
      state.SkipWithError(status.message().c_str());
      break;
    }
  }
  const auto calls = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(calls * call.bytes));
  state.counters["flops"] = benchmark::Counter(calls * call.flops, benchmark::Counter::kIsRate);
}

void register_all(backend::Device& device, const std::vector<OpCase>& cases) {
  for (const OpCase& plan : cases) {
    for (const backend::KernelSpec* kernel : device.kernels().admitted()) {
      const bool serves = !kernel->weight_type || kernel->weight_type == plan.weight_type;
      if (kernel->reference || kernel->op != plan.op || !serves) continue;
      benchmark::RegisterBenchmark((std::string(kernel->name) + "/" + plan.name).c_str(),
                                   [kernel, &device, &plan](benchmark::State& state) {
                                     time_call(state, *kernel, device.stream(), plan);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int workers = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    constexpr std::string_view kWorkers = "--workers=";
    const char* end = argument.data() + argument.size();
    if (!argument.starts_with(kWorkers) ||
        std::from_chars(argument.data() + kWorkers.size(), end, workers).ptr != end) {
      std::fprintf(stderr, "ops_bench: expected --workers=N or a --benchmark option, got %s\n",
                   argv[i]);
      return 2;
    }
  }
  const auto device =
      backend::open_cpu_device({.workers = workers, .kernels = {}, .disabled_features = 0});
  if (!device.ok()) {
    std::fprintf(stderr, "ops_bench: %s\n", device.status().message().c_str());
    return 1;
  }
  const std::vector<OpCase> cases = op_cases();
  register_all(*device.value(), cases);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::run(argc, argv); }
