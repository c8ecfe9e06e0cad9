// What bench computes: spreads, the plan of a round, bytes per step, the views of a report.
#include <array>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/bench_plan.h"
#include "apps/bench_report.h"
#include "apps/bench_stats.h"
#include "apps/bench_traffic.h"
#include "apps/option_values.h"

namespace strata::apps {
namespace {

TEST(BenchStats, TheMedianIsTheMiddleAndTheSpreadTheEnds) {
  const Spread odd = spread_of(std::vector<double>{9, 1, 4});
  EXPECT_EQ(odd.median, 4);
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.most, 9);
  EXPECT_EQ(spread_of(std::vector<double>{8, 1, 2, 4}).median, 3);
  EXPECT_EQ(spread_of(std::vector<double>{7}).median, 7);
  EXPECT_EQ(spread_of({}).median, 0);
}

TEST(BenchLists, AreNumbersWithCommasOrNone) {
  const auto read = [](std::string_view text) { return read_whole_list(text, 1, 100, 3); };
  EXPECT_EQ(*read("1,100,7"), (std::vector{1, 100, 7}));
  EXPECT_EQ(*read("none"), std::vector<int>());
  for (const char* bad : {"", "0", "101", "1,", ",1", "1,,2", "1 2", "1,none", "1,2,3,4", "x"}) {
    const auto result = read(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.status().message().find("expected none, or up to 3"), std::string::npos);
  }
}

TEST(BenchPlan, APromptSizeThatIsADepthTooIsReadOnce) {
  const std::vector<BenchCase> expected = {
      {0, 1, false, true}, {128, 1, true, false}, {512, 1, true, true}, {512, 4, false, true}};
  EXPECT_EQ(bench_cases(std::array{512, 128, 128}, std::array{512, 0}, std::array{4, 1, 4}),
            expected);
}

TEST(BenchPlan, BatchesNeedADepth) {
  EXPECT_EQ(bench_cases(std::array{16}, {}, std::array{1, 2}),
            (std::vector<BenchCase>{{16, 1, true, false}}));
  EXPECT_EQ(bench_cases({}, std::array{3}, {}), (std::vector<BenchCase>{{3, 1, false, true}}));
}

TEST(BenchPlan, TokensAreTheSameEveryTimeAndSpreadOverTheVocabulary) {
  const std::vector<TokenId> tokens = bench_tokens(0, 2000, 50, 7);
  EXPECT_EQ(tokens, bench_tokens(0, 2000, 50, 7));
  EXPECT_NE(tokens, bench_tokens(1, 2000, 50, 7));
  std::set<TokenId> expected;
  for (TokenId id = 0; id < 50; ++id) {
    if (id != 7) expected.insert(id);
  }
  EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()), expected);
  const std::vector<TokenId> first = bench_tokens(0, 100, 2, 0);
  EXPECT_EQ(std::set<TokenId>(first.begin(), first.end()), std::set<TokenId>{1});
  const std::vector<TokenId> longer = bench_tokens(0, 2001, 50, 7);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), longer.begin()));
}

// The shape of the model that the architecture is made for (docs/MODEL.md 1).
model::Config full_shape() {
  model::Config c;
  c.layers = 48;
  c.width = 2560;
  c.vocabulary = 248320;
  c.streams = 4;
  c.hc_rank = 320;
  c.heads = 24;
  c.kv_heads = 2;
  c.head_dim = 256;
  c.index_heads = 4;
  c.index_dim = 128;
  c.index_budget = 2048;
  c.key_heads = 16;
  c.value_heads = 48;
  c.gdn_head_dim = 128;
  c.conv_width = 4;
  c.experts = 512;
  c.experts_used = 10;
  c.expert_width = 640;
  c.ple_layer = 1;
  c.ple_conv_width = 4;
  c.ple.ngram = 3;
  c.ple.heads_per_ngram = 8;
  for (int layer = 0; layer < c.layers; ++layer) {
    const bool full = layer % 4 == 3;
    c.layer_kinds.push_back(full ? memory::LayerKind::kAttention : memory::LayerKind::kGdn);
    c.ratios.push_back(full ? 4 : 0);
  }
  return c;
}

class TensorList {
 public:
  void add(std::string name, std::vector<int64_t> shape, QuantType type = QuantType::kF32) {
    TensorInfo tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.type = type;
    tensor.bytes = static_cast<uint64_t>(tensor.rows()) * row_bytes(type, tensor.row_elems());
    tensors_.push_back(std::move(tensor));
  }

