#include <algorithm>
#include <atomic>

#include "unit/engine_fixture.h"

namespace strata::engine {
namespace {

class LocalEngineTest : public testing::Test {
 protected:
  void start(EngineOptions options = tiny_options()) {
    engine = start_local_engine(std::move(options));
    const EngineState state = wait_until_loaded(*engine);
    ASSERT_EQ(state.stage, EngineStage::kReady) << state.message;
  }
  std::shared_ptr<RequestHandle> submit(GenerateRequest request, Record& record) {
    auto handle = engine->submit(std::move(request), record.sink());
    EXPECT_TRUE(handle.ok()) << handle.status().message();
    return handle.ok() ? *handle : nullptr;
  }
  Status refusal(GenerateRequest request) {
    auto handle = engine->submit(std::move(request), [](const Event&) {
      ADD_FAILURE() << "the sink of a refused request was called";
    });
    return handle.status();
  }
  void wait_for_waiting(int count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (engine->queue().waiting != count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(engine->queue().waiting, count);
  }

  std::unique_ptr<Engine> engine;
};

TEST_F(LocalEngineTest, ServesRequestsInTheOrderTheyCame) {
  start();
  Record first;
  first.hold();
  const auto running = submit(endless(), first);
  first.wait_for_text();
  std::mutex mutex;
  std::vector<int> order;
  std::vector<Record> records(5);
  for (int i = 0; i < 5; ++i) {
    GenerateRequest request = greedy({40, 41});
    request.max_tokens = 5 - i;
    auto inner = records[static_cast<size_t>(i)].sink();
    const auto handle = engine->submit(request, [&, i, inner](const Event& event) {
      if (std::holds_alternative<Finished>(event)) {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      }
      inner(event);
    });
    ASSERT_TRUE(handle.ok());
  }
  EXPECT_EQ(engine->queue().running, 1);
  EXPECT_EQ(engine->queue().waiting, 5);
  running->cancel();
  first.release();
  for (Record& record : records) record.wait_for_end();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_F(LocalEngineTest, ARequestCancelledInTheQueueEndsWhileAnotherRuns) {
  EngineOptions options = tiny_options();
  options.context = 32768;
  start(options);
  Record first, second, third;
  const auto running = submit(endless(), first);
  first.wait_for_text();
  const auto waiting = submit(endless(), second);
  GenerateRequest last = greedy({40});
  last.max_tokens = 1;
  submit(last, third);
  waiting->cancel();
  EXPECT_EQ(second.wait_for_end().reason, FinishReason::kCancelled);
  EXPECT_FALSE(third.ended());
  EXPECT_TRUE(second.text().empty());
  running->cancel();
  EXPECT_EQ(first.wait_for_end().reason, FinishReason::kCancelled);
  EXPECT_EQ(third.wait_for_end().reason, FinishReason::kLength);
}

TEST_F(LocalEngineTest, CancellingARunningRequestEndsItWithWhatThereIs) {
  EngineOptions options = tiny_options();
  options.context = 32768;
  start(options);
  Record record;
  const auto handle = submit(endless(), record);
  record.wait_for_text();
  handle->cancel();
  handle->cancel();
  const Finished finished = record.wait_for_end();
  EXPECT_EQ(finished.reason, FinishReason::kCancelled);
  EXPECT_EQ(finished.usage.completion_tokens, static_cast<int>(record.tokens().size()));
  EXPECT_FALSE(record.text().empty());
  wait_for_waiting(0);
}

TEST_F(LocalEngineTest, AFullQueueRefusesAndTakesAgainWhenAPlaceIsFree) {
  EngineOptions options = tiny_options();
  options.max_queue = 2;
  options.context = 32768;
  start(options);
  Record first, second, third, fourth;
  const auto running = submit(endless(), first);
  first.wait_for_text();
  const auto waiting = submit(greedy({40}), second);
  GenerateRequest request = greedy({40});
  request.max_tokens = 1;
  submit(request, third);
  const Status status = refusal(request);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("2 requests"), std::string::npos) << status.message();
  waiting->cancel();
  second.wait_for_end();
  submit(request, fourth);
  running->cancel();
  third.wait_for_end();
  fourth.wait_for_end();
}

TEST_F(LocalEngineTest, AnAnswerEndsWhenTheContextIsFull) {
  EngineOptions options = tiny_options();
  options.context = 32;
  start(options);
  Record record;
  submit(endless(), record);
  const Finished finished = record.wait_for_end();
  EXPECT_EQ(finished.reason, FinishReason::kLength);
  // The last token is sampled from the full context and never read.
  EXPECT_EQ(finished.usage.prompt_tokens, 3);
  EXPECT_EQ(finished.usage.completion_tokens, 32 - 3 + 1);
  EXPECT_EQ(record.tokens().size(), 30u);
}

TEST_F(LocalEngineTest, NoTokensAreMadeWhenNoneAreWanted) {
  start();
  GenerateRequest request = greedy({40, 41});
  request.max_tokens = 0;
  request.want_progress = true;
  Record record;
  submit(request, record);
  const Finished finished = record.wait_for_end();
  EXPECT_EQ(finished.reason, FinishReason::kLength);
  EXPECT_EQ(finished.usage.completion_tokens, 0);
  EXPECT_TRUE(record.text().empty());
  EXPECT_TRUE(record.tokens().empty());
  EXPECT_EQ(record.progress(), std::vector<int>{2});
}

TEST_F(LocalEngineTest, ProgressCountsThePromptInChunks) {
  EngineOptions options = tiny_options();
  options.prompt_chunk = 4;
  start(options);
  GenerateRequest request = greedy({40, 41, 42, 43, 44, 45, 46, 47, 48, 49});
  request.max_tokens = 1;
  request.want_progress = true;
  Record record;
  submit(request, record);
  record.wait_for_end();
  EXPECT_EQ(record.progress(), (std::vector<int>{4, 8, 10}));
}

TEST_F(LocalEngineTest, AnEndTokenEndsTheAnswerAndStaysOutOfTheText) {
  start();
  const auto prompt = golden("02-sum");
  Record record;
  submit(greedy(prompt["ids"]), record);
  const Finished finished = record.wait_for_end();
  EXPECT_EQ(finished.reason, FinishReason::kStop);
  EXPECT_EQ(finished.stop_string, "");
  EXPECT_EQ(record.text(), "17 + 25 = 42");
  const auto golden_tokens = prompt["greedy"].get<std::vector<TokenId>>();
  const auto count = prompt["greedy_stop"].get<size_t>() + 1;
  EXPECT_EQ(record.tokens(),
            std::vector<TokenId>(golden_tokens.begin(),
                                 golden_tokens.begin() + static_cast<long>(count)));
  EXPECT_EQ(finished.usage.completion_tokens, static_cast<int>(count));
}

TEST_F(LocalEngineTest, IgnoredEndTokensAreTokensLikeOthers) {
  start();
  const auto prompt = golden("02-sum");
  const auto safe = prompt["greedy_safe"].get<int>();
  ASSERT_GT(safe, prompt["greedy_stop"].get<int>() + 1);
  GenerateRequest request = greedy(prompt["ids"]);
  request.ignore_eos = true;
  request.max_tokens = safe;
  const auto golden_text = prompt["greedy_text"].get<std::string>();
  {
    Record record;
    submit(request, record);
    EXPECT_EQ(record.wait_for_end().reason, FinishReason::kLength);
    EXPECT_EQ(record.tokens().size(), static_cast<size_t>(safe));
    EXPECT_EQ(record.text().find("<|im_end|>"), std::string::npos);
  }
  request.emit_special = true;
  Record record;
  submit(request, record);
  record.wait_for_end();
  EXPECT_NE(record.text().find("<|im_end|>"), std::string::npos);
  EXPECT_EQ(record.text(), golden_text.substr(0, record.text().size()));
}

TEST_F(LocalEngineTest, TokensLogprobsAndUsageAgree) {
  start();
  for (const char* name : {"01-hello", "02-sum", "06-scripts"}) {
    GenerateRequest request = greedy(golden(name)["ids"]);
    request.sampling.top_logprobs = 3;
    Record record;
    submit(request, record);
    const Finished finished = record.wait_for_end();
    ASSERT_EQ(record.tokens().size(), static_cast<size_t>(finished.usage.completion_tokens));
    ASSERT_EQ(record.logprobs().size(), record.tokens().size());
    std::string text;
    for (size_t i = 0; i < record.tokens().size(); ++i) {
      const TokenLogprob& one = record.logprobs()[i];
      EXPECT_EQ(one.token, record.tokens()[i]);
      EXPECT_LE(one.logprob, 0.0f);
      ASSERT_EQ(one.top.size(), 3u);
      EXPECT_EQ(one.top[0].token, one.token);
      EXPECT_EQ(one.top[0].logprob, one.logprob);
      EXPECT_GE(one.top[0].logprob, one.top[1].logprob);
      EXPECT_GE(one.top[1].logprob, one.top[2].logprob);
      if (i + 1 < record.tokens().size()) text += one.bytes;
    }
    EXPECT_EQ(text, record.text());
  }
}

TEST_F(LocalEngineTest, StopStringsAreFoundAcrossTokens) {
  start();
  const auto ids = golden("02-sum")["ids"].get<std::vector<TokenId>>();
  const std::string text = "17 + 25 = 42";
  for (size_t length : {1u, 2u, 4u, 7u}) {
    for (size_t begin = 0; begin + length <= text.size(); ++begin) {
      const std::string stop = text.substr(begin, length);
      GenerateRequest request = greedy(ids);
      request.stop = {"never", stop};
      Record record;
      submit(request, record);
      const Finished finished = record.wait_for_end();
      EXPECT_EQ(finished.reason, FinishReason::kStop);
      EXPECT_EQ(finished.stop_string, stop);
      EXPECT_EQ(record.text(), text.substr(0, text.find(stop)));
      EXPECT_LE(record.tokens().size(), static_cast<size_t>(finished.usage.completion_tokens));
    }
  }
}

TEST_F(LocalEngineTest, WhatCannotRunIsRefusedBeforeTheQueue) {
  start();
  EXPECT_EQ(refusal(greedy({})).field(), "prompt");
  const Status longer = refusal(greedy(std::vector<TokenId>(512, 40)));
  EXPECT_EQ(longer.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(longer.field(), "prompt");
  EXPECT_NE(longer.message().find("512 tokens"), std::string::npos);
  EXPECT_NE(longer.message().find("holds 512"), std::string::npos);
  for (const TokenId id : {-1, 4096}) {
    EXPECT_EQ(refusal(greedy({40, id})).code(), StatusCode::kInvalidArgument);
  }
  GenerateRequest negative = greedy({40});
  negative.max_tokens = -1;
  EXPECT_EQ(refusal(negative).field(), "max_tokens");
  GenerateRequest cold = greedy({40});
  cold.sampling.temperature = -1.0f;
  EXPECT_EQ(refusal(cold).field(), "temperature");
  GenerateRequest empty_stop = greedy({40});
  empty_stop.stop = {""};
  EXPECT_EQ(refusal(empty_stop).field(), "stop");
  EXPECT_EQ(engine->queue().waiting, 0);
}

TEST_F(LocalEngineTest, EqualSeedsDrawEqualTokensWhateverRanBefore) {
  start();
  const auto draw = [&](uint64_t seed) {
    GenerateRequest request = greedy({40, 41});
    request.sampling.temperature = 2.0f;
    request.sampling.top_k = 0;
    request.sampling.top_p = 1.0f;
    request.sampling.seed = seed;
    request.max_tokens = 16;
    request.ignore_eos = true;
    Record record;
    submit(request, record);
    record.wait_for_end();
    return record.tokens();
  };
  const auto first = draw(1);
  EXPECT_NE(draw(2), first);
  EXPECT_EQ(draw(1), first);
}

TEST(LocalEngine, SaysWhyAModelCouldNotBeLoaded) {
  EngineOptions options = tiny_options();
  options.model_path = "/nonexistent/model.gguf";
  const auto engine = start_local_engine(options);
  const EngineState state = wait_until_loaded(*engine);
  EXPECT_EQ(state.stage, EngineStage::kFailed);
  EXPECT_NE(state.message.find("/nonexistent/model.gguf"), std::string::npos) << state.message;
  EXPECT_EQ(engine->info().id, "");
  EXPECT_EQ(engine->tokenize("x", false).status().code(), StatusCode::kUnavailable);
  const auto handle = engine->submit(greedy({1}), [](const Event&) { ADD_FAILURE(); });
  EXPECT_EQ(handle.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(handle.status().message().find("/nonexistent/model.gguf"), std::string::npos);
}

TEST(LocalEngine, MayBeDestroyedAtAnyMoment) {
  for (const int ms : {0, 1, 5, 20, 50}) {
    const auto engine = start_local_engine(tiny_options());
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    const auto handle = engine->submit(endless(), [](const Event&) {});
    EXPECT_TRUE(handle.ok() || handle.status().code() == StatusCode::kUnavailable);
  }
}

TEST(LocalEngine, DestructionEndsEveryRequestOnce) {
  EngineOptions options = tiny_options();
  options.context = 32768;
  auto engine = start_local_engine(options);
  ASSERT_EQ(wait_until_loaded(*engine).stage, EngineStage::kReady);
  Record running;
  std::vector<Record> waiting(3);
  std::vector<std::shared_ptr<RequestHandle>> handles;
  handles.push_back(*engine->submit(endless(), running.sink()));
  running.wait_for_text();
  for (Record& record : waiting) handles.push_back(*engine->submit(endless(), record.sink()));
  engine.reset();
  EXPECT_EQ(running.wait_for_end().reason, FinishReason::kCancelled);
  for (Record& record : waiting) {
    EXPECT_EQ(record.wait_for_end().reason, FinishReason::kCancelled);
    EXPECT_TRUE(record.tokens().empty());
  }
  for (const auto& handle : handles) handle->cancel();
  EXPECT_EQ(running.endings(), 1);
}

TEST(LocalEngine, SinksMayCancelTheirOwnRequest) {
  EngineOptions options = tiny_options();
  options.context = 32768;
  const auto engine = start_local_engine(options);
  ASSERT_EQ(wait_until_loaded(*engine).stage, EngineStage::kReady);
  std::atomic<RequestHandle*> handle{nullptr};
  Record record;
  const auto inner = record.sink();
  const auto submitted = engine->submit(endless(), [&](const Event& event) {
    if (RequestHandle* own = handle.load()) own->cancel();
    inner(event);
  });
  ASSERT_TRUE(submitted.ok());
  handle = submitted.value().get();
  EXPECT_EQ(record.wait_for_end().reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace strata::engine
