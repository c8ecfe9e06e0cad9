#include "ops/self_test.h"

#include <thread>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "support/test_devices.h"

namespace strata::ops {
namespace {

using backend::Device;
using backend::KernelSpec;

constexpr QuantType kTypes[] = {QuantType::kF32, QuantType::kBF16, QuantType::kQ8_0,
                                QuantType::kIQ4_NL};

std::unique_ptr<Device> cpu() {
  auto device = backend::open_cpu_device({.workers = 1, .kernels = {}});
  EXPECT_TRUE(device.ok()) << device.status().message();
  return std::move(device).value();
}

TEST(SelfTest, PassesOnTheCpuWithEveryRow) {
  const auto device = cpu();
  const auto cases = self_test_cases(kTypes);
  const auto answers = self_test_answers(cases, *device);
  ASSERT_TRUE(answers.ok()) << answers.status().message();
  const Status status = run_self_tests(*device, cases, *answers);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SelfTest, CoversEveryOp) {
  const auto cases = self_test_cases(kTypes);
  for (int op = 0; op < static_cast<int>(backend::OpId::kCount); ++op) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const SelfTestCase& c) {
      return c.op == static_cast<backend::OpId>(op);
    })) << backend::op_name(static_cast<backend::OpId>(op));
  }
}

TEST(SelfTest, CoversEveryWeightType) {
  std::vector<QuantType> all;
  for (int i = 0; i < kQuantTypeCount; ++i) all.push_back(static_cast<QuantType>(i));
  const auto device = cpu();
  const auto cases = self_test_cases(all);
  const auto answers = self_test_answers(cases, *device);
  EXPECT_TRUE(answers.ok()) << answers.status().message();
}

TEST(SelfTest, PassesOnEveryDeviceOneAfterTheOtherAndAllAtOnce) {
  constexpr QuantType kFew[] = {QuantType::kBF16, QuantType::kQ8_0};
  const auto reference = cpu();
  const auto cases = self_test_cases(kFew);
  const auto answers = self_test_answers(cases, *reference);
  ASSERT_TRUE(answers.ok()) << answers.status().message();
  const auto& devices = test::devices();
  for (Device* device : devices) {
    const Status status = run_self_tests(*device, cases, *answers);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::vector<Status> results(devices.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < devices.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = run_self_tests(*devices[i], cases, *answers); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.message();
}

// One bit of one answer: the least that a faulty kernel could get wrong.
TEST(SelfTest, NamesDeviceRowCaseAndRemedyWhenAKernelIsOneBitOff) {
  const auto device = cpu();
  std::vector<SelfTestCase> cases;
  add_model_cases({}, cases);
  std::erase_if(cases, [](const SelfTestCase& c) { return c.op != backend::OpId::kHcWrite; });
  ASSERT_EQ(cases.size(), 1u);
  auto answers = self_test_answers(cases, *device);
  ASSERT_TRUE(answers.ok()) << answers.status().message();
  (*answers).contract[0][0][400] ^= std::byte{1};
  const Status status = run_self_tests(*device, cases, *answers);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  for (const char* part :
       {"cpu (x86-64", "hc_write/", "self-test \"hc_write\"", "1 of 3600 values differ", "value 100",
        "--device-option cpu:hc_write=reference", "strata doctor"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << "\n" << status.message();
  }
}

TEST(SelfTest, NoticesAContractThatTheDoublePrecisionTierDoubts) {
  const auto device = cpu();
  std::vector<SelfTestCase> cases;
  add_model_cases({}, cases);
  std::erase_if(cases, [](const SelfTestCase& c) { return c.op != backend::OpId::kPleInject; });
  ASSERT_FALSE(cases.empty());
  for (SelfTestCase& c : cases) c.tolerance = 1e-12;
  const auto answers = self_test_answers(cases, *device);
  ASSERT_FALSE(answers.ok());
  EXPECT_NE(answers.status().message().find("against ple_inject/"), std::string::npos)
      << answers.status().message();
}

TEST(SelfTest, SaysWhenADeviceHasNoKernelForAType) {
  const auto device = cpu();
  std::vector<SelfTestCase> cases;
  add_model_cases({}, cases);
  const auto answers = self_test_answers(cases, *device);
  ASSERT_TRUE(answers.ok()) << answers.status().message();
  cases[0].op = backend::OpId::kCount;
  const Status status = run_self_tests(*device, cases, *answers);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("STRATA_QUANTS"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace strata::ops
