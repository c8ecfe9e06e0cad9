// The engine on emulated cards that fail: before it is ready it says so in a sentence; afterwards the
// request that was running fails, the engine goes on with what is left, and no token is ever wrong.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "backend/gpu/all_images.h"
#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/gpu_device.h"
#include "engine/device_rates.h"
#include "engine/local_engine.h"
#include "ops/self_test.h"
#include "split/split_support.h"

namespace strata::split_test {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::EngineStage;
using engine::EngineState;

constexpr std::chrono::seconds kPatience{240};
constexpr int kPromptChunk = 8;
constexpr int kCut = 4;  // fixed, so that the same launch falls into the same layer on every run

// One multiprocessor and no delays keep the emulator quick; without direct copies nothing is launched to
// prove them.
std::string card(const std::string& arch, const std::string& faults = {}) {
  return fmt::format("emu:{}:multiprocessors=1,max-delay-us=0,peer=0{}{}", arch,
                     faults.empty() ? "" : ",", faults);
}

EngineOptions split_options(const std::string& names) {
  EngineOptions options = options_for(names);
  options.context = 256;
  options.prompt_chunk = kPromptChunk;
  if (options.devices.size() == 2) {
    options.layer_split = {.points = {kCut}, .automatic = false};
    options.order_as_given = true;
  }
  return options;
}

// The answer to one request.
class Reply {
 public:
  engine::EventSink sink() {
    return [this](const engine::Event& event) {
      const std::lock_guard lock(mutex_);
      if (const auto* delta = std::get_if<engine::TextDelta>(&event)) {
        tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
      } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
        status_ = failed->status;
        ++endings_;
      } else if (std::holds_alternative<engine::Finished>(event)) {
        ++endings_;
      }
      changed_.notify_all();
    };
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return endings_ > 0; }));
    EXPECT_EQ(endings_, 1);
    return status_;
  }
  const std::vector<TokenId>& tokens() const { return tokens_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  int endings_ = 0;
  Status status_;
};

engine::GenerateRequest request_of(int length, int tokens) {
  engine::GenerateRequest request;
  request.id = "test";
  request.prompt = prompt_of(length);
  request.sampling.temperature = 0.0f;
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.emit_special = true;
  return request;
}

EngineState settled(const Engine& engine) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (engine.state().stage == EngineStage::kLoading &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return engine.state();
}

constexpr int kPrompt = 11, kTokens = 4;

// How many kernels a card launches: what places a fault in the phase that a test is about.
struct Launches {
  uint64_t self_test = 0, measuring = 0, proof = 0;
  uint64_t prompt = 0;  // of kPrompt tokens in chunks of kPromptChunk, for the best logits
  uint64_t decode = 0;  // of one token, for the best logits

  // Until the engine is ready; several devices are tested once more, and once together.
  uint64_t start(bool several) const { return (several ? 3 : 1) * self_test + measuring + proof; }
};

std::vector<QuantType> weight_types(const GgufFile& file) {
  std::vector<QuantType> types;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.shape.size() < 2 || tensor.name == "per_layer_token_embd.weight") continue;
    if (std::find(types.begin(), types.end(), tensor.type) == types.end()) {
      types.push_back(tensor.type);
    }
  }
  return types;
}

// A prompt as a request reads it.
Status read_for_best(model::Qwen4Exp& model, int length, int chunk) {
  STRATA_ASSIGN_OR_RETURN(memory::SequenceState sequence,
                          model.new_sequence(backend::KvType::kF16, kContext));
  model::TopLogits top;
  top.k = 1;
  top.valid = model.config().vocabulary;
  return model.read_prompt(
      sequence, prompt_of(length), chunk, [](int) { return Status(); }, top);
}

