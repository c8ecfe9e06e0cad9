#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "engine/planner/expert_profile.h"
#include "engine/planner/host_memory.h"
#include "engine/planner/layer_split.h"
#include "engine/planner/plan_device.h"

namespace strata::engine {
namespace {

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string::npos;
}

TEST(LayerSplit, ReadsEverySpelling) {
  EXPECT_TRUE(parse_layer_split("auto")->automatic);
  EXPECT_EQ(parse_layer_split("18")->points, (std::vector<int>{18}));
  EXPECT_EQ(parse_layer_split("16,32")->points, (std::vector<int>{16, 32}));
  EXPECT_EQ(parse_layer_split("[16, 32]")->points, (std::vector<int>{16, 32}));
  EXPECT_EQ(parse_layer_split("[18]")->points, (std::vector<int>{18}));
  EXPECT_FALSE(parse_layer_split("18")->automatic);
  EXPECT_EQ(parse_layer_split("[16,32]")->text(), "16,32");
  EXPECT_EQ(LayerSplit{}.text(), "auto");
}

TEST(LayerSplit, SaysWhatIsWrongWithPoints) {
  EXPECT_TRUE(says(parse_layer_split("32,16").status(), "points must rise, but 16 follows 32"));
  EXPECT_TRUE(says(parse_layer_split("16,16").status(), "points must rise"));
  EXPECT_TRUE(says(parse_layer_split("0").status(), "at least 1"));
  EXPECT_TRUE(says(parse_layer_split("-3").status(), "at least 1"));
  for (const char* text :
       {"", "x", "18,", ",18", "18;20", "[18", "18]", "[]", "1.5", "99999999999999"}) {
    const auto split = parse_layer_split(text);
    ASSERT_FALSE(split.ok()) << text;
    EXPECT_TRUE(says(split.status(), "such as 18 or 16,32")) << split.status().message();
    EXPECT_EQ(split.status().field(), "layer_split");
  }
}

TEST(LayerSplit, MustSuitTheModelAndTheDevices) {
  const auto check = [](const char* text, int layers, size_t devices) {
    return check_layer_split(*parse_layer_split(text), layers, devices);
  };
  EXPECT_TRUE(check("18", 48, 2).ok());
  EXPECT_TRUE(check("47", 48, 2).ok());
  EXPECT_TRUE(check("auto", 1, 5).ok());
  EXPECT_TRUE(says(check("48", 48, 2), "at most 47"));
  EXPECT_TRUE(says(check("1,2,3,4", 4, 8), "5 stages, but the model has 4 layers"));
  EXPECT_TRUE(says(check("16,32", 48, 2), "3 stages, but there are 2 devices"));
  EXPECT_TRUE(says(check("16", 48, 1), "there is one device"));
}

TEST(AssumedDevices, ReadsWhatUsersWrite) {
  const auto devices = parse_assumed_devices(
      "gfx1100:24GiB:800GB/s,gfx1030:16384MiB:512.5GB/s:RX 6950 XT:25TOPS:link=6GB/s:launch=5us, "
      "cpu:62GiB:40GB/s");
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_EQ(devices->size(), 3u);
  const PlanDevice &a = (*devices)[0], &b = (*devices)[1], &c = (*devices)[2];
  EXPECT_EQ(a.id, "gfx1100");
  EXPECT_EQ(a.title, "gfx1100");
  EXPECT_EQ(a.free_bytes, uint64_t{24} << 30);
  EXPECT_EQ(a.memory_gbs, 800);
  EXPECT_GT(a.int8_tops, 0);
  EXPECT_FALSE(a.is_cpu());
  EXPECT_EQ(b.title, "gfx1030 RX 6950 XT");
  EXPECT_EQ(b.free_bytes, uint64_t{16} << 30);
  EXPECT_EQ(b.memory_gbs, 512.5);
  EXPECT_EQ(b.int8_tops, 25);
  EXPECT_EQ(b.to_device_gbs, 6);
  EXPECT_EQ(b.to_host_gbs, 6);
  EXPECT_EQ(b.launch_us, 5);
  EXPECT_TRUE(c.is_cpu());
  EXPECT_TRUE(c.may_be_stage);
}

TEST(AssumedDevices, TellsEqualCardsApart) {
  const auto devices =
      parse_assumed_devices("gfx1100:24GiB:800GB/s,gfx1201:16GiB:600GB/s,gfx1100:24GiB:800GB/s");
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ((*devices)[0].id, "gfx1100#1");
  EXPECT_EQ((*devices)[1].id, "gfx1201");
  EXPECT_EQ((*devices)[2].id, "gfx1100#2");
}

TEST(AssumedDevices, NamesThePartThatIsWrong) {
  for (const auto& [text, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "ARCH:MEMORY:BANDWIDTH"},
           {"gfx1100", "ARCH:MEMORY:BANDWIDTH"},
           {":24GiB:800GB/s", "an architecture"},
           {"gfx1100:24GB:800GB/s", "free memory such as 24GiB"},
           {"gfx1100:-1GiB:800GB/s", "free memory"},
           {"gfx1100:nanGiB:800GB/s", "free memory"},
           {"gfx1100:24GiB:0GB/s", "memory bandwidth such as"},
           {"gfx1100:24GiB:800", "memory bandwidth such as"},
           {"gfx1100:24GiB:800GB/s:clock=3", "or one name"},
           {"gfx1100:24GiB:800GB/s:a:b", "or one name"},
           {"gfx1100:24GiB:800GB/s:1TOPS:2TOPS", "each figure once"},
           {"gfx1100:24GiB:800GB/s:link=x", "link=6GB/s"},
           {"gfx1100:24GiB:800GB/s,", "ARCH:MEMORY:BANDWIDTH"},
           {"cpu:1GiB:2GB/s,cpu:1GiB:2GB/s", "a machine has one"}}) {
    const auto devices = parse_assumed_devices(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_TRUE(says(devices.status(), part)) << text << ": " << devices.status().message();
  }
}

// expert-profile.bin, byte by byte.
struct ProfileFile {
  std::string magic = "STRP";
  uint32_t version = 1, layers = 2, experts = 3, slots = 4;
  std::vector<std::pair<uint16_t, uint16_t>> pairs = {{1, 2}, {0, 0}, {1, 0}};
  std::vector<int32_t> ranks = {1, -1, -1, 2, -1, 0};

