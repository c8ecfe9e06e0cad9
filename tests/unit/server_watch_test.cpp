#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "server/engine_watch.h"

namespace strata::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLimit{600};
constexpr seconds kGrace{10};
constexpr seconds kMoment{1};

class CountingHandle final : public engine::RequestHandle {
 public:
  void cancel() override {
    ++cancels;
    if (on_cancel) on_cancel();
  }
  int cancels = 0;
  std::function<void()> on_cancel;
};

// A request as a connection makes it.
struct One {
  explicit One(EngineWatch& watch, bool accept = true) : watched(watch.begin(gate)) {
    sink = watched.sink();
    if (accept) watched.accepted(handle);
  }

  std::vector<engine::Event> events;
  std::shared_ptr<EventGate> gate =
      std::make_shared<EventGate>([this](const engine::Event& e) { events.push_back(e); });
  std::shared_ptr<CountingHandle> handle = std::make_shared<CountingHandle>();
  EngineWatch::Watched watched;
  engine::EventSink sink;

  bool given_up() const {
    return !events.empty() && std::holds_alternative<engine::Failed>(events.back());
  }
};

TEST(EngineWatch, ARequestWithoutASignIsCancelledAndToldOnce) {
  EngineWatch watch(kLimit, kGrace);
  One one(watch);
  const auto start = EngineWatch::Clock::now();
  watch.check(start + kLimit - kMoment);
  EXPECT_FALSE(one.given_up());
  watch.check(start + kLimit + kMoment);
  watch.check(start + kLimit + 2 * kMoment);
  ASSERT_EQ(one.events.size(), 1u);
  EXPECT_TRUE(one.given_up());
  EXPECT_EQ(one.handle->cancels, 1);
  const Status status = std::get<engine::Failed>(one.events[0]).status;
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("for 600 seconds"), std::string::npos) << status.message();
}

TEST(EngineWatch, WhyARequestWasGivenUpIsToldBeforeTheEngineTellsThatItWasCancelled) {
  EngineWatch watch(kLimit, kGrace);
  One one(watch);
  one.handle->on_cancel = [&] {
    one.sink(engine::Finished{engine::FinishReason::kCancelled, {}, {}});
  };
  watch.check(EngineWatch::Clock::now() + kLimit + kMoment);
  ASSERT_EQ(one.events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<engine::Failed>(one.events[0]));
}

TEST(EngineWatch, EveryEventIsASignOfLife) {
  for (const engine::Event& event : {engine::Event(engine::PromptProgress{1, 2}),
                                     engine::Event(engine::TextDelta{"a", {1}, {}})}) {
    EngineWatch watch(kLimit, kGrace);
    One one(watch);
    const auto asked = EngineWatch::Clock::now();
    std::this_thread::sleep_for(milliseconds(20));
    one.sink(event);
    watch.check(asked + kLimit + milliseconds(10));
    EXPECT_FALSE(one.given_up());
    watch.check(asked + kLimit + kMoment);
    EXPECT_TRUE(one.given_up());
  }
}

