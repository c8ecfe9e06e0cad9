// The numbers of `inspect`. Expected totals: added up by an independent reader of the same file.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../support/gguf_writer.h"
#include "format/summary.h"

namespace strata {
namespace {

struct Expected {
  const char* name;
  size_t tensors;
  uint64_t elems, bytes;
};

void expect_totals(const std::vector<GgufSummary::Total>& got,
                   const std::vector<Expected>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    EXPECT_EQ(got[i].tensors, expected[i].tensors) << got[i].name;
    EXPECT_EQ(got[i].elems, expected[i].elems) << got[i].name;
    EXPECT_EQ(got[i].bytes, expected[i].bytes) << got[i].name;
  }
}

TEST(GgufSummary, AddsUpTheTinyModel) {
  const auto file =
      GgufFile::open(std::string(STRATA_SOURCE_DIR) + "/models/tiny/strata-tiny-IQ-mix-mtp.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufSummary s = summarize(*file);
  EXPECT_EQ(s.architecture, "qwen4exp");
  EXPECT_EQ(s.trunk_layers, 8);
  expect_totals({s.total}, {{"total", 246, 24413744, 17798080}});
  expect_totals(s.by_type, {{"Q6_K", 27, 5242880, 4300800},
                            {"BF16", 68, 1847296, 3694592},
                            {"Q8_0", 43, 3031040, 3220480},
                            {"IQ4_NL", 9, 4714496, 2651904},
                            {"IQ3_XXS", 8, 4194304, 1605632},
                            {"IQ2_XS", 8, 4194304, 1212416},
                            {"IQ4_XS", 1, 1048576, 557056},
                            {"F32", 81, 136752, 547008},
                            {"F16", 1, 4096, 8192}});
  expect_totals(s.by_part, {{"embeddings", 1, 1048576, 557056},
                            {"head", 1, 1048576, 860160},
                            {"PLE table", 1, 520192, 292608},
                            {"PLE layer", 6, 334848, 675840},
                            {"attention", 20, 1377792, 1521664},
                            {"delta net", 54, 3183408, 2706624},
                            {"hyper-connections", 67, 1197056, 2428928},
                            {"router", 8, 65536, 262144},
                            {"experts", 24, 12582912, 5177344},
                            {"shared expert", 32, 395264, 425984},
                            {"draft layer", 32, 2659584, 2889728}});

  const auto json = to_json(s);
  EXPECT_EQ(json["total"]["bytes"], 17798080);
  EXPECT_EQ(json["tensors"].size(), 246u);
  EXPECT_EQ(json["tensors"][0]["name"], "output.weight");
  EXPECT_EQ(json["tensors"][0]["shape"], (std::vector<int>{256, 4096}));
  EXPECT_EQ(json["tensors"][0]["type"], "Q6_K");
  EXPECT_EQ(json["tensors"][0]["part"], "head");
  EXPECT_EQ(json["by_part"][1]["name"], "head");
  EXPECT_EQ(json["shards"][0]["tensors"], 246);
  for (const auto& m : json["metadata"]) {
    if (m["key"] == "tokenizer.ggml.tokens") {
      EXPECT_EQ(m["type"], "array of 4096 strings");
      EXPECT_EQ(m["value"].get<std::string>().substr(0, 10), "[\"!\", \"\"\",");
      EXPECT_TRUE(m["value"].get<std::string>().ends_with(", ...]"));
    }
    EXPECT_LT(m["value"].get<std::string>().size(), 600u) << m["key"];
  }
}

TEST(GgufSummary, KnowsThePartOfEveryNameOfTheModel) {
  const std::pair<const char*, ModelPart> names[] = {
      {"token_embd.weight", ModelPart::kEmbeddings},
      {"output.weight", ModelPart::kHead},
      {"output_hc_up.weight", ModelPart::kHyperConnections},
      {"per_layer_token_embd.weight", ModelPart::kPleTable},
      {"blk.1.ple_key.weight", ModelPart::kPleLayer},
      {"blk.0.hc_ffn_inject.weight", ModelPart::kHyperConnections},
      {"blk.0.ffn_gate_inp.weight", ModelPart::kRouter},
      {"blk.0.ffn_gate_inp_shexp.weight", ModelPart::kSharedExpert},
      {"blk.0.ffn_down_shexp.weight", ModelPart::kSharedExpert},
      {"blk.0.ffn_gate_up_exps.weight", ModelPart::kExperts},
      {"blk.0.ffn_down_exps.scale", ModelPart::kExperts},
      {"blk.0.attn_qkv.weight", ModelPart::kDeltaNet},
      {"blk.0.attn_gate.weight", ModelPart::kDeltaNet},
      {"blk.0.ssm_a", ModelPart::kDeltaNet},
      {"blk.47.attn_q.weight", ModelPart::kAttention},
      {"blk.47.attn_output.weight", ModelPart::kAttention},
      {"blk.47.indexer.k_norm.weight", ModelPart::kAttention},
      {"blk.48.attn_q.weight", ModelPart::kDraftLayer},
      {"blk.48.nextn.enorm.weight", ModelPart::kDraftLayer},
      {"v.blk.0.attn_qkv.weight", ModelPart::kVision},
      {"mm.0.weight", ModelPart::kVision},
      {"blk.99999999999999999999.attn_q.weight", ModelPart::kOther},
      {"blk.0", ModelPart::kOther},
      {"blk.-1.attn_q.weight", ModelPart::kOther},
      {"rope_freqs.weight", ModelPart::kOther},
  };
  for (const auto& [name, part] : names) EXPECT_EQ(model_part(name, 48), part) << name;
  EXPECT_EQ(model_part("blk.48.attn_q.weight", -1), ModelPart::kAttention);
  EXPECT_EQ(model_part("blk.48.nextn.enorm.weight", -1), ModelPart::kDraftLayer);
}

TEST(GgufSummary, StaysValidUtf8WhateverTheFileSays) {
  test::GgufWriter w;
  w.add("good", "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
  w.add("bad", "a\xFF\xC3(\xED\xA0\x80\xF5\x80\x80\x80\xE2\x82");
  w.add("long", std::string(5000, 'x'));
  w.add_tensor("t\xFE", {1}, 0, "1234");
  const std::string bytes = w.build();
  const auto file = GgufFile::from_bytes({{"m\xFF.gguf", std::as_bytes(std::span(bytes))}});
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufSummary s = summarize(*file);
  EXPECT_EQ(s.trunk_layers, -1);
  EXPECT_EQ(s.metadata[0].value, "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
  EXPECT_EQ(s.metadata[2].value, std::string(200, 'x') + "...");
  EXPECT_NO_THROW((void)to_json(s).dump());  // dump() throws on anything but UTF-8
  EXPECT_TRUE(to_json(s)["trunk_layers"].is_null());
}

}  // namespace
}  // namespace strata
