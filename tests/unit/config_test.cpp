#include <functional>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "model/config.h"
#include "support/gguf_writer.h"

namespace strata::model {
namespace {

using test::GgufWriter;
using Add = std::function<void(GgufWriter&)>;

template <class T>
Add key(std::string name, T value) {
  return [name, value](GgufWriter& writer) { writer.add(name, value); };
}

// The numbers of the real model (docs/MODEL.md 1), with a table small enough for a test.
class Keys {
 public:
  Keys() {
    set("general.architecture", std::string("qwen4exp"));
    for (const auto& [name, value] :
         std::map<std::string, uint32_t>{{"block_count", 48},
                                         {"context_length", 262144},
                                         {"embedding_length", 2560},
                                         {"attention.head_count", 24},
                                         {"attention.head_count_kv", 2},
                                         {"attention.key_length", 256},
                                         {"attention.value_length", 256},
                                         {"rope.dimension_count", 64},
                                         {"attention.indexer.head_count", 4},
                                         {"attention.indexer.key_length", 128},
                                         {"attention.indexer.top_k", 2048},
                                         {"ssm.conv_kernel", 4},
                                         {"ssm.group_count", 16},
                                         {"ssm.time_step_rank", 48},
                                         {"ssm.state_size", 128},
                                         {"ssm.inner_size", 6144},
                                         {"expert_count", 512},
                                         {"expert_used_count", 10},
                                         {"expert_feed_forward_length", 640},
                                         {"expert_shared_feed_forward_length", 640},
                                         {"hyper_connection.count", 4},
                                         {"hyper_connection.low_rank", 320},
                                         {"ple.ngram_size", 3},
                                         {"ple.heads_per_ngram", 1},
                                         {"ple.conv_kernel", 4},
                                         {"ple.eos_token_id", 248044},
                                         {"embedding_length_per_layer_input", 160}}) {
      own(name, value);
    }
    own("attention.layer_norm_rms_epsilon", 1e-6f);
    own("rope.freq_base", 1e7f);
    own("rope.dimension_sections", std::vector<int32_t>{11, 11, 10, 0});
    std::vector<uint32_t> ratios;
    for (uint32_t il = 0; il < 48; ++il) ratios.push_back(il % 4 == 3 ? 4 : 0);
    own("attention.compress_ratios", ratios);
    own("ple.layers", std::vector<uint32_t>{1});
    own("ple.layer_multipliers", std::vector<uint64_t>{11, 13, 17});
    own("ple.head_vocab_sizes", std::vector<uint64_t>{5, 7});
    own("ple.head_offsets", std::vector<uint64_t>{0, 5});
  }

  template <class T>
  Keys& set(const std::string& name, T value) {
    keys_[name] = key(name, value);
    return *this;
  }
  template <class T>
  Keys& own(const std::string& name, T value) {
    return set(fmt::format("qwen4exp.{}", name), value);
  }
  Keys& drop(const std::string& name) {
    keys_.erase(fmt::format("qwen4exp.{}", name));
    return *this;
  }

  Result<Config> read(bool with_embedding = true) const {
    GgufWriter writer;
    for (const auto& [name, add] : keys_) add(writer);
    writer.add_tensor(with_embedding ? "token_embd.weight" : "other", {2, 16}, 0,
                      std::string(2 * 16 * 4, '\0'));
    const std::string bytes = writer.build();
    auto file = GgufFile::from_bytes({{"test.gguf", std::as_bytes(std::span(bytes))}});
    if (!file.ok()) return file.status();
    return Config::read(*file);
  }

 private:
  std::map<std::string, Add> keys_;
};

void expect_refused(const Keys& keys, std::string_view part) {
  const auto config = keys.read();
  ASSERT_FALSE(config.ok()) << part;
  EXPECT_EQ(config.status().code(), StatusCode::kFailedPrecondition) << part;
  EXPECT_NE(config.status().message().find(part), std::string::npos) << config.status().message();
  EXPECT_NE(config.status().message().find("test.gguf"), std::string::npos)
      << config.status().message();
}

TEST(Config, ReadsTheRealModel) {
  const auto config = Keys().read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->layers, 48);
  EXPECT_EQ(config->draft_layers, 0);
  EXPECT_EQ(config->vocabulary, 16);
  EXPECT_EQ(config->wide(), 10240);
  EXPECT_EQ(config->conv_channels(), 10240);
  EXPECT_EQ(config->ple_layer, 1);
  EXPECT_EQ(config->ple.heads(), 2);
  EXPECT_EQ(config->image_token, -1);
  EXPECT_EQ(config->rope_sections, (std::array<int, 3>{11, 11, 10}));
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / 16);
  for (size_t il = 0; il < 48; ++il) {
    const bool attends = il % 4 == 3;
    EXPECT_EQ(config->layer_kinds[il],
              attends ? memory::LayerKind::kAttention : memory::LayerKind::kGdn);
    EXPECT_EQ(config->ratios[il], attends ? 4 : 0);
  }
}

TEST(Config, ADraftBlockIsNoLayerOfTheTrunk) {
  const auto config = Keys().own("block_count", 49u).own("nextn_predict_layers", 1u).read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->layers, 48);
  EXPECT_EQ(config->draft_layers, 1);
  expect_refused(Keys().own("block_count", 1u).own("nextn_predict_layers", 1u), "no trunk");
  expect_refused(Keys().own("block_count", 1u).own("nextn_predict_layers", 2u),
                 "nextn_predict_layers is 2");
}

