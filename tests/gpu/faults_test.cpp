// Emulated cards that run out of memory, drop out or are not served: a sentence that names the card,
// and nothing left allocated.
#include <gtest/gtest.h>

#include "engine/devices.h"
#include "model/qwen4exp.h"

namespace strata {
namespace {

Result<engine::DeviceSet> open(const std::string& names, const std::vector<std::string>& settings = {}) {
  engine::EngineOptions options;
  auto devices = backend::parse_device_list(names);
  EXPECT_TRUE(devices.ok()) << devices.status().message();
  options.devices = std::move(*devices);
  for (const std::string& setting : settings) {
    const Status status = backend::apply_device_option(setting, options.devices);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  options.module_folder = STRATA_MODULE_FOLDER;
  options.workers = 1;
  return engine::open_devices(options);
}

std::string refusal(const std::string& names) {
  const auto set = open(names);
  EXPECT_FALSE(set.ok()) << names;
  return set.ok() ? "" : set.status().message();
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
  }
}

// The embedded model on one device, with room for a sequence.
Status load(backend::Device& device) {
  auto file = GgufFile::open(STRATA_SOURCE_DIR "/models/tiny/strata-tiny-IQ-mix-mtp.gguf");
  STRATA_RETURN_IF_ERROR(file.status());
  auto shared = std::make_shared<const GgufFile>(std::move(*file));
  STRATA_ASSIGN_OR_RETURN(const model::Config config, model::Config::read(*shared));
  const std::vector<memory::LayerPlace> places = {{&device, 0, config.layers}};
  STRATA_ASSIGN_OR_RETURN(auto model, model::Qwen4Exp::load(shared, places));
  STRATA_ASSIGN_OR_RETURN(auto sequence, model->new_sequence(backend::KvType::kF16, 256));
  STRATA_RETURN_IF_ERROR(sequence.reset());
  const TokenId token = 1;
  std::vector<float> logits;
  const model::BatchItem item{.sequence = &sequence,
                              .tokens = {&token, 1},
                              .logits = model::LogitsOf::kLastToken,
                              .positions = {},
                              .next_position = 0,
                              .embeddings = {}};
  return model->forward({&item, 1}, logits);
}

// MiB that one more allocation could have: what the card has free, found by halving.
uint64_t largest_mib(backend::Device& device, uint64_t most) {
  uint64_t fits = 0, too_much = most + 1;
  while (fits + 1 < too_much) {
    const uint64_t tried = (fits + too_much) / 2;
    (device.allocate(tried << 20).ok() ? fits : too_much) = tried;
  }
  return fits;
}

TEST(Faults, MemoryThatRunsOutAtAnyAllocationIsASentenceAndLeavesNothingBehind) {
  constexpr uint64_t kMib = 96;
  int failed = 0;
  for (uint64_t n = 1; n < 10000; n = n < 4 ? n + 1 : n * 3 / 2) {
    auto set = open(fmt::format("emu:gfx1030:memory-mib={},max-delay-us=0,fail-allocation={}", kMib, n));
    ASSERT_TRUE(set.ok()) << set.status().message();
    backend::Device& device = *set->devices.front();
    const Status status = load(device);
    if (status.ok()) break;
    ++failed;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << n << ": " << status.message();
    expect_parts(status.message(), {"emu:gfx1030", "Emulated AMD Radeon RX 6950 XT", "MiB", "vram-limit-mib"});
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
    EXPECT_TRUE(device.allocate(kMib << 20).ok()) << "memory is left from before allocation " << n;
    // The card goes on working.
    const Status again = load(device);
    EXPECT_TRUE(again.ok()) << n << ": " << again.message();
  }
  EXPECT_GE(failed, 5);
}

TEST(Faults, ALimitOfMemoryIsKept) {
  auto set = open("emu:gfx1030:memory-mib=96", {"0:vram-limit-mib=4"});
  ASSERT_TRUE(set.ok()) << set.status().message();
  const Status status = load(*set->devices.front());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
  EXPECT_EQ(largest_mib(*set->devices.front(), 96), 4u);
  auto reserved = open("emu:gfx1030:memory-mib=96", {"0:reserve-mib=40"});
  ASSERT_TRUE(reserved.ok()) << reserved.status().message();
  EXPECT_EQ(largest_mib(*reserved->devices.front(), 256), 56u);
}

TEST(Faults, ArchitecturesThatNoKernelServesAreRefused) {
  for (const char* arch : {"gfx906", "gfx90c", "gfx90a", "gfx1010", "sm61", "sm70"}) {
    const std::string message = refusal(fmt::format("emu:{}", arch));
    expect_parts(message, {fmt::format("emu:{} {} Emulated", arch, arch), "no kernels for", "gfx103x",
                           "sm_75", "leave the device out with --devices"});
    // No build would serve it.
    EXPECT_EQ(message.find("ARCHITECTURES"), std::string::npos) << message;
  }
}

TEST(Faults, AnApuBesideTheCardIsNamedAlone) {
  const std::string message = refusal("emu:gfx1030,emu:gfx90c");
  expect_parts(message, {"emu:gfx90c"});
  EXPECT_EQ(message.find("RX 6950 XT"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Faults, EverythingThatIsWrongWithAnyDeviceIsInOneMessage) {
  expect_parts(refusal("emu:gfx906,emu:gfx1030,emu:sm61,emu:gfx1100:drop-image=Embed"),
               {"gfx906", "sm61", "Embed"});
}

TEST(Faults, SettingsThatNoEmulatedCardHasAreNamed) {
  expect_parts(refusal("emu:gfx1030:colour=red"), {"colour", "memory-mib"});
  expect_parts(refusal("emu:gfx1030:memory-mib=none"), {"memory-mib", "whole number"});
  expect_parts(refusal("emu:gfx1030:drop-image=Nothing"), {"Nothing"});
  expect_parts(refusal("emu:teapot"), {"teapot", "emu:gfx1100"});
}

}  // namespace
}  // namespace strata
