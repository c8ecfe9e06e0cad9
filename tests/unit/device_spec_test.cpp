#include "backend/device_spec.h"

#include <gtest/gtest.h>

namespace strata::backend {
namespace {

std::vector<DeviceRequest> parsed(std::string_view text) {
  auto devices = parse_device_list(text);
  EXPECT_TRUE(devices.ok()) << devices.status().message();
  return devices.ok() ? std::move(*devices) : std::vector<DeviceRequest>();
}

std::string refusal(std::string_view text) {
  const auto devices = parse_device_list(text);
  EXPECT_FALSE(devices.ok()) << text;
  return devices.ok() ? "" : devices.status().message();
}

TEST(DeviceNames, KeepTheirOrderAndSayWhichCard) {
  const auto devices = parsed("hip:1,cpu,cuda:0,hip:0000:03:00.0");
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].id, "hip:1");
  EXPECT_EQ(devices[0].target, "1");
  EXPECT_EQ(device_kind(devices[1]), "cpu");
  EXPECT_EQ(devices[2].target, "0");
  EXPECT_EQ(devices[3].target, "0000:03:00.0");
}

TEST(DeviceNames, LetAnEmulatedCardsSettingsHoldCommas) {
  const auto devices = parsed("emu:gfx1100:memory-mib=64,seed=7,emu:gfx1201,cpu");
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].target, "gfx1100:memory-mib=64,seed=7");
  EXPECT_EQ(devices[1].target, "gfx1201");
  EXPECT_EQ(parsed("emu_race:gfx1100:seed=7,peer=0,emu_race:gfx1201").size(), 2u);
}

TEST(DeviceNames, TellTwoEmulatedCardsOfOneKindApartByTheirTag) {
  const auto devices = parsed("emu:gfx1100#left,emu:gfx1100#right");
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].id, "emu:gfx1100#left");
  EXPECT_EQ(devices[0].target, "gfx1100");
  EXPECT_EQ(devices[1].target, "gfx1100");
}

TEST(DeviceNames, RefuseWhatIsNoDevice) {
  EXPECT_NE(refusal("rocm:0").find("rocm:0"), std::string::npos);
  EXPECT_NE(refusal("").find("there is no device"), std::string::npos);
  EXPECT_NE(refusal("cuda:0,,hip:1").find("there is no device \"\""), std::string::npos);
  EXPECT_NE(refusal("emu:gfx1030,,cpu").find("there is no device \"\""), std::string::npos);
  EXPECT_NE(refusal("cuda").find("cuda:0"), std::string::npos);
  EXPECT_NE(refusal("hip:").find("hip:0"), std::string::npos);
  EXPECT_NE(refusal("cpu:0").find("named cpu"), std::string::npos);
  EXPECT_NE(refusal("cuda:0,hip:0,cuda:0").find("cuda:0 is named twice"), std::string::npos);
}

TEST(DeviceOptions, ReachTheirDeviceByNumberOrName) {
  auto devices = parsed("cuda:0,hip:1");
  EXPECT_TRUE(apply_device_option("1:reserve-mib=5120", devices).ok());
  EXPECT_TRUE(apply_device_option("hip:1:vram-limit-mib=12288", devices).ok());
  EXPECT_TRUE(apply_device_option("cuda:0:kernels=reference", devices).ok());
  EXPECT_TRUE(apply_device_option("1:attention_prompt=reference", devices).ok());
  EXPECT_EQ(devices[1].reserve_bytes, uint64_t{5120} << 20);
  EXPECT_EQ(devices[1].memory_limit_bytes, uint64_t{12288} << 20);
  EXPECT_TRUE(apply_device_option("1:graphs=off", devices).ok());
  EXPECT_TRUE(devices[0].graphs);
  EXPECT_FALSE(devices[1].graphs);
  EXPECT_TRUE(apply_device_option("1:graphs=on", devices).ok());
  EXPECT_TRUE(devices[1].graphs);
  EXPECT_TRUE(apply_device_option("0:peer=off", devices).ok());
  EXPECT_FALSE(devices[0].peer);
  EXPECT_TRUE(devices[1].peer);
  EXPECT_NE(apply_device_option("1:peer=1", devices).message().find("peer expects on or off"),
            std::string::npos);
  EXPECT_NE(apply_device_option("1:graphs=no", devices).message().find("on or off"),
            std::string::npos);
  EXPECT_TRUE(devices[0].kernels.all_reference);
  EXPECT_FALSE(devices[1].kernels.all_reference);
  EXPECT_TRUE(devices[1].kernels.wants_reference(OpId::kAttention));
  EXPECT_FALSE(devices[1].kernels.wants_reference(OpId::kMatmul));
}

TEST(DeviceOptions, ReachACardNamedByItsAddress) {
  auto devices = parsed("hip:0000:03:00.0,hip:0000:0a:00.0");
  EXPECT_TRUE(apply_device_option("hip:0000:0a:00.0:reserve-mib=1", devices).ok());
  EXPECT_EQ(devices[0].reserve_bytes, 0u);
  EXPECT_EQ(devices[1].reserve_bytes, uint64_t{1} << 20);
}

TEST(DeviceOptions, SayWhatIsWrongWithThem) {
  auto devices = parsed("cuda:0,hip:1");
  const auto problem = [&](const char* text) {
    const Status status = apply_device_option(text, devices);
    EXPECT_FALSE(status.ok()) << text;
    return status.message();
  };
  EXPECT_NE(problem("2:kernels=reference").find("0 = cuda:0, 1 = hip:1"), std::string::npos);
  EXPECT_NE(problem("hip:0:kernels=reference").find("hip:0"), std::string::npos);
  EXPECT_NE(problem("1:kernels").find("DEVICE:KEY=VALUE"), std::string::npos);
  EXPECT_NE(problem("1").find("DEVICE:KEY=VALUE"), std::string::npos);
  EXPECT_NE(problem("1:colour=red").find("no option \"colour\""), std::string::npos);
  EXPECT_NE(problem("1:reserve-mib=lots").find("number of MiB"), std::string::npos);
  EXPECT_NE(problem("1:reserve-mib=-1").find("number of MiB"), std::string::npos);
  EXPECT_NE(problem("1:gdn=fast").find("only be set to reference"), std::string::npos);
  EXPECT_NE(problem("1:kernels=gdn,warp").find("\"warp\""), std::string::npos);
}

}  // namespace
}  // namespace strata::backend
