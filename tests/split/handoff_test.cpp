// What stages hand on while they compute: that rows travel beside the work, by the order of events
// on emulated cards; that a copy that fails is named; that direct copies are used where they were
// seen to arrive, and that one which arrives wrong later costs a request but never gives a wrong
// token.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "engine/handoff_routes.h"
#include "split/emu_cards.h"

namespace strata::split_test {
namespace {

using gpu::CopyKind;
using model::Route;

constexpr int kPiece = 2;  // tokens of a chunk
constexpr int kCut = 4;
constexpr auto kPatience = std::chrono::seconds(60);

class Handoffs : public testing::Test {
 protected:
  static std::unique_ptr<model::Qwen4Exp> load(Cards& cards, const std::vector<int>& cuts = {kCut},
                                               const std::vector<Route>& routes = {}) {
    auto loaded = load_on(cards.all(), cuts, routes);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }
  // False once patience is at an end.
  template <class Done>
  static bool wait_until(Done&& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  // Reads a prompt of `chunks` chunks in a thread of its own while work is held back, until `done`.
  // Returns whether it came to that; the answer must be right in any case.
  template <class Done>
  bool read_while_held(Cards& cards, int device, const gpu::EmuHold& held, model::Qwen4Exp& model,
                       int chunks, Done&& done) {
    cards.runtime().hold(device, held);
    Result<Answer> got = Answer{};
    std::thread reader([&] { got = try_answer(model, chunks * kPiece, kPiece, 0); });
    const bool reached = wait_until(done);
    cards.runtime().hold(device, {});
    reader.join();
    EXPECT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(!got.ok() || same_bits(*got, cpu_.of(chunks * kPiece, 0)));
    return reached;
  }

  CpuAnswers cpu_;
};

TEST_F(Handoffs, AStageComputesTheNextChunkWhileItsRowsTravel) {
  Cards cards({"gfx1100", "gfx1201"});
  const auto model = load(cards);
  const auto launches = [&] { return cards.counters(0).launches_done; };
  const auto copies = [&] { return cards.counters(0).copies_to_host_done; };
  uint64_t before = launches();
  ASSERT_TRUE(try_answer(*model, kPiece, kPiece, 0).ok());
  const uint64_t per_chunk = launches() - before;
  ASSERT_GT(per_chunk, 20u);
  before = launches();
  const uint64_t copied = copies();
  uint64_t copied_then = 0;
  // The rows of the first chunk do not leave, and all of the second one is computed.
  EXPECT_TRUE(read_while_held(cards, 0, {.copies = CopyKind::kToHost}, *model, 3,
                              [&] {
                                copied_then = copies();
                                return launches() >= before + 2 * per_chunk;
                              }))
      << launches() - before << " of " << 2 * per_chunk << " kernels ran while the rows waited";
  EXPECT_EQ(copied_then, copied);
  EXPECT_EQ(launches(), before + 3 * per_chunk);
}

TEST_F(Handoffs, RowsArriveWhileTheNextStageComputes) {
  Cards cards({"sm90", "gfx1030"});
  const auto model = load(cards);
  const auto arrived = [&] { return cards.counters(1).copies_to_device_done; };
  uint64_t before = arrived();
  ASSERT_TRUE(try_answer(*model, kPiece, kPiece, 0).ok());
  const uint64_t per_chunk = arrived() - before;
  before = arrived();
  const uint64_t launched = cards.counters(1).launches_done;
  uint64_t launched_then = 0;
  // No kernel of the first chunk has run, and the rows of the second are there.
  EXPECT_TRUE(read_while_held(cards, 1, {.launches = true}, *model, 3,
                              [&] {
                                launched_then = cards.counters(1).launches_done;
                                return arrived() >= before + per_chunk + 1;
                              }))
      << arrived() - before << " copies arrived, " << per_chunk << " make a chunk";
  EXPECT_EQ(launched_then, launched);
}

// What the second card needs of the host for a token is there before the first card is done with it.
TEST_F(Handoffs, ATokenIsPreparedOnTheSecondCardWhileTheFirstComputes) {
  Cards cards({"gfx1100", "gfx1201"});
  const auto model = load(cards);
  auto sequence = model->new_sequence(backend::KvType::kF16, kContext);
  ASSERT_TRUE(sequence.ok() && sequence->reset().ok());
  const TokenId token = 1;
  const model::BatchItem item{.sequence = &*sequence,
                              .tokens = {&token, 1},
                              .logits = model::LogitsOf::kLastToken,
                              .positions = {},
                              .next_position = 0,
                              .embeddings = {}};
  std::vector<float> logits;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(model->forward({&item, 1}, logits).ok());
  const uint64_t arrived = cards.counters(1).copies_to_device_done;
  const uint64_t launched = cards.counters(0).launches_done;
  cards.runtime().hold(0, {.launches = true});
  Status status;
  std::thread reader([&] { status = model->forward({&item, 1}, logits); });
  EXPECT_TRUE(wait_until([&] { return cards.counters(1).copies_to_device_done > arrived; }));
  EXPECT_EQ(cards.counters(0).launches_done, launched);
  cards.runtime().hold(0, {});
  reader.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

// A step that repeats a recorded one is in the second card's stream before its rows exist, unless the
// card cannot be told to wait; the answer is the same.
TEST_F(Handoffs, ARecordedTokenWaitsInTheSecondCardsStream) {
  std::vector<float> answers[2];
  for (const bool waits : {true, false}) {
    Cards cards({"gfx1100", waits ? "gfx1201" : "gfx1201:host-waits=0"});
    const auto model = load(cards);
    auto sequence = model->new_sequence(backend::KvType::kF16, kContext);
    ASSERT_TRUE(sequence.ok() && sequence->reset().ok());
    const TokenId token = 1;
    const model::BatchItem item{.sequence = &*sequence,
                                .tokens = {&token, 1},
                                .logits = model::LogitsOf::kLastToken,
                                .positions = {},
                                .next_position = 0,
                                .embeddings = {}};
    std::vector<float>& logits = answers[waits];
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(model->forward({&item, 1}, logits).ok());
    const auto before = cards.counters(1);
    const uint64_t first_done = cards.counters(0).launches_done;
    cards.runtime().hold(0, {.launches = true});
    Status status;
    std::thread reader([&] { status = model->forward({&item, 1}, logits); });
    const auto given = [&] { return cards.counters(1).launches > before.launches; };
    if (waits) {
      EXPECT_TRUE(wait_until(given));
    } else {
      EXPECT_TRUE(wait_until(
          [&] { return cards.counters(1).copies_to_device_done > before.copies_to_device_done; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_FALSE(given());
    }
    EXPECT_EQ(cards.counters(0).launches_done, first_done);
    EXPECT_EQ(cards.counters(1).launches_done, before.launches_done);
    cards.runtime().hold(0, {});
    reader.join();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_TRUE(std::ranges::equal(answers[0], answers[1], [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  }));
}

// What is under way stays bounded, and so does the time that a prompt which is called off goes on.
TEST_F(Handoffs, AtMostTwoChunksAreInADevice) {
  for (const bool several : {false, true}) {
    Cards cards(several ? std::vector<std::string>{"gfx1100", "gfx1201"}
                        : std::vector<std::string>{"sm80"});
    const auto model = load(cards, several ? std::vector<int>{kCut} : std::vector<int>{});
    auto sequence = model->new_sequence(backend::KvType::kF16, kContext);
    // Once before, so that no stream grows its memory, which waits for what is held.
    ASSERT_TRUE(try_answer(*model, kPiece, kPiece, 0).ok());
    ASSERT_TRUE(sequence.ok() && sequence->reset().ok());
    ASSERT_TRUE(cards.card(0).stream().synchronize().ok());
    cards.runtime().hold(0, {.launches = true});
    std::atomic<int> begun{0};
    std::vector<float> logits;
    const auto prompt = prompt_of(4 * kPiece);
    Status status;
    std::thread reader([&] {
      status = model->read_prompt(
          *sequence, prompt, kPiece,
          [&](int) {
            ++begun;
            return Status();
          },
          logits);
    });
    // The second stage has room for two; one device prepares the third while it has two.
    const int most = several ? 2 : 3;
    EXPECT_TRUE(wait_until([&] { return begun >= most; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(begun, most);
    cards.runtime().hold(0, {});
    reader.join();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

// Every copy of a prompt in turn, on either card: refused at once, or failing later; the second
// prompt on the model, whose buffers have grown, is right in any case.
TEST_F(Handoffs, ACopyThatFailsIsNamedAndEndsTheOtherStage) {
  constexpr int kChunks = 3;
  std::vector<uint64_t> first(2), last(2);
  {
    Cards cards({"gfx1100", "gfx1201"});
    const auto model = load(cards);
    for (int i = 0; i < 2; ++i) first[i] = cards.counters(i).copies + 1;
    ASSERT_TRUE(try_answer(*model, kChunks, 1, 0).ok());
    for (int i = 0; i < 2; ++i) last[i] = cards.counters(i).copies;
  }
  int named_copies = 0;
  for (const size_t bad : {0u, 1u}) {
    ASSERT_GE(last[bad] - first[bad], 5u);
    for (uint64_t n = first[bad]; n <= last[bad]; ++n) {
      const char* const fault = (n + bad) % 2 == 0 ? "fail-copy" : "late-error-at-copy";
      std::vector<std::string> specs = {"gfx1100", "gfx1201"};
      specs[bad] += fmt::format(":{}={}", fault, n);
      Cards cards(specs);
      const auto model = load(cards);
      const auto got = try_answer(*model, kChunks, 1, 0);
      ASSERT_FALSE(got.ok()) << fault << " " << n << " of " << bad;
      const std::string text = got.status().message();
      EXPECT_EQ(got.status().code(), StatusCode::kUnavailable) << text;
      EXPECT_TRUE(has(text, fmt::format("emu:{} gfx1", bad))) << text;
      EXPECT_FALSE(has(text, fmt::format("emu:{} gfx1", 1 - bad))) << text;
      EXPECT_TRUE(has(text, " in layer ") || has(text, " in the head")) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      named_copies += has(text, "copying ") || has(text, "copied ");
      // A refusal leaves the card as it was; the other card is well in any case.
      EXPECT_TRUE(cards.card(1 - bad).stream().synchronize().ok());
      if (std::string_view(fault) == "fail-copy") {
        const auto again = try_answer(*model, kChunks, 1, 0);
        ASSERT_TRUE(again.ok()) << again.status().message();
        EXPECT_TRUE(same_bits(*again, cpu_.of(kChunks, 0)));
      }
    }
  }
  EXPECT_GT(named_copies, 5);
}

// Kernels of two chunks may be under way when a fault shows: the message names the range of both.
TEST_F(Handoffs, AFaultThatShowsAChunkLaterNamesTheRangeOfBoth) {
  uint64_t launches = 0;
  {
    Cards cards({"gfx1100"});
    const auto model = load(cards, {});
    ASSERT_TRUE(try_answer(*model, kPiece, kPiece, 0).ok());
    launches = cards.counters().launches;
  }
  Cards cards({fmt::format("gfx1100:late-error-at-launch={}", launches + launches / 2)});
  const auto model = load(cards, {});
  ASSERT_TRUE(try_answer(*model, kPiece, kPiece, 0).ok());
  auto sequence = model->new_sequence(backend::KvType::kF16, kContext);
  ASSERT_TRUE(sequence.ok() && sequence->reset().ok());
  ASSERT_TRUE(cards.card().stream().synchronize().ok());
  cards.runtime().hold(0, {.launches = true});
  std::atomic<int> begun{0};
  std::vector<float> logits;
  const auto prompt = prompt_of(4 * kPiece);
  Status status;
  std::thread reader([&] {
    status = model->read_prompt(
        *sequence, prompt, kPiece,
        [&](int) {
          ++begun;
          return Status();
        },
        logits);
  });
  EXPECT_TRUE(wait_until([&] { return begun >= 3; }));
  cards.runtime().hold(0, {});
  reader.join();
  const std::string text = status.message();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << text;
  EXPECT_TRUE(has(text, "emu:0 gfx1100")) << text;
  EXPECT_TRUE(has(text, "; the fault lies in one of ")) << text;
  EXPECT_TRUE(has(text, " kernels launched since it was last well, from ")) << text;
  EXPECT_TRUE(has(text, " in layer 0 to ")) << text;
}

// Memory that grows while chunks are under way is cleared before rows arrive in it, not after.
TEST_F(Handoffs, TheFirstPromptOfAFreshModelIsRight) {
  for (const Route route : {Route::kHost, Route::kDirect, Route::kHost}) {
    Cards cards({"gfx1100", "gfx1201"}, "multiprocessors=1,max-delay-us=2000");
    const auto model = load(cards, {kCut}, {route});
    const auto got = try_answer(*model, 3 * kPiece, kPiece, 0);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(same_bits(*got, cpu_.of(3 * kPiece, 0)));
  }
}

std::vector<Route> routes_of(const std::vector<engine::ProvedRoute>& proved) {
  std::vector<Route> out;
  for (const engine::ProvedRoute& route : proved) out.push_back(route.route);
  return out;
}

std::vector<engine::ProvedRoute> prove(Cards& cards) {
  std::vector<memory::LayerPlace> places;
  for (backend::Device* device : cards.all()) places.push_back({device, 0, 0});
  return engine::prove_routes(places);
}

TEST_F(Handoffs, DirectCopiesGiveTheBitsOfTheCpu) {
  Cards cards({"gfx1100", "gfx1201", "gfx1030"}, "multiprocessors=1,max-delay-us=20");
  const auto proved = prove(cards);
  ASSERT_EQ(proved.size(), 2u);
  for (const engine::ProvedRoute& route : proved)
    EXPECT_EQ(route.route, Route::kDirect) << route.why;
  EXPECT_EQ(proved[1].line(),
            "prompts go from emu:1 to emu:2 directly: 24 direct copies arrived whole");
  const auto model = load(cards, {2, 5}, routes_of(proved));
  for (const int length : {1, 4 * kPiece + 1}) {
    const uint64_t before = cards.counters(1).peer_copies;
    const auto got = try_answer(*model, length, kPiece, 2);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(same_bits(*got, cpu_.of(length, 2))) << length;
    // One per chunk; tokens go through the host.
    EXPECT_EQ(cards.counters(1).peer_copies - before,
              static_cast<uint64_t>((length + kPiece - 1) / kPiece));
  }
}

TEST_F(Handoffs, OnlyCardsOfOneDriverThatClaimItCopyDirectly) {
  Cards cards({"gfx1100", "sm90", "sm80:peer=0", "sm75"});
  Machine cpu("cpu");
  const auto why = [](backend::Device& from, backend::Device& to) {
    const engine::ProvedRoute route = engine::prove_route(from, to);
    EXPECT_EQ(route.route, Route::kHost);
    EXPECT_TRUE(has(route.line(), "through host memory: ")) << route.line();
    return route.why;
  };
  EXPECT_EQ(why(cards.card(0), cards.card(1)),
            "the driver has no direct copies from emu:0 to emu:1");
  EXPECT_EQ(why(cards.card(3), cards.card(2)),
            "the driver has no direct copies from emu:3 to emu:2");
  EXPECT_EQ(why(cpu.device(0), cards.card(0)), "cpu and emu:0 do not share a driver");
  EXPECT_EQ(why(cards.card(0), cpu.device(0)), "emu:0 and cpu do not share a driver");
  Cards others({"sm90"});
  EXPECT_EQ(why(cards.card(1), others.card(0)), "emu:1 and emu:0 do not share a driver");
  gpu::GpuDeviceOptions off;
  off.peer = false;
  Cards forbidden({"gfx1100", "gfx1201"}, "multiprocessors=1", off);
  EXPECT_EQ(why(forbidden.card(0), forbidden.card(1)), "peer=off for emu:0");
}

// A link that corrupts is found at start, whichever way and from whichever copy on, and not used.
TEST_F(Handoffs, ALinkThatCorruptsAtStartIsNotUsed) {
  for (const char* fault :
       {"corrupt-peer-copy=1", "corrupt-peer-copy=10", "corrupt-one-peer-copy=12"}) {
    for (const size_t bad : {0u, 1u}) {
      std::vector<std::string> specs = {"gfx1100", "gfx1201"};
      specs[bad] += fmt::format(":{}", fault);
      Cards cards(specs);
      const auto proved = prove(cards);
      ASSERT_EQ(proved.size(), 1u);
      EXPECT_EQ(proved[0].route, Route::kHost) << fault;
      EXPECT_TRUE(
          has(proved[0].why, fmt::format("from emu:{} to emu:{} arrived wrong", 1 - bad, bad)))
          << proved[0].why;
      if (bad == 0 || std::string_view(fault) != "corrupt-peer-copy=10") continue;
      const uint64_t before = cards.counters(1).peer_copies;
      const auto model = load(cards, {kCut}, routes_of(proved));
      const auto got = try_answer(*model, 3 * kPiece, kPiece, 1);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_TRUE(same_bits(*got, cpu_.of(3 * kPiece, 1)));
      EXPECT_EQ(cards.counters(1).peer_copies, before);
    }
  }
}

// Whichever copy arrives wrong after the proof: no answer comes of it, and the message says why.
TEST_F(Handoffs, ADirectCopyThatArrivesWrongLaterFailsItsPrompt) {
  constexpr int kProof = 12, kChunks = 5;
  for (const int bad : {1, 3, 5}) {
    for (const size_t stages : {2u, 3u}) {
      if (stages == 3 && bad != 5) continue;
      std::vector<std::string> specs = {"gfx1100", "gfx1201", "gfx1030"};
      specs.resize(stages);
      // Of three, the middle one has been the sender's end of a second proof: 12 copies more.
      const int proofs = stages == 3 ? 2 * kProof : kProof;
      specs[1] += fmt::format(":corrupt-one-peer-copy={}", proofs + bad);
      Cards cards(specs, "multiprocessors=1,max-delay-us=20");
      const auto proved = prove(cards);
      ASSERT_EQ(proved[0].route, Route::kDirect) << proved[0].why;
      const auto model = load(cards, stages == 3 ? std::vector<int>{2, 5} : std::vector<int>{kCut},
                              routes_of(proved));
      const auto got = try_answer(*model, kChunks, 1, 0);
      ASSERT_FALSE(got.ok()) << bad;
      const std::string text = got.status().message();
      EXPECT_EQ(got.status().code(), StatusCode::kUnavailable) << text;
      EXPECT_TRUE(has(text, "a direct copy of ")) << text;
      EXPECT_TRUE(has(text, " bytes from emu:0 to emu:1 arrived wrong")) << text;
      EXPECT_TRUE(has(text, "peer=off")) << text;
      EXPECT_TRUE(model->direct_copies_failed());
      if (bad != 3) continue;
      // It was one copy: what comes later is right.
      const auto again = try_answer(*model, kChunks, 1, 0);
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_TRUE(same_bits(*again, cpu_.of(kChunks, 0)));
    }
  }
}

TEST_F(Handoffs, NothingIsLeftBehind) {
  Cards cards({"gfx1100", "gfx1201"});
  for (const Route route : {Route::kHost, Route::kDirect}) {
    const auto model = load(cards, {kCut}, {route});
    ASSERT_TRUE(try_answer(*model, 3 * kPiece, kPiece, 1).ok());
    EXPECT_GT(cards.counters(0).live_streams, 1u);
  }
  cards.close();
  for (int i = 0; i < 2; ++i) {
    const auto left = cards.counters(i);
    EXPECT_EQ(left.live_allocations + left.live_streams + left.live_events + left.live_graphs, 0u)
        << i;
  }
  EXPECT_EQ(cards.runtime().live_pinned(), 0u);
}

}  // namespace
}  // namespace strata::split_test
