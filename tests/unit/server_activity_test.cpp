// What GET /v1/status tells about requests: counted while they run, kept for a while afterwards.
#include <gtest/gtest.h>

#include "server/activity.h"

namespace strata::server {
namespace {

engine::TextDelta tokens(size_t count) {
  engine::TextDelta delta;
  delta.tokens.resize(count);
  return delta;
}

engine::Finished finished(engine::FinishReason reason, int prompt, int cached, int completion) {
  engine::Finished out;
  out.reason = reason;
  out.usage = {prompt, cached, completion, 20.0, 40.0};
  return out;
}

TEST(Activity, TellsWhereEachRequestStands) {
  Activity activity;
  auto first = activity.begin("req-1", "/v1/messages", 100);
  auto second = activity.begin("req-2", "/v1/chat/completions", 50);
  auto third = activity.begin("req-3", "/v1/completions", 10);
  first.progress({100, 100});
  first.text(tokens(3));
  second.progress({20, 50});
  const Json json = activity.describe(2);
  ASSERT_EQ(json["requests"].size(), 3u);
  EXPECT_EQ(json["requests"][0]["id"], "req-1");
  EXPECT_EQ(json["requests"][0]["endpoint"], "/v1/messages");
  EXPECT_EQ(json["requests"][0]["stage"], "generating");
  EXPECT_EQ(json["requests"][0]["generated_tokens"], 3);
  EXPECT_EQ(json["requests"][1]["stage"], "reading");
  EXPECT_EQ(json["requests"][1]["prompt_read"], 20);
  EXPECT_EQ(json["requests"][1]["prompt_tokens"], 50);
  EXPECT_EQ(json["requests"][2]["stage"], "waiting");
  EXPECT_EQ(json["read_tokens"], 120);
  EXPECT_EQ(json["generated_tokens"], 3);
  EXPECT_TRUE(json["recent"].empty());
}

TEST(Activity, CountersEndAtWhatTheUsageSaysAndNeverGoBack) {
  Activity activity;
  auto counted = activity.begin("req-1", "/x", 100);
  counted.text(tokens(3));  // the end-of-turn token has no text
  counted.finish(finished(engine::FinishReason::kStop, 100, 30, 4));
  EXPECT_EQ(activity.describe(0)["read_tokens"], 70);
  EXPECT_EQ(activity.describe(0)["generated_tokens"], 4);
  auto told = activity.begin("req-2", "/x", 10);
  told.progress({10, 10});
  told.progress({4, 10});
  told.finish(finished(engine::FinishReason::kLength, 10, 5, 1));
  EXPECT_EQ(activity.describe(0)["read_tokens"], 80);
  EXPECT_EQ(activity.describe(0)["generated_tokens"], 5);
}

TEST(Activity, KeepsTheLastRequestsNewestFirst) {
  Activity activity;
  activity.begin("stopped", "/x", 8).finish(finished(engine::FinishReason::kStop, 8, 2, 5));
  activity.begin("failed", "/x", 7).fail();
  { const auto left = activity.begin("left", "/x", 6); }
  const Json recent = activity.describe(0)["recent"];
  ASSERT_EQ(recent.size(), 3u);
  EXPECT_EQ(recent[0]["id"], "left");
  EXPECT_EQ(recent[0]["outcome"], "cancelled");
  EXPECT_EQ(recent[1]["outcome"], "failed");
  EXPECT_FALSE(recent[1].contains("prompt_ms")) << "nobody measured it";
  EXPECT_EQ(recent[2]["outcome"], "stop");
  EXPECT_EQ(recent[2]["prompt_tokens"], 8);
  EXPECT_EQ(recent[2]["reused_tokens"], 2);
  EXPECT_EQ(recent[2]["generated_tokens"], 5);
  EXPECT_EQ(recent[2]["prompt_ms"], 20.0);
  EXPECT_EQ(recent[2]["decode_ms"], 40.0);
  for (int i = 0; i < 100; ++i) activity.begin("more", "/x", 1).fail();
  EXPECT_EQ(activity.describe(0)["recent"].size(), 32u);
  EXPECT_TRUE(activity.describe(0)["requests"].empty());
}

TEST(Activity, AnEntryThatHasMovedTellsItsEndOnce) {
  Activity activity;
  {
    auto first = activity.begin("req-1", "/x", 1);
    auto moved = std::move(first);
    moved.finish(finished(engine::FinishReason::kStop, 1, 0, 1));
    moved.fail();
  }
  ASSERT_EQ(activity.describe(0)["recent"].size(), 1u);
  EXPECT_EQ(activity.describe(0)["recent"][0]["outcome"], "stop");
}

}  // namespace
}  // namespace strata::server