  std::vector<std::byte> bytes() const {
    std::string out = magic;
    const auto put = [&](auto value) {
      for (size_t i = 0; i < sizeof value; ++i) {
        out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
      }
    };
    put(version);
    put(layers);
    put(experts);
    put(slots);
    put(static_cast<uint32_t>(pairs.size()));
    for (const auto& [layer, expert] : pairs) {
      put(layer);
      put(expert);
    }
    for (const int32_t rank : ranks) put(rank);
    std::vector<std::byte> result(out.size());
    std::memcpy(result.data(), out.data(), out.size());
    return result;
  }
  Result<ExpertProfile> parse() const { return ExpertProfile::parse(bytes(), "p.bin"); }
};

TEST(ExpertProfileFile, GivesTheOrderAndPutsTheRestLast) {
  const auto profile = ProfileFile().parse();
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(profile->layers(), 2);
  EXPECT_EQ(profile->experts(), 3);
  EXPECT_EQ(profile->ranked(), 3u);
  EXPECT_EQ(profile->order(), (std::vector<uint32_t>{5, 0, 3, 1, 4, 2}));
  for (uint32_t layer = 0; layer < 2; ++layer) {
    EXPECT_NEAR(
        profile->share(layer * 3) + profile->share(layer * 3 + 1) + profile->share(layer * 3 + 2),
        1, 1e-12);
  }
  EXPECT_GT(profile->share(5), profile->share(3));
  EXPECT_GT(profile->share(3), profile->share(4));
}

TEST(ExpertProfileFile, RefusesWhatIsNotOne) {
  const auto fault = [](auto&& change, std::string_view part) {
    ProfileFile file;
    change(file);
    const auto profile = file.parse();
    ASSERT_FALSE(profile.ok()) << part;
    EXPECT_TRUE(says(profile.status(), part)) << profile.status().message();
    EXPECT_TRUE(says(profile.status(), "p.bin"));
  };
  fault([](ProfileFile& f) { f.magic = "GGUF"; }, "begins with STRP");
  fault([](ProfileFile& f) { f.version = 2; }, "version 2");
  fault([](ProfileFile& f) { f.layers = 0; }, "not possible");
  fault([](ProfileFile& f) { f.experts = 0xffffffff; }, "not possible");
  fault(
      [](ProfileFile& f) {
        f.layers = 4096;
        f.experts = 65536;
      },
      "bytes where");
  fault([](ProfileFile& f) { f.ranks.pop_back(); }, "bytes where");
  fault([](ProfileFile& f) { f.ranks.push_back(0); }, "bytes where");
  fault([](ProfileFile& f) { f.pairs[0] = {2, 0}; }, "not in the model");
  fault([](ProfileFile& f) { f.pairs[0] = {0, 3}; }, "not in the model");
  fault([](ProfileFile& f) { f.pairs[2] = {1, 2}; }, "ranked twice");
  fault([](ProfileFile& f) { f.ranks[5] = 1; }, "disagree");
  const std::vector<std::byte> bytes = ProfileFile().bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ExpertProfile::parse(std::span(bytes).first(size), "p.bin").ok()) << size;
  }
}

