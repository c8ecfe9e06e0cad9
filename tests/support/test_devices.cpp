// Also the main function of the programs that take --device=.
#include "support/test_devices.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "backend/device_spec.h"
#include "backend/module_loader.h"

// Devices without the flag.
#ifndef STRATA_TEST_DEVICES
#define STRATA_TEST_DEVICES ""
#endif

namespace strata::test {
namespace {

struct Opened {
  std::vector<backend::DeviceRequest> requests;
  std::vector<std::shared_ptr<backend::LoadedModule>> modules;
  std::vector<std::unique_ptr<backend::Device>> devices;
  std::vector<backend::Device*> list;
  bool tried = false;
};

Opened& opened() {
  static Opened state;
  return state;
}

void open_all(Opened& state) {
  std::map<std::string, std::vector<backend::DeviceRequest>> by_kind;
  for (const auto& request : state.requests) {
    by_kind[std::string(backend::device_kind(request))].push_back(request);
  }
  for (const auto& [kind, requests] : by_kind) {
    auto module = backend::load_module(kind);
    ASSERT_TRUE(module.ok()) << module.status().message();
    state.modules.push_back(*module);
    for (auto& device : (*module)->module->open(requests)) {
      ASSERT_TRUE(device.ok()) << device.status().message();
      state.list.push_back(device->get());
      state.devices.push_back(std::move(*device));
    }
  }
}

}  // namespace

bool read_device_flag(int& argc, char** argv) {
  constexpr const char* kFlag = "--device=";
  std::string list = STRATA_TEST_DEVICES;
  const auto is_flag = [](const char* text) { return std::strncmp(text, kFlag, strlen(kFlag)) == 0; };
  char** flag = std::find_if(argv + 1, argv + argc, is_flag);
  if (flag != argv + argc) {
    list = *flag + strlen(kFlag);
    std::copy(flag + 1, argv + argc, flag);
    argv[--argc] = nullptr;
  }
  if (list.empty()) return true;
  auto requests = backend::parse_device_list(list);
  if (!requests.ok()) {
    std::fprintf(stderr, "%s\n", requests.status().message().c_str());
    return false;
  }
  opened().requests = *requests;
  return true;
}

const std::vector<backend::Device*>& devices() {
  Opened& state = opened();
  if (!state.tried) {
    state.tried = true;
    open_all(state);
  }
  EXPECT_EQ(state.list.size(), state.requests.size());
  return state.list;
}

void close_devices() { opened().devices.clear(); }

}  // namespace strata::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!strata::test::read_device_flag(argc, argv)) return 2;
  const int result = RUN_ALL_TESTS();
  strata::test::close_devices();
  return result;
}