// Counted on a card with layers [first, end), the others on CPUs.
Result<Launches> count_launches(const std::string& arch, int first, int end) {
  gpu::ImageList images;
  gpu::add_all_images(images);
  const std::string name = card(arch);
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<gpu::EmuRuntime> made,
                          gpu::make_emu_runtime({name}, 1, images));
  const std::shared_ptr<gpu::EmuRuntime> runtime = std::move(made);
  gpu::GpuDeviceOptions card_options;
  card_options.id = name;
  STRATA_ASSIGN_OR_RETURN(const auto device,
                          gpu::open_gpu_device(runtime, images, 0, card_options));
  Machine cpus("cpu#1,cpu#2");
  uint64_t before = 0;
  const auto since = [&] {
    const uint64_t now = runtime->counters(0).launches;
    return now - std::exchange(before, now);
  };
  Launches out;
  const auto cases = ops::self_test_cases(weight_types(*model_file()));
  STRATA_ASSIGN_OR_RETURN(const auto answers, ops::self_test_answers(cases, cpus.device(0)));
  STRATA_RETURN_IF_ERROR(ops::run_self_tests(*device, cases, answers));
  out.self_test = since();
  STRATA_RETURN_IF_ERROR(engine::measure_device(*device).status());
  out.measuring = since();
  std::vector<memory::LayerPlace> places;
  if (first > 0) places.push_back({&cpus.device(0), 0, first});
  places.push_back({device.get(), first, end});
  if (end < layers()) places.push_back({&cpus.device(1), end, layers()});
  STRATA_ASSIGN_OR_RETURN(const auto model, model::Qwen4Exp::load(model_file(), places));
  STRATA_RETURN_IF_ERROR(read_for_best(*model, 1, 1));
  out.decode = since();
  STRATA_RETURN_IF_ERROR(read_for_best(*model, kPrompt, kPromptChunk));
  out.prompt = since();
  STRATA_RETURN_IF_ERROR(try_answer(*model, 1, 1, 0).status());
  const uint64_t step = since();
  STRATA_RETURN_IF_ERROR(try_answer(*model, 23, 9, 0).status());
  out.proof = since() + 2 * step + out.decode;
  return out;
}

