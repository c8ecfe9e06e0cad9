// Faults that one card's kernels or drivers may have on another card, put in on purpose: each is found
// when the devices are opened or proved, before an engine is ready, and the message names the device,
// the kernel and the remedy.
#include <gtest/gtest.h>

#include "engine/devices.h"

namespace strata::engine {
namespace {

const std::vector<QuantType> kTypes = {QuantType::kF32, QuantType::kIQ4_XS};

// What opening and proving these devices says; "" when they are fine.
std::string problem(const std::string& folder, const std::string& names) {
  EngineOptions options;
  auto devices = backend::parse_device_list(names);
  EXPECT_TRUE(devices.ok()) << devices.status().message();
  options.devices = std::move(*devices);
  options.module_folder = folder;
  options.workers = 1;
  auto set = open_devices(options);
  if (!set.ok()) return set.status().message();
  return prove_devices(*set, kTypes, [](const std::string&) {}).message();
}

std::string mutated(const char* name, const std::string& names) {
  return problem(std::string(STRATA_MUTATION_FOLDER) + "/" + name, names);
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
  }
}

TEST(Mutation, TheSoundModulePasses) {
  EXPECT_EQ(problem(STRATA_MODULE_FOLDER, "emu:gfx1100,emu:gfx1030"), "");
}

TEST(Mutation, ADriverThatAsksForTheArchitectureOncePerProcessIsCaught) {
  const std::string message = mutated("ask_once", "emu:gfx1100,emu:gfx1030");
  expect_parts(message, {"emu:gfx1030", "Emulated AMD Radeon RX 6950 XT", "MatmulMatrix IQ4_XS",
                         "gfx10", "leave emu:gfx1030 out with --devices"});
  // The card that was asked first is well.
  EXPECT_EQ(message.find("emu:gfx1100 ("), std::string::npos) << message;
}

TEST(Mutation, AnImageThatIsMissingOnTheSecondCardIsCaught) {
  expect_parts(problem(STRATA_MODULE_FOLDER, "emu:gfx1030,emu:gfx1100:drop-image=GdnStep"),
               {"emu:gfx1100:drop-image=GdnStep", "Emulated AMD Radeon RX 7900 XTX", "GdnStep",
                "NoBinaryForGpu", "rebuild the emu module for gfx1100", "--devices"});
}

TEST(Mutation, MissingImagesOfAllCardsAreInOneMessage) {
  expect_parts(problem(STRATA_MODULE_FOLDER,
                       "emu:gfx1030:drop-image=Embed,emu:gfx1100:drop-image=GdnStep,drop-image=HcMix"),
               {"Emulated AMD Radeon RX 6950 XT", "Embed", "Emulated AMD Radeon RX 7900 XTX",
                "GdnStep", "HcMix"});
}

TEST(Mutation, OneWrongBitOnOneGroupOfCardsIsCaught) {
  const std::string message = mutated("wrong_bit", "emu:gfx1030,emu:gfx1100");
  expect_parts(message, {"emu:gfx1100", "gfx1100 Emulated AMD Radeon RX 7900 XTX", "gdn/gpu",
                         "fails the self-test \"gdn", "values differ",
                         "leave emu:gfx1100 out with --devices", "strata doctor"});
  EXPECT_EQ(message.find("RX 6950 XT"), std::string::npos) << message;
}

}  // namespace
}  // namespace strata::engine
