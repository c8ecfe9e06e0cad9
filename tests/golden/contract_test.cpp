// The product path (int8 activations, docs/ARITHMETIC.md) on the real model: the same bits whatever
// the chunking, the threads and the instruction set, and close to float activations.
#include "golden/golden_data.h"
#include "support/shared_material.h"

namespace strata::test {
namespace {

using backend::CpuDeviceOptions;

CpuDeviceOptions product(int workers = 2, backend::FeatureSet disabled = 0) {
  CpuDeviceOptions options;
  options.workers = workers;
  options.disabled_features = disabled;
  return options;
}

// Mean over rows of KL(p || q), natural log, of two logit matrices.
double mean_kl(std::span<const float> p, std::span<const float> q, size_t vocabulary) {
  double total = 0;
  const size_t rows = p.size() / vocabulary;
  const auto log_sum = [vocabulary](std::span<const float> row) {
    double top = row[0], sum = 0;
    for (const float v : row) top = std::max<double>(top, v);
    for (size_t i = 0; i < vocabulary; ++i) sum += std::exp(row[i] - top);
    return top + std::log(sum);
  };
  for (size_t r = 0; r < rows; ++r) {
    const auto a = p.subspan(r * vocabulary, vocabulary);
    const auto b = q.subspan(r * vocabulary, vocabulary);
    const double za = log_sum(a), zb = log_sum(b);
    for (size_t i = 0; i < vocabulary; ++i) {
      total += std::exp(a[i] - za) * ((a[i] - za) - (b[i] - zb));
    }
  }
  return total / static_cast<double>(rows);
}

// Long enough for sparse attention, with every kind of prompt of the golden set.
std::vector<TokenId> long_text() {
  std::vector<TokenId> ids = golden_prompt("08-tool-answer").ids;
  const auto more = golden_prompt("11-recall-150").ids;
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

TEST(ContractTier, GivesTheSameBitsForAnyChunkSize) {
  TestModel model(default_model(), product());
  const auto ids = long_text();
  const auto whole = model.logits(ids, ids.size());
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{64}, size_t{512}}) {
    EXPECT_EQ(model.logits(ids, chunk), whole) << "chunk " << chunk;
  }
}

TEST(ContractTier, GivesTheSameBitsForAnyThreadCount) {
  const auto ids = long_text();
  TestModel one(default_model(), product(1));
  const auto expected = one.logits(ids, 64);
  for (const int workers : {2, 3}) {
    TestModel many(default_model(), product(workers));
    EXPECT_EQ(many.logits(ids, 64), expected) << workers << " workers";
  }
}

TEST(ContractTier, GivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<TokenId> ids = golden_prompt("11-recall-150").ids;
  TestModel best(default_model(), product());
  const auto expected = best.logits(ids, 64);
  backend::FeatureSet disabled = 0;
  for (const backend::FeatureSet next : {backend::kCpuAvx512Vbmi, backend::kCpuAvx512Vnni,
                                         backend::kCpuAvx512, backend::kCpuAvxVnni,
                                         backend::kCpuAvx2}) {
    disabled |= next;
    TestModel narrower(default_model(), product(2, disabled));
    EXPECT_EQ(narrower.logits(ids, 64), expected) << "without features " << disabled;
  }
}

TEST(ContractTier, BatchMatesDoNotChangeASequence) {
  TestModel model(default_model(), product());
  const auto a = golden_prompt("03-sum-xhigh").ids;
  const auto b = golden_prompt("11-recall-150").ids;
  const auto alone_a = model.logits(a, a.size());
  const auto alone_b = model.logits(b, b.size());
  auto first = model.sequence(200);
  auto second = model.sequence(200);
  const model::BatchItem items[] = {
      {.sequence = &first, .tokens = a, .logits = model::LogitsOf::kEveryToken, .positions = {},
       .next_position = 0, .embeddings = {}},
      {.sequence = &second, .tokens = b, .logits = model::LogitsOf::kEveryToken, .positions = {},
       .next_position = 0, .embeddings = {}}};
  std::vector<float> together;
  ASSERT_TRUE(model.model().forward(items, together).ok());
  ASSERT_EQ(together.size(), alone_a.size() + alone_b.size());
  EXPECT_TRUE(std::equal(alone_a.begin(), alone_a.end(), together.begin()));
  EXPECT_TRUE(std::equal(alone_b.begin(), alone_b.end(),
                         together.begin() + static_cast<ptrdiff_t>(alone_a.size())));
}

TEST(ContractTier, Int8ActivationsStayCloseToFloatActivations) {
  std::vector<std::string> files = {default_model()};
  if (const std::string shared = shared_material(); !shared.empty()) {
    files.push_back(shared + "/tiny-model/strata-tiny-Q8_0.gguf");
  }
  const auto ids = long_text();
  for (const std::string& file : files) {
    TestModel exact(file, float_activations());
    TestModel fast(file, product());
    const double kl = mean_kl(exact.logits(ids, 512), fast.logits(ids, 512), fast.vocabulary());
    RecordProperty("kl", std::to_string(kl));
    EXPECT_LT(kl, 1e-3) << file;
    EXPECT_GT(kl, 0.0) << file << ": both ran the same kernels";
  }
}

TEST(ContractTier, HalfPrecisionCacheStaysCloseToFloat) {
  TestModel model(default_model(), product());
  const auto ids = long_text();
  auto half = model.sequence(static_cast<int64_t>(ids.size()), backend::KvType::kF16);
  const double kl = mean_kl(model.logits(ids, 512), model.logits(ids, 512, half), model.vocabulary());
  EXPECT_LT(kl, 1e-4);
}

TEST(ContractTier, Int8CacheStaysCloseToFloat) {
  TestModel model(default_model(), product());
  const auto ids = long_text();
  auto coded = model.sequence(static_cast<int64_t>(ids.size()), backend::KvType::kI8);
  const double kl = mean_kl(model.logits(ids, 512), model.logits(ids, 512, coded), model.vocabulary());
  RecordProperty("kl", std::to_string(kl));
  EXPECT_LT(kl, 1e-3);
  EXPECT_GT(kl, 0.0) << "both kept floats";
}

TEST(ContractTier, AResetSequenceIsAFreshOne) {
  TestModel model(default_model(), product());
  const auto a = golden_prompt("08-tool-answer").ids;
  const auto b = golden_prompt("11-recall-150").ids;
  auto used = model.sequence(1000);
  model.logits(a, 64, used);
  ASSERT_TRUE(used.reset().ok());
  EXPECT_EQ(model.logits(b, 64, used), model.logits(b, 64));
}

TEST(ContractTier, ALongContextCostsOnlyTheMemoryThatIsUsed) {
  TestModel model(default_model(), product());
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    long total = 0, pages = 0;
    statm >> total >> pages;
    return pages * 4096;
  };
  const auto ids = golden_prompt("02-sum").ids;
  model.logits(ids, 64);
  const long before = resident();
  auto sequence = model.sequence(262144, backend::KvType::kF16);
  model.logits(ids, 64, sequence);
  // 262,144 tokens of this model's cache would be 512 MiB.
  EXPECT_LT(resident() - before, 16l << 20);
}

}  // namespace
}  // namespace strata::test
