// The GPU devices that an op test runs on, and the CPU whose answers they must give.
//
// By default an emulated card of every architecture group; --device=cuda:0 (repeatable) names others.
// Emulated cards have one multiprocessor, so that small matrices are enough to fill them. A test file uses it with
//   int main(int argc, char** argv) { return gpu_test::main(argc, argv); }
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "backend/module_loader.h"
#include "ops/operands.h"

namespace strata::gpu_test {

using backend::Device;
using backend::KernelSpec;

struct Devices {
  std::vector<std::string> names;
  std::map<std::string, std::shared_ptr<backend::LoadedModule>> modules;
  std::vector<std::unique_ptr<Device>> gpus;
  std::unique_ptr<Device> cpu;
};
inline Devices& devices() {
  static Devices all;
  return all;
}

inline void open_devices() {
  Devices& d = devices();
  if (d.names.empty()) {
    for (const char* arch : {"sm75", "sm80", "sm90", "sm120", "gfx1030", "gfx1100", "gfx1201"}) {
      d.names.push_back(std::string("emu:") + arch + ":multiprocessors=1");
    }
  }
  for (const std::string& name : d.names) {
    const size_t colon = name.find(':');
    ASSERT_NE(colon, std::string::npos) << name << " names no device; write cuda:0 or emu:sm90";
    const std::string kind = name.substr(0, colon);
    if (!d.modules.contains(kind)) {
      auto module = backend::load_module(kind);
      ASSERT_TRUE(module.ok()) << module.status().message();
      d.modules[kind] = std::move(module).value();
    }
    const backend::DeviceRequest request{
        .id = name, .target = name.substr(colon + 1), .kernels = {}};
    auto opened = d.modules[kind]->module->open({&request, 1});
    ASSERT_EQ(opened.size(), 1u);
    ASSERT_TRUE(opened[0].ok()) << opened[0].status().message();
    d.gpus.push_back(std::move(opened[0]).value());
  }
  auto cpu = backend::open_cpu_device({.workers = 2, .kernels = {}});
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  d.cpu = std::move(cpu).value();
}

class Environment : public ::testing::Environment {
 public:
  void SetUp() override { open_devices(); }
  void TearDown() override { devices().gpus.clear(); }
};

inline int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--device=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFlag.size()) == kFlag) {
      devices().names.emplace_back(argument.substr(kFlag.size()));
    }
  }
  ::testing::AddGlobalTestEnvironment(new Environment);
  return RUN_ALL_TESTS();
}

// Rows of an op that a device admits for weights of `type`.
inline std::vector<const KernelSpec*> rows_of(Device& device, backend::OpId op,
                                              std::optional<QuantType> type = std::nullopt) {
  std::vector<const KernelSpec*> out;
  for (const KernelSpec* row : device.kernels().admitted()) {
    if (row->op == op && (!row->weight_type || row->weight_type == type)) out.push_back(row);
  }
  return out;
}

// Weight types for which some device has a row of this op.
inline std::vector<QuantType> types_of(backend::OpId op) {
  std::vector<QuantType> out;
  for (int i = 0; i < kQuantTypeCount; ++i) {
    const auto type = static_cast<QuantType>(i);
    for (const auto& device : devices().gpus) {
      if (!rows_of(*device, op, type).empty()) {
        out.push_back(type);
        break;
      }
    }
  }
  return out;
}

// The CPU's rows: the one that follows the arithmetic contract, and the one in double precision.
inline const KernelSpec* cpu_row(backend::OpId op, std::optional<QuantType> type, bool reference) {
  for (const KernelSpec* row : rows_of(*devices().cpu, op, type)) {
    if (row->reference == reference) return row;
  }
  return nullptr;
}

// Indices of the first entries whose bits differ; NaN is NaN whatever its bits.
inline testing::AssertionResult same_bits(const std::vector<float>& got,
                                          const std::vector<float>& want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << "different sizes";
  int differ = 0;
  size_t first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = got[i] != got[i] && want[i] != want[i];
    if (both_nan || std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i])) continue;
    if (differ++ == 0) first = i;
  }
  if (differ == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << differ << " of " << got.size() << " values differ, first at "
                                     << first << ": got " << got[first] << ", the CPU has "
                                     << want[first];
}

// Sum of squared differences over sum of squares.
inline double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    power += double{want[i]} * want[i];
  }
  return power == 0 ? error : error / power;
}

}  // namespace strata::gpu_test
