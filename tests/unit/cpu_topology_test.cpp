#include "base/cpu_topology.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "base/worker_count.h"

namespace strata {
namespace {

using Ids = std::vector<int>;

TEST(CpuList, ReadsSinglesAndRanges) {
  EXPECT_EQ(parse_cpu_list("0"), Ids({0}));
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), Ids({0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(" 5 , 1-2 , 2"), Ids({1, 2, 5}));
}

TEST(CpuList, LeavesOutWhatIsMalformed) {
  for (const char* text : {"", "\n", ",,,", "-", "a", "3-", "-3", "3-1", "1-2-3", "0x10", "1.5",
                           "99999999999999999999", "-1--1", "8192", "8192-9000"}) {
    EXPECT_EQ(parse_cpu_list(text), Ids()) << text;
  }
  EXPECT_EQ(parse_cpu_list("x,4,-7,2-"), Ids({4}));
  EXPECT_EQ(parse_cpu_list("0-9223372036854775807").size(), size_t{CpuTopology::kMaxCpus});
}

// A machine as sysfs and procfs describe it, in a folder of its own.
class FakeMachine {
 public:
  FakeMachine() {
    // A hundred small files each: in memory where there is such a folder.
    const std::filesystem::path memory = "/dev/shm";
    root_ =
        (::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
        fmt::format("strata-machine-{}-{}", ::getpid(), std::random_device()());
    std::filesystem::create_directories(root_);
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void cpu_file(int id, const std::string& path, const std::string& text) {
    write(fmt::format("sys/devices/system/cpu/cpu{}/{}", id, path), text);
  }
  void online(const std::string& list) { write("sys/devices/system/cpu/online", list + "\n"); }
  void core(int id, int package, int core, const std::string& siblings, const std::string& cache) {
    cpu_file(id, "topology/physical_package_id", fmt::format("{}\n", package));
    cpu_file(id, "topology/core_id", fmt::format("{}\n", core));
    cpu_file(id, "topology/thread_siblings_list", siblings + "\n");
    cpu_file(id, "cache/index0/level", "1\n");
    cpu_file(id, "cache/index0/shared_cpu_list", siblings + "\n");
    cpu_file(id, "cache/index1/level", "3\n");
    cpu_file(id, "cache/index1/shared_cpu_list", cache + "\n");
  }
  void node(int id, const std::string& cpus) {
    write(fmt::format("sys/devices/system/node/node{}/cpulist", id), cpus + "\n");
  }

  CpuTopology read(const Ids& allowed = {}) const {
    return CpuTopology::read(root_.string(), allowed);
  }

 private:
  std::filesystem::path root_;
};

// Two sockets of 4 cores with two threads each; threads of a core are 8 apart.
void make_dual_socket(FakeMachine& machine) {
  machine.online("0-15");
  for (int id = 0; id < 16; ++id) {
    const int package = id % 8 / 4;
    machine.core(id, package, id % 4, fmt::format("{},{}", id % 8, id % 8 + 8),
                 package == 0 ? "0-3,8-11" : "4-7,12-15");
  }
  machine.write("sys/devices/system/node/online", "0-1\n");
  machine.node(0, "0-3,8-11");
  machine.node(1, "4-7,12-15");
}

// 2 performance cores with two threads each (0-3) and 4 efficiency cores (4-7).
void make_hybrid_cores(FakeMachine& machine) {
  machine.online("0-7");
  for (int id = 0; id < 8; ++id) {
    const int core = id < 4 ? id / 2 : id - 2;
    const std::string siblings =
        id < 4 ? fmt::format("{}-{}", id / 2 * 2, id / 2 * 2 + 1) : std::to_string(id);
    machine.core(id, 0, core, siblings, "0-7");
  }
}

TEST(CpuTopology, SeesSocketsCoresAndNodesOfATwoSocketServer) {
  FakeMachine machine;
  make_dual_socket(machine);
  const CpuTopology topology = machine.read();
  EXPECT_EQ(topology.cpus().size(), 16u);
  EXPECT_EQ(topology.cores(), 8);
  EXPECT_EQ(topology.performance_cores(), 8);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.cache_groups(), 2);
  EXPECT_EQ(topology.quota(), 0);
  EXPECT_EQ(topology.cpus()[0].core, topology.cpus()[8].core);
  EXPECT_NE(topology.cpus()[0].core, topology.cpus()[4].core);
  EXPECT_EQ(topology.cpus()[12].node, 1);
  EXPECT_EQ(topology.placement(), Ids({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(worker_bound(topology), 8);
  EXPECT_EQ(worker_candidates(topology), Ids({1, 2, 4, 8}));
}

TEST(CpuTopology, TellsCoresOfTwoSocketsApartWithoutSiblingLists) {
  FakeMachine machine;
  machine.online("0-3");
  for (int id = 0; id < 4; ++id) {
    machine.cpu_file(id, "topology/physical_package_id", fmt::format("{}\n", id / 2));
    machine.cpu_file(id, "topology/core_id", "0\n");
  }
  EXPECT_EQ(machine.read().cores(), 2);
}

TEST(CpuTopology, RespectsTheAffinityMask) {
  FakeMachine machine;
  make_dual_socket(machine);
  // Both threads of core 1, one thread of core 5, and a CPU that does not exist.
  const CpuTopology topology = machine.read({1, 9, 13, 40});
  EXPECT_EQ(topology.cpus().size(), 3u);
  EXPECT_EQ(topology.cores(), 2);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.placement(), Ids({1, 13}));
  EXPECT_EQ(worker_bound(topology), 2);
}

TEST(CpuTopology, KnowsHybridCoresByTheirUnits) {
  FakeMachine machine;
  make_hybrid_cores(machine);
  machine.write("sys/devices/cpu_core/cpus", "0-3\n");
  machine.write("sys/devices/cpu_atom/cpus", "4-7\n");
  const CpuTopology topology = machine.read();
  EXPECT_EQ(topology.cores(), 6);
  EXPECT_EQ(topology.performance_cores(), 2);
  EXPECT_EQ(topology.placement(), Ids({0, 2, 4, 5, 6, 7}));
  EXPECT_EQ(worker_candidates(topology), Ids({1, 2, 4, 6}));
  EXPECT_EQ(
      describe({2, {{1, 0.003}, {2, 0.0015}}}, topology),
      "2 workers (of 6 cores, 2 of them performance cores; measured: 1 -> 3 ms, 2 -> 1.5 ms)");
}

TEST(CpuTopology, KnowsHybridCoresByCapacity) {
  FakeMachine machine;
  make_hybrid_cores(machine);
  for (int id = 0; id < 8; ++id) machine.cpu_file(id, "cpu_capacity", id < 4 ? "1024\n" : "414\n");
  EXPECT_EQ(machine.read().performance_cores(), 2);
}

TEST(CpuTopology, KnowsHybridCoresByFrequencyAndNotFavouredOnes) {
  FakeMachine machine;
  make_hybrid_cores(machine);
  for (int id = 0; id < 8; ++id) {
    // CPUs 0 and 1 are a favoured core: somewhat faster, of the same class as 2 and 3.
    const int khz = id < 2 ? 5800000 : id < 4 ? 5500000 : 4300000;
    machine.cpu_file(id, "cpu_capacity", "1024\n");
    machine.cpu_file(id, "cpufreq/cpuinfo_max_freq", fmt::format("{}\n", khz));
  }
  const CpuTopology topology = machine.read();
  EXPECT_EQ(topology.performance_cores(), 2);
  EXPECT_FALSE(topology.cpus()[3].efficient);
  EXPECT_TRUE(topology.cpus()[4].efficient);
}

TEST(CpuTopology, CountsEfficiencyCoresWhenTheyAreAllThereIs) {
  FakeMachine machine;
  make_hybrid_cores(machine);
  machine.write("sys/devices/cpu_core/cpus", "0-3\n");
  machine.write("sys/devices/cpu_atom/cpus", "4-7\n");
  const CpuTopology topology = machine.read({4, 5, 6});
  EXPECT_EQ(topology.cores(), 3);
  EXPECT_EQ(topology.performance_cores(), 3);
  EXPECT_TRUE(topology.cpus()[0].efficient);
}

TEST(CpuTopology, SeesADesktopWithThreadsAndOneCache) {
  FakeMachine machine;
  machine.online("0-15");
  for (int id = 0; id < 16; ++id) {
    machine.core(id, 0, id % 8, fmt::format("{},{}", id % 8, id % 8 + 8), "0-15");
    machine.cpu_file(id, "cpufreq/cpuinfo_max_freq", "4550000\n");
  }
  machine.write("sys/devices/system/node/online", "0\n");
  machine.node(0, "0-15");
  const CpuTopology topology = machine.read();
  EXPECT_EQ(topology.cores(), 8);
  EXPECT_EQ(topology.performance_cores(), 8);
  EXPECT_EQ(topology.cache_groups(), 1);
  EXPECT_EQ(topology.nodes(), 1);
}

TEST(CpuTopology, LeavesOutOfflineCpus) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.online("0,2-3,8");
  const CpuTopology topology = machine.read({0, 1, 2, 8, 9});
  EXPECT_EQ(topology.cpus().size(), 3u);
  EXPECT_EQ(topology.cores(), 2);
}

TEST(CpuTopology, HasOneCpuWithoutAnyFile) {
  FakeMachine machine;
  const CpuTopology topology = machine.read();
  EXPECT_EQ(topology.cpus().size(), 1u);
  EXPECT_EQ(topology.cores(), 1);
  EXPECT_EQ(topology.nodes(), 1);
  EXPECT_EQ(topology.cache_groups(), 1);
  EXPECT_EQ(worker_bound(topology), 1);
  EXPECT_EQ(worker_candidates(topology), Ids({1}));
}

TEST(CpuTopology, CountsTheMaskWithoutAnyFile) {
  FakeMachine machine;
  EXPECT_EQ(machine.read({2, 3, 5}).cores(), 3);
  EXPECT_EQ(machine.read({-4, 100000}).cores(), 1);
}

TEST(CpuTopology, ReadsTheQuotaOfAContainer) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const CpuTopology topology = machine.read();
  EXPECT_DOUBLE_EQ(topology.quota(), 1.5);
  EXPECT_EQ(worker_bound(topology), 1);
  EXPECT_EQ(describe({1, {{1, 0}}}, topology), "1 worker (of 8 cores, quota 1.5 CPUs)");
}

TEST(CpuTopology, TakesTheTightestQuotaUpTheHierarchy) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("proc/self/cgroup", "12:memory:/x\n0::/user.slice/user-1.slice/job\n");
  machine.write("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  machine.write("sys/fs/cgroup/user.slice/user-1.slice/cpu.max", "max 100000\n");
  machine.write("sys/fs/cgroup/user.slice/user-1.slice/job/cpu.max", "600000 100000\n");
  machine.write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_DOUBLE_EQ(machine.read().quota(), 2.5);
  EXPECT_EQ(worker_bound(machine.read()), 2);
}

TEST(CpuTopology, ReadsTheQuotaOfVersionOneGroups) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:cpuset:/z\n0::/\n");
  const std::string folder = "sys/fs/cgroup/cpu,cpuacct/docker/";
  machine.write(folder + "abc/cpu.cfs_quota_us", "300000\n");
  machine.write(folder + "abc/cpu.cfs_period_us", "100000\n");
  machine.write(folder + "cpu.cfs_quota_us", "-1\n");
  machine.write(folder + "cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(machine.read().quota(), 3);
  EXPECT_EQ(worker_candidates(machine.read()), Ids({1, 2, 3}));
}

TEST(CpuTopology, ReadsTheRootWhenTheGroupIsNotVisible) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("proc/self/cgroup", "0::/system.slice/docker-abc.scope\n");
  machine.write("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(machine.read().quota(), 4);
}

TEST(CpuTopology, NeverLeavesTheHierarchyForAGroupAboveIt) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("proc/self/cgroup", "0::/../../evil\n");
  machine.write("sys/evil/cpu.max", "100000 100000");
  machine.write("sys/fs/cgroup/cpu.max", "700000 100000");
  EXPECT_DOUBLE_EQ(machine.read().quota(), 7);
}

TEST(CpuTopology, HasOneWorkerAtLeastUnderATinyQuota) {
  FakeMachine machine;
  make_dual_socket(machine);
  machine.write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_DOUBLE_EQ(machine.read().quota(), 0.1);
  EXPECT_EQ(worker_bound(machine.read()), 1);
}

TEST(CpuTopology, TakesNoQuotaFromMalformedText) {
  for (const char* text : {"", "max", "max 0", "100000", "100000 0", "-5 100000", "0 100000",
                           "nan nan", "1e5 1e5", "99999999999999999999 1", "100000 -100000"}) {
    FakeMachine machine;
    make_dual_socket(machine);
    machine.write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(machine.read().quota(), 0) << text;
    EXPECT_EQ(worker_bound(machine.read()), 8) << text;
  }
}

TEST(CpuTopology, SurvivesHostileText) {
  const std::vector<std::string> texts = {
      "",
      std::string(100000, ','),
      std::string(100000, '9'),
      std::string("\0\0\xff", 3),
      "0-99999999999",
      "-9223372036854775808",
      "9223372036854775807",
      std::string(100000, '/'),
      "::::\n::\n:\n0::\n0:cpu:\n0:cpu:/" + std::string(5000, 'a') + "/../x\n",
  };
  std::mt19937 random(7);
  const auto pick = [&] { return texts[random() % texts.size()]; };
  for (int round = 0; round < 40; ++round) {
    FakeMachine machine;
    make_dual_socket(machine);
    for (int id = 0; id < 4; ++id) {
      for (const char* file :
           {"topology/physical_package_id", "topology/core_id", "topology/thread_siblings_list",
            "cache/index0/level", "cache/index1/shared_cpu_list", "cpu_capacity",
            "cpufreq/cpuinfo_max_freq"}) {
        if (random() % 2 == 0) machine.cpu_file(id, file, pick());
      }
    }
    for (const char* file : {"proc/self/cgroup", "sys/fs/cgroup/cpu.max",
                             "sys/devices/cpu_atom/cpus", "sys/devices/system/node/online"}) {
      if (random() % 2 == 0) machine.write(file, pick());
    }
    const CpuTopology topology = machine.read();
    ASSERT_EQ(topology.cpus().size(), 16u);
    ASSERT_GE(topology.cores(), 1);
    ASSERT_LE(topology.cores(), 16);
    ASSERT_EQ(topology.placement().size(), static_cast<size_t>(topology.cores()));
    ASSERT_GE(worker_bound(topology), 1);
  }
}

TEST(CpuTopology, IgnoresFoldersInPlaceOfFiles) {
  FakeMachine machine;
  machine.write("sys/devices/system/cpu/online/x", "0-3");
  machine.write("proc/self/cgroup/x", "0::/");
  EXPECT_EQ(machine.read().cpus().size(), 1u);
}

TEST(CpuTopology, AgreesWithTheAffinityOfThisProcess) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) GTEST_SKIP() << "more CPUs than a cpu_set_t";
  const CpuTopology topology = CpuTopology::read();
  EXPECT_EQ(static_cast<int>(topology.cpus().size()), CPU_COUNT(&set));
  for (const LogicalCpu& cpu : topology.cpus()) EXPECT_TRUE(CPU_ISSET(cpu.id, &set)) << cpu.id;
  EXPECT_EQ(affinity_cpus().size(), topology.cpus().size());
}

}  // namespace
}  // namespace strata
