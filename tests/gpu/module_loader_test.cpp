#include "backend/module_loader.h"

#include <gtest/gtest.h>

#include "interface_hash.h"

namespace strata::backend {
namespace {

Status refusal(const char* name) {
  const auto module = load_module("hip", std::string(STRATA_MODULES) + "/" + name);
  EXPECT_FALSE(module.ok()) << name;
  return module.status();
}

void expect_parts(const Status& status, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

TEST(ModuleLoader, RefusesAModuleOfAnotherVersion) {
  const Status status = refusal("other_version");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  expect_parts(status, {"other_version/libstrata_hip.so", "another version", "9.9.9",
                        "0123456789ab", kInterfaceHash, "install program and back ends from one build"});
}

TEST(ModuleLoader, RefusesALibraryThatIsNoModule) {
  const Status status = refusal("bad_magic");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  expect_parts(status, {"bad_magic/libstrata_hip.so", "not a back end of Strata", "reinstall"});
}

TEST(ModuleLoader, RefusesAFileThatIsNoLibrary) {
  const Status status = refusal("no_library");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expect_parts(status, {"no_library/libstrata_hip.so", "does not load", "--devices"});
}

TEST(ModuleLoader, PassesOnWhatAModuleSaysOfItsDriver) {
  const Status status = refusal("old_driver");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  expect_parts(status, {"hip: the driver is too old", "update the driver"});
}

TEST(ModuleLoader, SaysHowToBuildAModuleThatIsNotThere) {
  const Status status = refusal("nothing");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  expect_parts(status, {"no hip back end", "libstrata_hip.so", "-DSTRATA_ENABLE_HIP=ON"});
}

}  // namespace
}  // namespace strata::backend