std::vector<TokenId> cpu_tokens(int length, int tokens) {
  const auto engine = engine::start_local_engine(split_options("cpu"));
  EXPECT_EQ(settled(*engine).stage, EngineStage::kReady) << engine->state().message;
  Reply reply;
  EXPECT_TRUE(engine->submit(request_of(length, tokens), reply.sink()).ok());
  EXPECT_TRUE(reply.wait().ok());
  EXPECT_EQ(reply.tokens().size(), static_cast<size_t>(tokens));
  return reply.tokens();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// One fault, one line.
void expect_sentence(const std::string& text) {
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

class EngineFaults : public testing::Test {
 protected:
  void start(const std::string& names) { engine_ = engine::start_local_engine(split_options(names)); }
  void expect_ready() {
    const EngineState state = settled(*engine_);
    ASSERT_EQ(state.stage, EngineStage::kReady) << state.message;
  }
  Status ask(int length = kPrompt) {
    Reply reply;
    const auto handle = engine_->submit(request_of(length, kTokens), reply.sink());
    if (!handle.ok()) return handle.status();
    return judge(reply, length);
  }
  // How the reply ended; what it holds must be the CPU's tokens.
  Status judge(Reply& reply, int length) {
    Status status = reply.wait();
    const auto& expected = expected_of(length);
    if (status.ok()) {
      EXPECT_EQ(reply.tokens(), expected);
    } else {
      // What was sent before the fault was right too.
      EXPECT_LT(reply.tokens().size(), expected.size());
      EXPECT_TRUE(std::equal(reply.tokens().begin(), reply.tokens().end(), expected.begin()));
      sent_ = reply.tokens().size();
    }
    return status;
  }
  const std::vector<TokenId>& expected_of(int length) {
    auto& slot = expected_[length];
    if (slot.empty()) slot = cpu_tokens(length, kTokens);
    return slot;
  }
  // Why the engine with these devices does not start.
  std::string refusal(const std::string& names) {
    start(names);
    const EngineState state = settled(*engine_);
    EXPECT_EQ(state.stage, EngineStage::kFailed);
    expect_sentence(state.message);
    EXPECT_EQ(ask().code(), StatusCode::kUnavailable);
    return state.message;
  }

  std::unique_ptr<Engine> engine_;
  std::map<int, std::vector<TokenId>> expected_;
  size_t sent_ = 0;  // tokens that the last failed request had sent
};

TEST_F(EngineFaults, TwoPromptsAtOnceThenOneCardIsLostAndTheOtherGoesOn) {
  const auto count = count_launches("gfx1100", 0, kCut);
  ASSERT_TRUE(count.ok()) << count.status().message();
  // After two requests, even if their prompts are read in chunks of one token.
  const uint64_t most = (kPrompt + kPromptChunk + 2 * kTokens) * count->decode;
  start(card("gfx1100", fmt::format("lose-at-launch={}", count->start(true) + most)) + "," +
        card("gfx1201"));
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  const auto ask_two = [&](int one, int two) {
    Reply first, second;
    const Status taken = engine_->submit(request_of(one, kTokens), first.sink()).status();
    const Status also = engine_->submit(request_of(two, kTokens), second.sink()).status();
    EXPECT_TRUE(taken.ok() && also.ok()) << taken.message() << also.message();
    return std::pair(taken.ok() ? judge(first, one) : taken, also.ok() ? judge(second, two) : also);
  };
  const auto [first, second] = ask_two(kPrompt, kPromptChunk);
  EXPECT_TRUE(first.ok()) << first.message();
  EXPECT_TRUE(second.ok()) << second.message();
  EXPECT_EQ(engine_->state().degraded, "");
  EXPECT_EQ(engine_->describe()["devices"].size(), 2u);

  // The one that is running fails; the one behind it is answered by the card that is left.
  Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    auto [running, waiting] = ask_two(1, 1);
    EXPECT_TRUE(running.ok() || waiting.ok());
    status = running.ok() ? waiting : running;
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expect_sentence(status.message());
  EXPECT_TRUE(has(status.message(), "emu:gfx1100")) << status.message();
  EXPECT_TRUE(has(status.message(), " in layer ")) << status.message();
  EXPECT_FALSE(has(status.message(), fmt::format(" in layer {}", kCut))) << status.message();
  EXPECT_FALSE(has(status.message(), "gfx1201")) << status.message();
  EXPECT_TRUE(ask().ok());
  const std::string degraded = engine_->state().degraded;
  EXPECT_TRUE(has(degraded, "emu:gfx1100") && has(degraded, "is lost")) << degraded;
  EXPECT_EQ(engine_->describe()["devices"].size(), 1u);
}

TEST_F(EngineFaults, ALateErrorNamesWhereItMayLieAndCostsOnlyItsRequest) {
  const auto count = count_launches("gfx1030", 0, kCut);
  ASSERT_TRUE(count.ok()) << count.status().message();
  const uint64_t at = count->start(true) + count->decode * 3 / 2;
  start(card("gfx1030", fmt::format("late-error-at-launch={}", at)) + ",cpu");
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  const Status status = ask(1);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expect_sentence(status.message());
  EXPECT_TRUE(has(status.message(), "emu:gfx1030")) << status.message();
  EXPECT_TRUE(has(status.message(), "illegal memory access")) << status.message();
  EXPECT_TRUE(has(status.message(), "the fault lies in one of")) << status.message();
  EXPECT_TRUE(has(status.message(), " in layer 0")) << status.message();
  EXPECT_EQ(sent_, 1u);
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  EXPECT_TRUE(has(engine_->state().degraded, "gfx1030")) << engine_->state().degraded;
  EXPECT_TRUE(ask().ok());
}

TEST_F(EngineFaults, ACardLostInThePromptOnTheSecondStagesThreadIsNamed) {
  const auto count = count_launches("gfx1201", kCut, layers());
  ASSERT_TRUE(count.ok()) << count.status().message();
  const uint64_t at = count->start(true) + count->decode / 2;
  start("cpu," + card("gfx1201", fmt::format("lose-at-launch={}", at)));
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  const Status status = ask();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(has(status.message(), "emu:gfx1201")) << status.message();
  EXPECT_TRUE(has(status.message(), " in layer ")) << status.message();
  EXPECT_FALSE(has(status.message(), " in layer 0")) << status.message();
  EXPECT_EQ(sent_, 0u);
  EXPECT_TRUE(ask().ok());
  EXPECT_TRUE(has(engine_->state().degraded, "gfx1201")) << engine_->state().degraded;
}

TEST_F(EngineFaults, WithoutAnyDeviceLeftTheEngineSaysThatItHasFailed) {
  const auto count = count_launches("gfx1030", 0, layers());
  ASSERT_TRUE(count.ok()) << count.status().message();
  start(card("gfx1030", fmt::format("lose-at-launch={}", count->start(false) + count->prompt + 7)));
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  // Some run, some wait and some come in the moment of the failure: each is refused or answered.
  std::deque<Reply> replies;
  Status refused;
  while (refused.ok()) {
    refused = engine_->submit(request_of(kPrompt, kTokens), replies.emplace_back().sink()).status();
    std::this_thread::sleep_for(std::chrono::microseconds(replies.size() < 3 ? 0 : 3000));
  }
  replies.pop_back();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  ASSERT_GE(replies.size(), 3u);
  for (Reply& reply : replies) {
    EXPECT_EQ(reply.wait().code(), StatusCode::kUnavailable);
    EXPECT_LE(reply.tokens().size(), 1u);
  }
  const EngineState state = settled(*engine_);
  EXPECT_EQ(state.stage, EngineStage::kFailed);
  EXPECT_TRUE(has(state.message, "no device is left")) << state.message;
  EXPECT_TRUE(has(state.message, "emu:gfx1030")) << state.message;
  EXPECT_EQ(ask().code(), StatusCode::kUnavailable);
}

TEST_F(EngineFaults, ARefusedLaunchCostsItsRequestButNoDevice) {
  const auto count = count_launches("gfx1201", 0, layers());
  ASSERT_TRUE(count.ok()) << count.status().message();
  // In the second request: when the card has been opened again, the next two requests end before.
  const uint64_t request = count->prompt + (kTokens - 1) * count->decode;
  const uint64_t at = count->start(false) + request + count->prompt + 3;
  start(card("gfx1201", fmt::format("fail-launch={}", at)));
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  EXPECT_TRUE(ask().ok());
  const Status status = ask();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(has(status.message(), "emu:gfx1201")) << status.message();
  EXPECT_TRUE(has(status.message(), "while launching ")) << status.message();
  EXPECT_TRUE(has(status.message(), " in layer 0")) << status.message();
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ(engine_->state().degraded, "");
}

TEST_F(EngineFaults, BeforeItIsReadyAFaultIsWhyItDoesNotStart) {
  const auto count = count_launches("gfx1100", 0, layers());
  ASSERT_TRUE(count.ok()) << count.status().message();
  const auto lost_at = [&](uint64_t n) {
    return refusal(card("gfx1100", fmt::format("lose-at-launch={}", n)));
  };
  const std::string testing = lost_at(count->self_test / 10);
  EXPECT_TRUE(has(testing, "emu:gfx1100")) << testing;
  EXPECT_TRUE(has(testing, "self-test")) << testing;
  const std::string weights = lost_at(count->self_test + count->measuring);
  EXPECT_TRUE(has(weights, "does not answer")) << weights;
  const std::string proof = lost_at(count->self_test + count->measuring + count->proof / 2);
  EXPECT_TRUE(has(proof, "emu:gfx1100")) << proof;
  EXPECT_TRUE(has(proof, " in layer ")) << proof;
}

TEST_F(EngineFaults, ACardWithoutOneKernelIsRefusedByName) {
  for (const char* kernel : {"GdnStep", "MatmulMatrix"}) {
    const std::string names = card("gfx1100") + "," + card("gfx1201", fmt::format("drop-image={}", kernel));
    const std::string message = refusal(names);
    EXPECT_TRUE(has(message, "emu:gfx1201")) << message;
    EXPECT_TRUE(has(message, kernel)) << message;
    EXPECT_TRUE(has(message, "rebuild the emu module for gfx1201")) << message;
    EXPECT_TRUE(has(message, "leave the device out with --devices")) << message;
  }
}

// The proof takes 12 copies to each card, the engine's own prompt three: the next is a request's.
TEST_F(EngineFaults, AfterADirectCopyThatArrivedWrongPromptsGoThroughTheHost) {
  const std::string fast = ":multiprocessors=1,max-delay-us=0";
  start("emu:gfx1100" + fast + ",emu:gfx1201" + fast + ",corrupt-one-peer-copy=16");
  ASSERT_NO_FATAL_FAILURE(expect_ready());
  const auto hand_off = [&] { return engine_->describe()["hand_offs"][0]; };
  EXPECT_EQ(hand_off()["prompts"], "direct") << hand_off();
  EXPECT_EQ(hand_off()["why"], "24 direct copies arrived whole");
  const Status status = ask();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expect_sentence(status.message());
  EXPECT_TRUE(has(status.message(), "a direct copy of ")) << status.message();
  EXPECT_TRUE(has(status.message(), "emu:gfx1201")) << status.message();
  EXPECT_EQ(sent_, 0u);
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ(hand_off()["prompts"], "host") << hand_off();
  EXPECT_TRUE(has(hand_off()["why"], "peer=off for emu:gfx1100")) << hand_off();
  EXPECT_EQ(engine_->describe()["devices"].size(), 2u);
  EXPECT_EQ(engine_->state().degraded, "");
}

// Whatever is wrong on the way to the host is found by comparing with the CPU.
TEST_F(EngineFaults, ACardWhoseCopiesArriveWrongIsRefused) {
  start("cpu," + card("gfx1201", "corrupt-copy-to-host=3"));
  const EngineState state = settled(*engine_);
  EXPECT_EQ(state.stage, EngineStage::kFailed);
  EXPECT_TRUE(has(state.message, "emu:gfx1201")) << state.message;
  EXPECT_TRUE(has(state.message, "fails the self-test")) << state.message;
  EXPECT_EQ(ask().code(), StatusCode::kUnavailable);
}

TEST_F(EngineFaults, ACardWithTooLittleMemoryIsRefusedWithWhatIsMissing) {
  const std::string message = refusal(card("gfx1100", "memory-mib=8"));
  EXPECT_TRUE(has(message, "emu:gfx1100")) << message;
  EXPECT_TRUE(has(message, " are missing")) << message;
}

}  // namespace
}  // namespace strata::split_test