TEST(Config, AbsentKeysHaveTheDefaultsOfTheDocument) {
  const auto config = Keys()
                          .drop("rope.dimension_sections")
                          .drop("attention.compress_ratios")
                          .own("attention.scale", 0.0f)
                          .read();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rope_sections, (std::array<int, 3>{11, 11, 10}));
  EXPECT_EQ(config->ratios, std::vector<int>(48, 0));
  EXPECT_FLOAT_EQ(config->attention_scale, 1.0f / 16);
  const auto plain = Keys().drop("ple.layers").read();
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->has_ple());
}

TEST(Config, NamesTheKeyThatIsMissing) {
  for (const char* name :
       {"block_count", "context_length", "embedding_length", "attention.head_count",
        "attention.key_length", "attention.layer_norm_rms_epsilon", "rope.dimension_count",
        "rope.freq_base", "ssm.conv_kernel", "ssm.inner_size", "expert_count", "expert_used_count",
        "hyper_connection.count", "hyper_connection.low_rank", "ple.eos_token_id",
        "ple.layer_multipliers", "ple.head_offsets"}) {
    expect_refused(Keys().drop(name), fmt::format("qwen4exp.{}", name));
  }
}

TEST(Config, RefusesNumbersThatNoModelHas) {
  const std::pair<const char*, uint32_t> bad[] = {
      {"block_count", 0},
      {"context_length", 0},
      {"embedding_length", 0},
      {"attention.head_count_kv", 25},
      {"attention.head_count_kv", 5},
      {"attention.value_length", 128},
      {"rope.dimension_count", 258},
      {"rope.dimension_count", 63},
      {"ssm.time_step_rank", 47},
      {"ssm.inner_size", 6143},
      {"ssm.conv_kernel", 1},
      {"expert_used_count", 0},
      {"expert_used_count", 513},
      {"hyper_connection.count", 1},
      {"ple.ngram_size", 1},
      {"ple.heads_per_ngram", 0},
      {"attention.indexer.key_length", 2},
  };
  for (const auto& [name, value] : bad) {
    const auto config = Keys().own(name, value).read();
    ASSERT_FALSE(config.ok()) << name << " " << value;
    EXPECT_NE(config.status().message().find("qwen4exp."), std::string::npos)
        << config.status().message();
  }
}

TEST(Config, RefusesFloatsThatNoModelHas) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -1.0f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refused(Keys().own("rope.freq_base", value), "rope.freq_base");
    expect_refused(Keys().own("attention.layer_norm_rms_epsilon", value),
                   "attention.layer_norm_rms_epsilon");
  }
  expect_refused(Keys().own("attention.scale", -0.5f), "attention.scale");
  expect_refused(Keys().own("attention.scale", kInfinity), "attention.scale");
  expect_refused(Keys().own("expert_weights_scale", 2.5f), "expert_weights_scale");
}

TEST(Config, RefusesRotarySectionsThatDoNotFit) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (const auto& sections : std::vector<std::vector<int32_t>>{
           {11, 11}, {-1, 11, 10, 0}, {11, kMost, 10, 0}, {11, 11, kMost, 0}, {33, 11, 10, 0}}) {
    expect_refused(Keys().own("rope.dimension_sections", sections), "rope.dimension_sections");
  }
}

TEST(Config, RefusesListsThatDoNotFitTheLayers) {
  expect_refused(Keys().own("attention.compress_ratios", std::vector<uint32_t>(47, 0)),
                 "compress_ratios");
  expect_refused(Keys().own("attention.compress_ratios", std::vector<uint32_t>(48, 5000)),
                 "compress_ratios");
  expect_refused(Keys().own("attention.recurrent_layers", std::vector<uint32_t>(47, 1)),
                 "recurrent_layers");
  expect_refused(Keys().own("ple.layers", std::vector<uint32_t>{3}), "layer 3");
  expect_refused(Keys().own("ple.layers", std::vector<uint32_t>{48}), "layer 48");
  expect_refused(Keys().own("ple.layers", std::vector<uint32_t>{1, 2}), "2 layers");
}

TEST(Config, RefusesHashConstantsOfTheWrongNumber) {
  expect_refused(Keys().own("ple.layer_multipliers", std::vector<uint64_t>{11, 13}),
                 "layer_multipliers has 2 entries, expected 3");
  expect_refused(Keys().own("ple.head_vocab_sizes", std::vector<uint64_t>{5}), "1 and 2 entries");
  expect_refused(Keys().own("ple.head_vocab_sizes", std::vector<uint64_t>{5, 0}), "entry 1 is 0");
  expect_refused(Keys().own("ple.head_offsets",
                            std::vector<uint64_t>{0, std::numeric_limits<uint64_t>::max()}),
                 "which no table can have");
}

TEST(Config, RefusesOtherArchitecturesAndFilesWithoutEmbedding) {
  expect_refused(Keys().set("general.architecture", std::string("llama")), "'llama'");
  const auto config = Keys().read(/*with_embedding=*/false);
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find("token_embd.weight"), std::string::npos);
}

}  // namespace
}  // namespace strata::model