  void add_mixer(const std::string& name, bool inject) {
    add(name + "_norm.weight", {10240});
    add(name + "_down.weight", {10240, 320});
    add(name + "_up.weight", {320, 10240});
    if (inject) add(name + "_inject.weight", {10240, 4});
  }

  void add_layer(int layer, bool full) {
    const std::string b = "blk." + std::to_string(layer) + ".";
    add_mixer(b + "hc_attn", true);
    add_mixer(b + "hc_ffn", true);
    if (full) {
      add(b + "attn_q.weight", {2560, 12288});
      add(b + "attn_k.weight", {2560, 512});
      add(b + "attn_v.weight", {2560, 512});
      add(b + "attn_output.weight", {6144, 2560});
      add(b + "attn_q_norm.weight", {256});
      add(b + "attn_k_norm.weight", {256});
      add(b + "indexer.q_proj.weight", {2560, 512});
      add(b + "indexer.k_proj.weight", {2560, 128});
      add(b + "indexer.q_norm.weight", {128});
      add(b + "indexer.k_norm.weight", {128});
    } else {
      add(b + "attn_qkv.weight", {2560, 10240});
      add(b + "attn_gate.weight", {2560, 6144});
      add(b + "ssm_alpha.weight", {2560, 48});
      add(b + "ssm_beta.weight", {2560, 48});
      add(b + "ssm_conv1d.weight", {4, 10240});
      add(b + "ssm_dt.bias", {48});
      add(b + "ssm_a", {48});
      add(b + "ssm_norm.weight", {128});
      add(b + "ssm_out.weight", {6144, 2560});
    }
    add(b + "ffn_gate_inp.weight", {2560, 512});
    add(b + "ffn_gate_exps.weight", {2560, 640, 512});
    add(b + "ffn_up_exps.weight", {2560, 640, 512});
    add(b + "ffn_down_exps.weight", {640, 2560, 512});
    add(b + "ffn_gate_inp_shexp.weight", {2560});
    add(b + "ffn_gate_shexp.weight", {2560, 640});
    add(b + "ffn_up_shexp.weight", {2560, 640});
    add(b + "ffn_down_shexp.weight", {640, 2560});
  }

  std::span<const TensorInfo> tensors() const { return tensors_; }

 private:
  std::vector<TensorInfo> tensors_;
};

TensorList full_shape_tensors() {
  TensorList list;
  list.add("token_embd.weight", {2560, 248320});
  list.add("output.weight", {2560, 248320});
  list.add_mixer("output_hc", false);
  list.add("per_layer_token_embd.weight", {160, 320001536});
  for (int layer = 0; layer < 48; ++layer) list.add_layer(layer, layer % 4 == 3);
  list.add("blk.1.ple_key.weight", {2560, 10240});
  list.add("blk.1.ple_value.weight", {2560, 2560});
  list.add("blk.1.ple_norm_key.weight", {10240});
  list.add("blk.1.ple_norm_query.weight", {10240});
  list.add("blk.1.ple_norm_conv.weight", {10240});
  list.add("blk.1.ple_conv1d.weight", {4, 10240});
  list.add_layer(48, true);  // the draft layer
  return list;
}

TEST(BenchTraffic, ATokenOfTheFullModelReadsWhatTheModelIsKnownToRead) {
  const TensorList list = full_shape_tensors();
  const WeightTraffic traffic = weight_traffic(list.tensors(), full_shape());
  const int64_t experts =
      10 * std::accumulate(traffic.expert.begin(), traffic.expert.end(), int64_t{0});
  const auto values =
      static_cast<double>(traffic.dense + traffic.head + traffic.per_token + experts) / 4;
  // "6.67 B read per token (with the head)", docs/MODEL.md 1.
  EXPECT_NEAR(values / 1e9, 6.67, 0.005);
  EXPECT_EQ(traffic.head, int64_t{4} * 2560 * 248320);
  EXPECT_EQ(traffic.per_token, 4 * (2560 + 16 * 160));
  ASSERT_EQ(traffic.expert.size(), 48u);
  EXPECT_EQ(traffic.expert[47], 4 * 3 * 2560 * 640);
}

TEST(BenchTraffic, CountsQuantisedBytesAndATiedHead) {
  TensorList list;
  list.add("token_embd.weight", {256, 10}, QuantType::kQ6_K);
  list.add("blk.0.ffn_down_exps.weight", {64, 256, 512}, QuantType::kIQ4_NL);
  list.add("v.blk.0.attn_q.weight", {256, 256});
  list.add("blk.1.attn_q.weight", {256, 256});
  list.add("blk.0x.attn_q.weight", {256, 256});
  model::Config config;
  config.layers = 1;
  config.experts = 512;
  const WeightTraffic traffic = weight_traffic(list.tensors(), config);
  EXPECT_EQ(traffic.head, 10 * 210);
  EXPECT_EQ(traffic.per_token, 210);
  EXPECT_EQ(traffic.expert, std::vector<int64_t>{256 * 2 * 18});
  EXPECT_EQ(traffic.dense, 0);
}

