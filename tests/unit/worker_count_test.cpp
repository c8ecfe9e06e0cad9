#include "base/worker_count.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace strata {
namespace {

// A machine whose batches take the times of a table, on a clock that only they move.
class FakeTimes {
 public:
  explicit FakeTimes(std::map<int, std::vector<double>> times) : times_(std::move(times)) {}

  WorkerChoice measure(const std::vector<int>& candidates) {
    return measure_workers(
        candidates,
        [this](int workers) {
          const auto& row = times_.at(workers);
          const double seconds = row[static_cast<size_t>(calls_[workers]++) % row.size()];
          now_ += seconds;
          return seconds;
        },
        [this] { return now_; });
  }
  WorkerChoice measure_repeatedly(const std::vector<int>& candidates) {
    return measure_workers_repeatedly(
        candidates,
        [this](int workers) {
          const auto& row = times_.at(workers);
          return row[std::min(static_cast<size_t>(pauses_), row.size() - 1)];
        },
        [] { return 0.0; }, [this] { ++pauses_; });
  }
  int pauses() const { return pauses_; }
  int calls(int workers) { return calls_[workers]; }

 private:
  std::map<int, std::vector<double>> times_;
  std::map<int, int> calls_;
  double now_ = 100;
  int pauses_ = 0;
};

TEST(MeasureWorkers, TakesTheFastest) {
  FakeTimes times({{1, {0.0010}}, {2, {0.0006}}, {4, {0.0004}}});
  const WorkerChoice choice = times.measure({1, 2, 4});
  EXPECT_EQ(choice.workers, 4);
  ASSERT_EQ(choice.samples.size(), 3u);
  EXPECT_EQ(choice.samples[1].workers, 2);
  EXPECT_DOUBLE_EQ(choice.samples[1].seconds, 0.0006);
  EXPECT_EQ(times.calls(4), kWorkerRounds);
}

TEST(MeasureWorkers, TakesTheSmallestAmongEquals) {
  EXPECT_EQ(FakeTimes({{1, {0.00102}}, {2, {0.00100}}}).measure({1, 2}).workers, 1);
  EXPECT_EQ(FakeTimes({{1, {0.00104}}, {2, {0.00100}}}).measure({1, 2}).workers, 2);
  EXPECT_EQ(FakeTimes({{1, {0.004}}, {2, {0.00202}}, {4, {0.00205}}, {8, {0.002}}})
                .measure({1, 2, 4, 8})
                .workers,
            2);
}

TEST(MeasureWorkers, NeverTakesMoreThanHelps) {
  EXPECT_EQ(FakeTimes({{1, {0.001}}, {2, {0.005}}}).measure({1, 2}).workers, 1);
}

TEST(MeasureWorkers, IsNotMisledBySingleDisturbances) {
  // Of nine rounds, one or two of each candidate are hit.
  FakeTimes times({{1, {0.001, 0.001, 0.0002, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
                   {2, {0.009, 0.0006, 0.0006, 0.0006, 0.009, 0.0006, 0.0006, 0.0006, 0.0006}}});
  EXPECT_EQ(times.measure({1, 2}).workers, 2);
}

TEST(MeasureWorkers, StopsWhenItsTimeIsOverAfterAWholeRound) {
  FakeTimes times({{1, {kWorkerBudgetSeconds}}, {2, {0.6 * kWorkerBudgetSeconds}}});
  const WorkerChoice choice = times.measure({1, 2});
  EXPECT_EQ(choice.workers, 2);
  EXPECT_EQ(times.calls(1), 1);
  EXPECT_EQ(times.calls(2), 1);
}

TEST(MeasureWorkers, MeasuresNothingWithoutAChoice) {
  FakeTimes times({});
  EXPECT_EQ(times.measure({3}).workers, 3);
  EXPECT_EQ(times.measure({}).workers, 1);
  EXPECT_EQ(times.measure({}).samples.size(), 1u);
}

// Each look sees the next of a row's times.
TEST(MeasureWorkers, LooksAgainBeforeItSettlesForFewer) {
  FakeTimes disturbed({{1, {0.0010}}, {2, {0.0030, 0.0006}}});
  const WorkerChoice choice = disturbed.measure_repeatedly({1, 2});
  EXPECT_EQ(choice.workers, 2);
  EXPECT_EQ(choice.samples[1].seconds, 0.0006);
  EXPECT_EQ(disturbed.pauses(), 1);
}

TEST(MeasureWorkers, SettlesForFewerWhenEveryLookSaysSo) {
  FakeTimes shared({{1, {0.0010}}, {2, {0.0030, 0.0020, 0.0011}}});
  EXPECT_EQ(shared.measure_repeatedly({1, 2}).workers, 1);
  EXPECT_EQ(shared.pauses(), kWorkerLooks - 1);
}

TEST(MeasureWorkers, LooksOnceWhereAllWorkersHelp) {
  FakeTimes quiet({{1, {0.0010}}, {2, {0.0006}}});
  EXPECT_EQ(quiet.measure_repeatedly({1, 2}).workers, 2);
  EXPECT_EQ(quiet.pauses(), 0);
}

TEST(MeasureWorkers, ChoosesAmongTheCandidatesOfThisMachine) {
  const CpuTopology topology = CpuTopology::read();
  const WorkerChoice choice = measure_workers(topology);
  const std::vector<int> candidates = worker_candidates(topology);
  ASSERT_EQ(choice.samples.size(), candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(choice.samples[i].workers, candidates[i]);
    EXPECT_EQ(choice.samples[i].seconds > 0, candidates.size() > 1);
  }
  EXPECT_GE(choice.workers, 1);
  EXPECT_LE(choice.workers, worker_bound(topology));
}

}  // namespace
}  // namespace strata