TEST(EngineWatch, NobodyIsGivenUpWithoutALimit) {
  EngineWatch watch(milliseconds(0), kGrace);
  One one(watch);
  watch.check(EngineWatch::Clock::now() + std::chrono::hours(10'000));
  EXPECT_TRUE(one.events.empty());
}

TEST(EngineWatch, WhoWaitsForItsTurnIsNotBlamedForTheOneBefore) {
  EngineWatch watch(kLimit, kGrace);
  One first(watch);
  One second(watch);
  const auto late = EngineWatch::Clock::now() + kLimit + kMoment;
  watch.check(late);
  EXPECT_TRUE(first.given_up());
  EXPECT_FALSE(second.given_up());
  first.sink(engine::Finished{engine::FinishReason::kCancelled, {}, {}});
  watch.check(late + kLimit - kMoment);
  EXPECT_FALSE(second.given_up()) << "its turn has come only then";
  watch.check(late + kLimit + kMoment);
  EXPECT_TRUE(second.given_up());
}

TEST(EngineWatch, WhoWaitsLivesOnTheSignsOfOthersButWhoHasBegunDoesNot) {
  EngineWatch watch(kLimit, kGrace);
  One begun(watch);
  begun.sink(engine::PromptProgress{1, 2});
  One busy(watch);
  One waiting(watch);
  const auto start = EngineWatch::Clock::now();
  std::this_thread::sleep_for(milliseconds(20));
  busy.sink(engine::TextDelta{"a", {1}, {}});
  watch.check(start + kLimit + milliseconds(10));
  EXPECT_TRUE(begun.given_up());
  EXPECT_FALSE(busy.given_up());
  EXPECT_FALSE(waiting.given_up());
}

TEST(EngineWatch, AnEngineThatIgnoresTheEndIsStuckUntilItsNextSign) {
  EngineWatch watch(kLimit, kGrace);
  One first(watch);
  One second(watch);
  One third(watch);
  const auto late = EngineWatch::Clock::now() + kLimit + kMoment;
  EXPECT_EQ(watch.trouble(late).text, "");
  watch.check(late);
  EXPECT_EQ(watch.trouble(late + kGrace - kMoment).text, "") << "it has time to end it";
  const auto trouble = watch.trouble(late + kGrace);
  EXPECT_TRUE(trouble.stuck);
  EXPECT_NE(trouble.text.find("no sign of life for 611 s"), std::string::npos) << trouble.text;
  watch.check(late + kGrace);
  EXPECT_TRUE(second.given_up() && third.given_up()) << "nobody's turn will come";
  for (One* one : {&first, &second, &third}) {
    one->sink(engine::Finished{engine::FinishReason::kCancelled, {}, {}});
  }
  EXPECT_EQ(watch.trouble(late + 2 * kGrace).text, "");
}

TEST(EngineWatch, ARequestThatTheEngineHasLostIsToldOfWhileOthersGoOn) {
  EngineWatch watch(milliseconds(1), milliseconds(1));
  One lost(watch);
  std::this_thread::sleep_for(milliseconds(5));
  watch.check();
  EXPECT_TRUE(lost.given_up());
  std::this_thread::sleep_for(milliseconds(5));
  One other(watch);
  other.sink(engine::Finished{});
  EXPECT_EQ(watch.trouble().text,
            "1 cancelled request has not ended in the engine, which goes on with others.");
  EXPECT_FALSE(watch.trouble().stuck);
}

TEST(EngineWatch, WhatTheEngineRefusedIsForgotten) {
  EngineWatch watch(kLimit, kGrace);
  {
    const auto gate = std::make_shared<EventGate>([](const engine::Event&) { FAIL(); });
    watch.begin(gate);
  }
  watch.check(EngineWatch::Clock::now() + kLimit + kMoment);
  EXPECT_EQ(watch.trouble(EngineWatch::Clock::now() + 2 * kLimit).text, "");
}

TEST(EngineWatch, ARequestGivenUpBeforeTheEngineTookItIsCancelledThen) {
  EngineWatch watch(kLimit, kGrace);
  One one(watch, false);
  watch.check(EngineWatch::Clock::now() + kLimit + kMoment);
  EXPECT_TRUE(one.given_up());
  one.watched.accepted(one.handle);
  EXPECT_EQ(one.handle->cancels, 1);
}

TEST(EngineWatch, LoadingIsASignOfLife) {
  EngineWatch watch(kLimit, kGrace);
  One one(watch);
  const auto asked = EngineWatch::Clock::now();
  std::this_thread::sleep_for(milliseconds(20));
  watch.sign_of_life();
  watch.check(asked + kLimit + milliseconds(10));
  EXPECT_FALSE(one.given_up());
}

TEST(EngineWatch, SinksMayBeCalledAfterItsEnd) {
  auto watch = std::make_unique<EngineWatch>(kLimit, kGrace);
  One one(*watch);
  watch.reset();
  one.sink(engine::TextDelta{"a", {1}, {}});
  EXPECT_EQ(one.events.size(), 1u);
}

}  // namespace
}  // namespace strata::server
