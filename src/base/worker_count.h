// How many workers to use when nobody says: an upper bound from the machine, then a measurement,
// because cores that others use, memory that two cores saturate and virtual CPUs that share one
// core all look like cores of one's own.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_topology.h"

namespace strata {

// The most workers worth trying: one per physical core that the process may use, no more than the
// control group's quota rounded down; at least 1, at most 1024.
int worker_bound(const CpuTopology& topology);

// What to measure, rising: powers of two below the bound, the performance cores alone where the
// machine is hybrid, and the bound.
std::vector<int> worker_candidates(const CpuTopology& topology);

struct WorkerChoice {
  struct Sample {
    int workers = 1;
    double seconds = 0;  // median time of one batch; 0 when nothing was measured
  };
  int workers = 1;
  std::vector<Sample> samples;  // one per candidate
};

// Seconds that one batch of work took with so many workers.
using WorkerTimer = std::function<double(int workers)>;
// Seconds of a clock that never goes back.
using SecondsClock = std::function<double()>;

// Times every candidate in turn, round after round, so that a disturbance hits all alike, and
// chooses the smallest whose median is within 3 % of the best. Stops after kRounds rounds, or after
// a whole round once kBudgetSeconds have passed. A single candidate is chosen without measuring.
// Candidates must be rising and at least 1; none is taken as {1}.
inline constexpr int kWorkerRounds = 9;
inline constexpr double kWorkerBudgetSeconds = 0.04;
WorkerChoice measure_workers(std::span<const int> candidates, const WorkerTimer& timer,
                             const SecondsClock& clock);

// The same again, up to kWorkerLooks times with `pause` between them, while fewer workers than the
// most of the candidates would be chosen; the look that found most workers useful counts. A choice
// lasts as long as the process, so what disturbed one look must not make it; what holds for every
// look does.
inline constexpr int kWorkerLooks = 3;
WorkerChoice measure_workers_repeatedly(std::span<const int> candidates, const WorkerTimer& timer,
                                        const SecondsClock& clock,
                                        const std::function<void()>& pause);

// That on this machine, with a batch like a decoded token's: weights streamed from a buffer beyond
// L2 in loops of some ten microseconds, and tiny loops between them. Under 0.1 s, or 0.5 s where
// fewer workers seem faster.
WorkerChoice measure_workers(const CpuTopology& topology);

// One line for the log: "2 workers (of 2 cores; measured: 1 -> 1.21 ms, 2 -> 0.64 ms)".
std::string describe(const WorkerChoice& choice, const CpuTopology& topology);

}  // namespace strata