TEST(BenchTraffic, StateIsThatOfTheModelsDescription) {
  const model::Config config = full_shape();
  // docs/MODEL.md 4: 118,038,528 recurrent bytes per sequence, 24,576 per token in F16; all of at
  // most 2,051 cells are attended (3.7).
  constexpr int64_t kRecurrent = 118038528, kCell = 24576;
  EXPECT_EQ(state_traffic(config, backend::KvType::kF16, 1), kRecurrent + kCell);
  EXPECT_EQ(state_traffic(config, backend::KvType::kF16, 2051), kRecurrent + 2051 * kCell);
  EXPECT_EQ(state_traffic(config, backend::KvType::kF32, 100), kRecurrent + 100 * 2 * kCell);
  // 512 blocks and a tail of 3; the pooled keys of 1,000 blocks are scored in 12 layers.
  EXPECT_EQ(state_traffic(config, backend::KvType::kF16, 4003),
            kRecurrent + 2051 * kCell + int64_t{12} * 1000 * 128 * 4);
}

BenchJson sample_report() {
  const std::vector<BenchMeasure> measures = {
      {BenchMeasure::Kind::kPrompt, 0, 1, 128, {2.0, 1.0, 4.0}, 0},
      {BenchMeasure::Kind::kDecode, 512, 4, 10, {2.0}, 3e9},
  };
  return {{"strata", {{"version", "1.2.3"}, {"compiler", "cc 4"}, {"build", "Release"}}},
          {"device",
           {{"name", "A, \"B\""},
            {"arch", "x86-64"},
            {"workers", 2},
            {"features", {"avx2"}},
            {"memory_bytes", int64_t{8} << 30}}},
          {"kernels", {{"avx2", {"matmul", "gdn"}}, {"reference", {"router"}}}},
          {"model",
           {{"path", "m.gguf"},
            {"parameters", 5000000},
            {"file_bytes", int64_t{1} << 30},
            {"layers", 3},
            {"experts", 512},
            {"experts_used", 10}}},
          {"settings", {{"kv", "f16"}, {"prompt_chunk", 64}, {"steps", 10}, {"repeat", 3}}},
          {"memory",
           {{"bytes_per_s", 30e9},
            {"buffer_bytes", int64_t{256} << 20},
            {"cache_bytes", int64_t{32} << 20},
            {"passes", 12}}},
          {"results", result_report(measures, 30e9)}};
}

TEST(BenchReport, RatesComeFromTheMedianRound) {
  const BenchJson results = sample_report()["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["tokens_per_s"]["median"], 64.0);
  EXPECT_EQ(results[0]["tokens_per_s"]["least"], 32.0);
  EXPECT_EQ(results[0]["tokens_per_s"]["most"], 128.0);
  EXPECT_FALSE(results[0].contains("step_bytes"));
  // 10 steps of 4 sequences in 2 s: 20 tokens/s, 200 ms and 3 GB a step.
  EXPECT_EQ(results[1]["tokens_per_s"]["median"], 20.0);
  EXPECT_DOUBLE_EQ(results[1]["step_ms"].get<double>(), 200.0);
  EXPECT_DOUBLE_EQ(results[1]["bytes_per_s"].get<double>(), 15e9);
  EXPECT_DOUBLE_EQ(results[1]["memory_share"].get<double>(), 0.5);
}

TEST(BenchReport, TheTableNamesMachineModelAndShare) {
  const std::string table = bench_table(sample_report());
  for (const char* part :
       {"A, \"B\" (avx2), 2 workers", "avx2 for matmul, gdn; reference for router",
        "30.0 GB/s read", "10 of 512 experts", "50.0%", "32.00 .. 128.00"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_EQ(table.find("last-level cache"), std::string::npos) << table;
}

TEST(BenchReport, TheCsvQuotesWhatNeedsItAndHasOneWidth) {
  const std::string csv = bench_csv(sample_report());
  EXPECT_NE(csv.find("\nm.gguf,\"A, \"\"B\"\"\",2,f16,64,prompt,128,0,1,64,32,128,,,,3e+10,\n"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",decode,10,512,4,20,20,20,200,3000000000,1.5e+10,3e+10,0.5\n"),
            std::string::npos)
      << csv;
}

}  // namespace
}  // namespace strata::apps
