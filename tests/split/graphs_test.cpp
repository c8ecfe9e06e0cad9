// Decode steps that are recorded and replayed, on emulated cards: the bits of the CPU, which launches
// everything, whatever the length, the cache, the cut and the turn of sequences; and what is said when a
// replay fails.
//
// --full decodes every length from 1 to 300 on every group.
#include <cstring>

#include "split/emu_cards.h"

namespace strata::split_test {
namespace {

bool full = false;

const std::vector<std::string> kArchs = {"sm75",    "sm80",    "sm90",   "sm120",
                                         "gfx1030", "gfx1100", "gfx1201"};

Cards cards_of(std::vector<std::string> specs, bool graphs = true) {
  gpu::GpuDeviceOptions options;
  options.graphs = graphs;
  return Cards(std::move(specs), "multiprocessors=1,max-delay-us=5", options);
}

// A sequence under way in a model.
class Talk {
 public:
  Talk(model::Qwen4Exp& model, backend::KvType type, int64_t capacity = kContext) : model_(model) {
    auto made = model.new_sequence(type, capacity);
    EXPECT_TRUE(made.ok()) << made.status().message();
    sequence_ = std::make_unique<memory::SequenceState>(std::move(*made));
  }
  Status read(int length) {
    STRATA_RETURN_IF_ERROR(sequence_->reset());
    return model_.read_prompt(*sequence_, prompt_of(length), kChunk,
                              [](int) { return Status(); }, logits_);
  }
  // The token that stands at this place in every run.
  Status decode() {
    const auto token = static_cast<TokenId>(1 + sequence_->length() * 31 % 1500);
    const model::BatchItem item{.sequence = sequence_.get(),
                                .tokens = {&token, 1},
                                .logits = model::LogitsOf::kLastToken,
                                .positions = {},
                                .next_position = 0,
                                .embeddings = {}};
    return model_.forward({&item, 1}, logits_);
  }
  const std::vector<float>& logits() const { return logits_; }
  int64_t length() const { return sequence_->length(); }

 private:
  model::Qwen4Exp& model_;
  std::unique_ptr<memory::SequenceState> sequence_;
  std::vector<float> logits_;
};

class Graphs : public testing::Test {
 protected:
  void SetUp() override { cpu_model_ = load({&cpu_.device(0)}, {}); }

  static std::unique_ptr<model::Qwen4Exp> load(const std::vector<backend::Device*>& devices,
                                               const std::vector<int>& cuts) {
    auto loaded = load_on(devices, cuts);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? std::move(*loaded) : nullptr;
  }

  // `steps` tokens after a prompt, both ways.
  void expect_same(model::Qwen4Exp& model, backend::KvType type, int prompt, int steps,
                   int64_t capacity = kContext) {
    Talk got(model, type, capacity), want(*cpu_model_, type, capacity);
    ASSERT_TRUE(want.read(prompt).ok());
    const Status read = got.read(prompt);
    ASSERT_TRUE(read.ok()) << read.message();
    expect_same(got, want);
    for (int i = 0; i < steps; ++i) step(got, want);
  }
  static void step(Talk& got, Talk& want) {
    const Status status = got.decode();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(want.decode().ok());
    expect_same(got, want);
  }
  static void expect_same(const Talk& got, const Talk& want) {
    ASSERT_TRUE(same_bits({got.logits()}, {want.logits()})) << "at length " << got.length();
  }

