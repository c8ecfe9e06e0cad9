// A decode step allocates nothing once its buffers have grown.
#include <atomic>
#include <cstdlib>
#include <new>

#include "golden/golden_data.h"

namespace {

std::atomic<long> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace strata::test {
namespace {

TEST(Allocation, ADecodeStepAllocatesNothing) {
  backend::CpuDeviceOptions options;
  options.workers = 2;
  TestModel model(default_model(), options);
  // Long enough for sparse attention in every step that is counted.
  const auto ids = golden_prompt("11-recall-150").ids;
  auto sequence = model.sequence(400);
  model.logits(ids, 64, sequence);
  std::vector<float> logits;
  const auto step = [&](TokenId id) {
    const model::BatchItem item{.sequence = &sequence, .tokens = {&id, 1},
                                .logits = model::LogitsOf::kLastToken, .positions = {},
                                .next_position = 0, .embeddings = {}};
    return model.model().forward({&item, 1}, logits).ok();
  };
  model::TopLogits top;
  top.k = 20;
  top.valid = model.model().config().vocabulary;
  const auto step_for_top = [&](TokenId id) {
    const model::BatchItem item{.sequence = &sequence, .tokens = {&id, 1},
                                .logits = model::LogitsOf::kLastToken, .positions = {},
                                .next_position = 0, .embeddings = {}};
    return model.model().forward({&item, 1}, top).ok();
  };
  for (TokenId id = 0; id < 16; ++id) ASSERT_TRUE(step(id) && step_for_top(id));
  const long before = allocations;
  for (TokenId id = 100; id < 164; ++id) ASSERT_TRUE(step(id));
  EXPECT_EQ(allocations - before, 0);
  const long before_top = allocations;
  for (TokenId id = 100; id < 164; ++id) ASSERT_TRUE(step_for_top(id));
  EXPECT_EQ(allocations - before_top, 0) << "with the best logits only";
  const auto copy = std::make_unique<int>(1);
  EXPECT_GT(allocations, before) << "the counter does not count";
}

}  // namespace
}  // namespace strata::test
