// Tokens chosen from the best logits that the last stage's device sorts out are those that all logits
// give: on the CPU, on a card, after a cut, with and without recorded steps.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "engine/local_engine.h"
#include "split/split_support.h"

namespace strata::split_test {
namespace {

constexpr std::chrono::seconds kPatience{240};

std::string card(const std::string& arch) {
  return fmt::format("emu:{}:multiprocessors=1,max-delay-us=0", arch);
}

// By sorting all.
std::vector<TokenId> best_of(const std::vector<float>& logits, const model::TopLogits& top) {
  std::vector<TokenId> order(static_cast<size_t>(top.valid));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(top.k));
  return order;
}

void expect_best(model::Qwen4Exp& model, const model::TopLogits& top,
                 const std::vector<float>& want) {
  std::vector<float> all;
  ASSERT_TRUE(model.fetch_logits(all).ok());
  EXPECT_TRUE(same_bits({all}, {want}));
  ASSERT_EQ(top.tokens, best_of(want, top));
  for (size_t i = 0; i < top.tokens.size(); ++i) {
    EXPECT_EQ(top.values[i], want[static_cast<size_t>(top.tokens[i])]);
  }
}

// A prompt of several chunks, then steps that are launched, recorded and replayed.
TEST(Sampling, TheBestLogitsOfAStepAreThoseOfAll) {
  constexpr int kLength = 9, kDecoded = 3;
  CpuAnswers cpu;
  const Answer& want = cpu.of(kLength, kDecoded);
  Machine machine(fmt::format("cpu,{},{}", card("gfx1100"), card("sm90")));
  ASSERT_EQ(machine.problem(), "");
  for (const std::vector<size_t>& places :
       std::vector<std::vector<size_t>>{{0}, {1}, {1, 2}, {2, 0}}) {
    SCOPED_TRACE(machine.device(places.back()).caps().id);
    std::vector<backend::Device*> devices;
    for (const size_t place : places) devices.push_back(&machine.device(place));
    auto loaded = load_on(devices, std::vector<int>(places.size() - 1, 3));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model::Qwen4Exp& model = **loaded;
    auto sequence = model.new_sequence(backend::KvType::kF16, kContext);
    ASSERT_TRUE(sequence.ok());
    model::TopLogits top;
    top.valid = model.config().vocabulary - 3;
    top.k = 20;
    const auto read = model.read_prompt(
        *sequence, prompt_of(kLength), 4, [](int) { return Status(); }, top);
    ASSERT_TRUE(read.ok()) << read.message();
    expect_best(model, top, want[0]);
    for (int i = 0; i < kDecoded; ++i) {
      const auto& before = want[static_cast<size_t>(i)];
      const auto token =
          static_cast<TokenId>(std::max_element(before.begin(), before.end()) - before.begin());
      const model::BatchItem item{.sequence = &*sequence,
                                  .tokens = {&token, 1},
                                  .logits = model::LogitsOf::kLastToken,
                                  .positions = {},
                                  .next_position = 0,
                                  .embeddings = {}};
      top.k = i == 1 ? 1 : 500;
      const Status status = model.forward({&item, 1}, top);
      ASSERT_TRUE(status.ok()) << status.message();
      expect_best(model, top, want[static_cast<size_t>(i) + 1]);
    }
  }
}

TEST(Sampling, NumbersThatCannotBeHadAreRefusedBeforeAnythingIsChanged) {
  Machine machine("cpu");
  auto model = load_on(std::vector<backend::Device*>{&machine.device(0)}, {});
  ASSERT_TRUE(model.ok());
  auto sequence = (*model)->new_sequence(backend::KvType::kF16, kContext);
  ASSERT_TRUE(sequence.ok());
  const int vocabulary = (*model)->config().vocabulary;
  const TokenId token = 1;
  const model::BatchItem item{.sequence = &*sequence,
                              .tokens = {&token, 1},
                              .logits = model::LogitsOf::kLastToken,
                              .positions = {},
                              .next_position = 0,
                              .embeddings = {}};
  for (const auto& [k, valid] : std::vector<std::pair<int, int>>{
           {0, 100}, {1025, vocabulary}, {3, 2}, {1, 0}, {1, vocabulary + 1}}) {
    model::TopLogits top;
    top.k = k;
    top.valid = valid;
    EXPECT_EQ((*model)->forward({&item, 1}, top).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(sequence->length(), 0);
}

// Asks an engine and waits.
std::vector<TokenId> tokens_of(engine::Engine& engine, const engine::GenerateRequest& request) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<TokenId> tokens;
  bool ended = false;
  const auto handle = engine.submit(request, [&](const engine::Event& event) {
    const std::lock_guard lock(mutex);
    if (const auto* delta = std::get_if<engine::TextDelta>(&event)) {
      tokens.insert(tokens.end(), delta->tokens.begin(), delta->tokens.end());
    } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
      ADD_FAILURE() << failed->status.message();
      ended = true;
    } else {
      ended = ended || std::holds_alternative<engine::Finished>(event);
    }
    changed.notify_all();
  });
  EXPECT_TRUE(handle.ok()) << handle.status().message();
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, kPatience, [&] { return ended; }));
  return tokens;
}

// Log-probabilities need all logits and change no choice, so they ask for the other path.
TEST(Sampling, RequestsGetTheSameTokensWhetherAllLogitsAreFetchedOrTheBest) {
  engine::EngineOptions options = options_for("cpu");
  options.context = 128;
  const auto engine = engine::start_local_engine(options);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (engine->state().stage == engine::EngineStage::kLoading &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_EQ(engine->state().stage, engine::EngineStage::kReady) << engine->state().message;
  for (int seed = 0; seed <= 40; ++seed) {
    engine::GenerateRequest request;
    request.id = "test";
    request.prompt = prompt_of(5);
    request.max_tokens = 8;
    request.ignore_eos = request.emit_special = true;
    request.sampling.temperature = seed == 0 ? 0.0f : 1.5f;
    request.sampling.top_k = 1 + seed * 13;
    request.sampling.top_p = 0.97f;
    request.sampling.seed = static_cast<uint64_t>(seed);
    // The closing tokens are forced, which all logits are fetched for.
    if (seed % 3 == 2) request.reasoning_budget = {.tokens = 3, .end = 9, .closing = {7, 9}};
    const auto got = tokens_of(*engine, request);
    request.sampling.top_logprobs = 0;
    EXPECT_EQ(got.size(), 8u);
    EXPECT_EQ(got, tokens_of(*engine, request)) << "seed " << seed;
    if (seed % 3 == 2 && got.size() == 8) {
      EXPECT_EQ((std::vector<TokenId>{got[3], got[4]}), (std::vector<TokenId>{7, 9}));
    }
  }
}

}  // namespace
}  // namespace strata::split_test