  Machine cpu_{"cpu"};
  std::unique_ptr<model::Qwen4Exp> cpu_model_;
};

// Over the length up to which the first recording has room, on every group.
TEST_F(Graphs, EveryGroupGivesTheBitsOfLaunchesOverTheBorderOfARecording) {
  for (const std::string& arch : kArchs) {
    SCOPED_TRACE(arch);
    Cards cards = cards_of({arch});
    const auto model = load(cards.all(), {});
    expect_same(*model, backend::KvType::kF16, full ? 1 : 61, full ? 300 : 7);
    EXPECT_GE(cards.counters().live_graphs, 2u) << "nothing was recorded";
  }
}

// From here on blocks share the segments of attention.
TEST_F(Graphs, TheBorderOfASegmentOfAttentionIsOneMore) {
  Cards cards = cards_of({"gfx1100"});
  const auto model = load(cards.all(), {});
  expect_same(*model, backend::KvType::kI8, 254, 6);
}

TEST_F(Graphs, EveryCacheTypeGivesTheBitsOfLaunches) {
  Cards cards = cards_of({"sm90"});
  const auto model = load(cards.all(), {});
  for (const auto type : {backend::KvType::kF32, backend::KvType::kF16, backend::KvType::kI8}) {
    SCOPED_TRACE(backend::kKvTypeNames[static_cast<int>(type)]);
    expect_same(*model, type, 1, 4);
    expect_same(*model, type, 150, 4);
  }
}

TEST_F(Graphs, EveryCutGivesTheBitsOfLaunches) {
  for (int cut = 1; cut < layers(); ++cut) {
    SCOPED_TRACE(cut);
    Cards cards = cards_of({kArchs[static_cast<size_t>(cut) % kArchs.size()],
                            kArchs[static_cast<size_t>(cut + 3) % kArchs.size()]});
    const auto model = load(cards.all(), {cut});
    expect_same(*model, backend::KvType::kF16, 3, 4);
    EXPECT_GE(cards.counters(0).live_graphs, 1u);
    EXPECT_GE(cards.counters(1).live_graphs, 1u);
  }
}

// A recording belongs to the sequence whose state its kernels name.
TEST_F(Graphs, SequencesThatTakeTurnsKeepTheirOwn) {
  Cards cards = cards_of({"gfx1100"});
  const auto model = load(cards.all(), {});
  constexpr auto kType = backend::KvType::kF16;
  Talk a(*model, kType), b(*model, kType), cpu_a(*cpu_model_, kType), cpu_b(*cpu_model_, kType);
  for (Talk* talk : {&a, &cpu_a}) ASSERT_TRUE(talk->read(20).ok());
  for (Talk* talk : {&b, &cpu_b}) ASSERT_TRUE(talk->read(40).ok());
  for (int i = 0; i < 4; ++i) {
    step(a, cpu_a);
    step(b, cpu_b);
    step(b, cpu_b);
  }
  // A prompt in between takes more memory of the stream, and the activations lie elsewhere.
  for (Talk* talk : {&a, &cpu_a}) ASSERT_TRUE(talk->read(200).ok());
  for (int i = 0; i < 3; ++i) {
    step(a, cpu_a);
    step(b, cpu_b);
  }
}

TEST_F(Graphs, ASequenceMayEndWithinARecordingsRoom) {
  Cards cards = cards_of({"sm75"});
  const auto model = load(cards.all(), {});
  expect_same(*model, backend::KvType::kF16, 30, 10, 40);
}

// Recordings of sequences that are gone make room, and memory that is used again is no danger.
TEST_F(Graphs, MoreSequencesThanRecordingsAreKept) {
  Cards cards = cards_of({"gfx1201"});
  const auto model = load(cards.all(), {});
  std::vector<std::unique_ptr<Talk>> talks;
  for (int i = 0; i < 10; ++i) {
    talks.push_back(std::make_unique<Talk>(*model, backend::KvType::kF16, 64));
    Talk want(*cpu_model_, backend::KvType::kF16, 64);
    ASSERT_TRUE(talks.back()->read(1 + i).ok() && want.read(1 + i).ok());
    for (int k = 0; k < 2; ++k) step(*talks.back(), want);
  }
  EXPECT_LE(cards.counters().live_graphs, 16u);
  talks.clear();
  expect_same(*model, backend::KvType::kF16, 5, 3, 64);
}

TEST_F(Graphs, ARuntimeThatRecordsNothingLaunches) {
  for (const bool by_option : {false, true}) {
    Cards cards = cards_of({by_option ? "sm90" : "sm90:graphs=0"}, !by_option);
    EXPECT_FALSE(cards.card().stream().records());
    EXPECT_EQ(cards.card().caps().graphs, by_option ? "off: graphs=off"
                                                    : "off: its runtime records no launches");
    const auto model = load(cards.all(), {});
    expect_same(*model, backend::KvType::kF16, 2, 3);
    EXPECT_EQ(cards.counters().live_graphs, 0u);
  }
}

// Launches of the decode step after which replays begin, counted on a card without faults.
uint64_t launches_before_replays(const std::string& arch) {
  Cards cards = cards_of({arch});
  auto model = load_on(cards.all(), {});
  EXPECT_TRUE(model.ok());
  Talk talk(**model, backend::KvType::kF16);
  EXPECT_TRUE(talk.read(3).ok() && talk.decode().ok());
  return cards.counters().launches;
}

TEST_F(Graphs, AReplayThatFailsNamesItsKernelsAndLayersAndTheNextOneWorks) {
  const uint64_t before = launches_before_replays("gfx1100");
  Cards cards = cards_of({fmt::format("gfx1100:fail-launch={}", before + 20)});
  const auto model = load(cards.all(), {});
  {
    Talk talk(*model, backend::KvType::kF16);
    ASSERT_TRUE(talk.read(3).ok() && talk.decode().ok());
    const Status status = talk.decode();
    ASSERT_EQ(status.code(), StatusCode::kUnavailable);
    for (const char* part : {"emu:0 gfx1100", "recorded kernels, from ", " in layer "}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  expect_same(*model, backend::KvType::kF16, 3, 4);
}

TEST_F(Graphs, ALateFaultOfAReplayNamesTheRangeItLiesIn) {
  const uint64_t before = launches_before_replays("sm90");
  Cards cards = cards_of({fmt::format("sm90:late-error-at-launch={}", before + 20)});
  const auto model = load(cards.all(), {});
  Talk talk(*model, backend::KvType::kF16);
  ASSERT_TRUE(talk.read(3).ok() && talk.decode().ok());
  const Status status = talk.decode();
  ASSERT_EQ(status.code(), StatusCode::kUnavailable);
  for (const char* part : {"emu:0 sm90", "the fault lies in one of ", " in layer 0 to ", " in the head"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST_F(Graphs, NothingIsLeftBehind) {
  Cards cards = cards_of({"sm80"});
  {
    const auto model = load(cards.all(), {});
    expect_same(*model, backend::KvType::kF16, 2, 3);
    EXPECT_GE(cards.counters().live_graphs, 1u);
  }
  EXPECT_EQ(cards.counters().live_graphs, 0u);
  cards.close();
  EXPECT_EQ(cards.counters().live_allocations, 0u);
}

}  // namespace
}  // namespace strata::split_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--full") == 0) strata::split_test::full = true;
  }
  return RUN_ALL_TESTS();
}