TEST(ExpertProfileFile, BelongsToOneShapeOfModel) {
  const auto profile = ProfileFile().parse();
  EXPECT_TRUE(profile->suits(2, 3).ok());
  const Status other = profile->suits(48, 512);
  EXPECT_TRUE(says(
      other, "is of another model: it has 2 layers with 3 experts, this model has 48 with 512"))
      << other.message();
  EXPECT_EQ(other.field(), "expert_profile");
}

// Published hit rates of caches filled in the profile's order, on text it was not made from.
TEST(ExpertProfileFile, RanksPredictPublishedHitRates) {
  ProfileFile file;
  file.layers = 48;
  file.experts = 512;
  file.pairs.clear();
  file.ranks.assign(48 * 512, -1);
  for (uint32_t r = 0; r < 48 * 512; ++r) {
    const auto layer = static_cast<uint16_t>(r % 48), expert = static_cast<uint16_t>(r / 48);
    file.pairs.push_back({layer, expert});
    file.ranks[layer * 512u + expert] = static_cast<int32_t>(r);
  }
  const auto profile = file.parse();
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  const auto held = [&](size_t slots) {
    double sum = 0;
    for (size_t i = 0; i < slots; ++i) sum += profile->share(profile->order()[i]);
    return sum / 48;
  };
  EXPECT_NEAR(held(4105), 0.64, 0.03);
  EXPECT_NEAR(held(5805), 0.692, 0.03);
  EXPECT_NEAR(held(24576), 1, 1e-9);
  // No expert can be used more than once per token and layer.
  EXPECT_LT(profile->share(profile->order()[0]), 0.1);
}

TEST(ExpertProfileFile, CountsAreTakenAsTheyAre) {
  const std::vector<uint64_t> counts = {1, 0, 3, 0, 0, 0};
  const ExpertProfile profile = ExpertProfile::from_counts(2, 3, counts);
  EXPECT_EQ(profile.order()[0], 2u);
  EXPECT_EQ(profile.order()[1], 0u);
  EXPECT_DOUBLE_EQ(profile.share(2), 0.75);
  EXPECT_DOUBLE_EQ(profile.share(1), 0);
  EXPECT_DOUBLE_EQ(profile.share(4), 1.0 / 3);  // a layer that was never seen
}

TEST(AvailableRam, TheTightestLimitHolds) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / "available-ram";
  fs::remove_all(root);
  const auto write = [&](const char* path, const char* text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  EXPECT_EQ(available_ram(root.string()), 0u);
  write("proc/meminfo", "MemTotal:       64000 kB\nMemFree:  10 kB\nMemAvailable:   50000 kB\n");
  EXPECT_EQ(available_ram(root.string()), 50000u * 1024);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "5000000\n");
  EXPECT_EQ(available_ram(root.string()), 50000u * 1024);
  write("sys/fs/cgroup/memory.max", "20000000\n");
  EXPECT_EQ(available_ram(root.string()), 15000000u);
  // Cached pages of files are given back.
  write("sys/fs/cgroup/memory.stat", "anon 1000\ninactive_file 2000000\nactive_file 1000000\n");
  EXPECT_EQ(available_ram(root.string()), 18000000u);
  write("sys/fs/cgroup/memory.current", "90000000\n");
  EXPECT_EQ(available_ram(root.string()), 0u);
  fs::remove_all(root);
}

}  // namespace
}  // namespace strata::engine
