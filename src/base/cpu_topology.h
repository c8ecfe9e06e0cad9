// What the CPUs of this machine are to this process: which it may run on, which of them share a
// physical core, a last-level cache or a memory node, which are efficiency cores, and how much CPU
// time a control group grants. Read from sysfs and procfs; whatever is missing there, malformed or
// out of range is left at its default, so reading never fails.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

struct LogicalCpu {
  int id = 0;              // the operating system's number
  int core = 0;            // physical core, 0 ... cores() - 1
  int cache = 0;           // group that shares a last-level cache, 0 ... cache_groups() - 1
  int node = 0;            // NUMA node, the operating system's number
  bool efficient = false;  // an efficiency core of a hybrid machine
};

class CpuTopology {
 public:
  static constexpr int kMaxCpus = 8192;  // ids from here on are ignored

  // Of the machine under the folder `root` ("" for this one: /sys and /proc are read below it), for
  // a process that may run on the CPUs `allowed`; empty allows all. Always has one CPU at least.
  static CpuTopology read(const std::string& root, std::span<const int> allowed);
  // Of this machine and the calling thread's affinity mask.
  static CpuTopology read();

  const std::vector<LogicalCpu>& cpus() const { return cpus_; }  // usable ones, by id
  int cores() const;                                             // physical cores with a usable CPU
  int performance_cores() const;  // those that are not efficiency cores; cores() if all are alike
  int nodes() const;
  int cache_groups() const;
  // CPUs' worth of time that the tightest control group grants; 0: no limit.
  double quota() const { return quota_; }

  // One CPU of each core, performance cores first, then by node, cache and id: where to put
  // workers, in this order.
  std::vector<int> placement() const;

 private:
  std::vector<LogicalCpu> cpus_;
  double quota_ = 0;
};

// "0-3,8,10-11" as rising ids without repeats; parts that are malformed or beyond kMaxCpus are
// left out.
std::vector<int> parse_cpu_list(std::string_view text);

// CPUs that the calling thread's affinity mask allows; empty when it cannot be read.
std::vector<int> affinity_cpus();

}  // namespace strata
