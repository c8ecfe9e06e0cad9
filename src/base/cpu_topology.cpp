#include "base/cpu_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

namespace strata {

namespace {

constexpr size_t kMaxFileBytes = 64 << 10;
// A core class below this share of the fastest one is an efficiency class. Frequencies of one class
// differ by favoured cores (some 10 %); capacities of a big core's variants by more.
constexpr double kEfficientFrequency = 0.8;
constexpr double kEfficientCapacity = 0.6;

// The start of a small text file, or nothing.
std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<int64_t> parse_int(std::string_view text) {
  text = trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_int(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_int(*text) : std::nullopt;
}

std::vector<int> read_list(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_cpu_list(*text) : std::vector<int>();
}

// CPUs whose value is below `share` of the largest; none unless every CPU has one.
std::set<int> slow_cpus(const std::vector<int>& ids, double share, const std::string& cpu_folder,
                        std::string_view file) {
  std::map<int, int64_t> values;
  int64_t largest = 0;
  for (const int id : ids) {
    const auto value = read_int(fmt::format("{}/cpu{}/{}", cpu_folder, id, file));
    if (!value || *value <= 0) return {};
    values[id] = *value;
    largest = std::max(largest, *value);
  }
  std::set<int> slow;
  for (const auto& [id, value] : values) {
    if (static_cast<double>(value) < share * static_cast<double>(largest)) slow.insert(id);
  }
  return slow;
}

// `online`: all CPUs that run, also those that this process may not use: what counts as fast must
// not depend on the mask.
std::set<int> efficient_cpus(const std::string& root, const std::vector<int>& online) {
  const std::vector<int> atoms = read_list(root + "/sys/devices/cpu_atom/cpus");
  if (!atoms.empty()) return {atoms.begin(), atoms.end()};
  const std::string folder = root + "/sys/devices/system/cpu";
  std::set<int> slow = slow_cpus(online, kEfficientCapacity, folder, "cpu_capacity");
  if (slow.empty()) {
    slow = slow_cpus(online, kEfficientFrequency, folder, "cpufreq/cpuinfo_max_freq");
  }
  return slow;
}

// What tells a core from the others. Cores without a list of siblings are told by their numbers,
// CPUs without numbers by themselves.
std::tuple<int, int64_t, int64_t> core_key(const std::string& cpu_folder, int id) {
  for (const char* file : {"core_cpus_list", "thread_siblings_list"}) {
    const std::vector<int> siblings = read_list(fmt::format("{}/topology/{}", cpu_folder, file));
    if (std::binary_search(siblings.begin(), siblings.end(), id)) return {0, siblings.front(), 0};
  }
  const auto package = read_int(cpu_folder + "/topology/physical_package_id");
  const auto core = read_int(cpu_folder + "/topology/core_id");
  if (package && core) return {1, *package, *core};
  return {2, id, 0};
}

// The lowest CPU that shares the last-level cache, or -1.
int cache_key(const std::string& cpu_folder, int id) {
  int key = -1;
  int64_t highest = 0;
  for (int index = 0; index < 16; ++index) {
    const std::string folder = fmt::format("{}/cache/index{}", cpu_folder, index);
    const auto level = read_int(folder + "/level");
    if (!level) break;
    const std::vector<int> shared = read_list(folder + "/shared_cpu_list");
    if (*level > highest && std::binary_search(shared.begin(), shared.end(), id)) {
      highest = *level;
      key = shared.front();
    }
  }
  return key;
}

double ratio(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return 0;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Control groups, version 2: cpu.max holds "QUOTA PERIOD" or "max PERIOD".
double quota_v2(const std::string& folder) {
  const auto text = read_text(folder + "/cpu.max");
  if (!text) return 0;
  const std::string_view line = trim(*text);
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return 0;
  return ratio(parse_int(line.substr(0, blank)), parse_int(line.substr(blank)));
}

double quota_v1(const std::string& folder) {
  return ratio(read_int(folder + "/cpu.cfs_quota_us"), read_int(folder + "/cpu.cfs_period_us"));
}

void tighten(double& quota, double other) {
  if (other > 0) quota = quota > 0 ? std::min(quota, other) : other;
}

// The tightest quota on the way from `group` up to the root of the hierarchy at `mount`. Inside a
// container `group` may name a place that only the host sees; the root is then the own group.
void walk_up(double& quota, const std::string& mount, std::string_view group,
             double (*read_quota)(const std::string&)) {
  if (group.find("/..") != std::string_view::npos) group = {};
  std::string path(group);
  while (!path.empty() && path.back() == '/') path.pop_back();
  for (;;) {
    tighten(quota, read_quota(mount + path));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

double cgroup_quota(const std::string& root) {
  double quota = 0;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::string v1_group = "/";
  std::string v2_group = "/";
  const std::string text = read_text(root + "/proc/self/cgroup").value_or("");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    // "ID:CONTROLLERS:PATH"; version 2 has no controllers.
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (controllers == ",,") v2_group = line.substr(second + 1);
    if (controllers.find(",cpu,") != std::string::npos) v1_group = line.substr(second + 1);
  }
  for (const char* mount : {"", "/unified"}) walk_up(quota, mounts + mount, v2_group, quota_v2);
  for (const char* mount : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}) {
    walk_up(quota, mounts + mount, v1_group, quota_v1);
  }
  return quota;
}

template <class Get>
int distinct(const std::vector<LogicalCpu>& cpus, Get get) {
  std::set<int> values;
  for (const LogicalCpu& cpu : cpus) values.insert(get(cpu));
  return static_cast<int>(values.size());
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::set<int> ids;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *first > *last) continue;
    for (int64_t id = *first; id <= *last && id < CpuTopology::kMaxCpus; ++id) {
      ids.insert(static_cast<int>(id));
    }
  }
  return {ids.begin(), ids.end()};
}

std::vector<int> affinity_cpus() {
  std::vector<int> ids;
  cpu_set_t* set = CPU_ALLOC(CpuTopology::kMaxCpus);
  if (set == nullptr) return ids;
  const size_t bytes = CPU_ALLOC_SIZE(CpuTopology::kMaxCpus);
  CPU_ZERO_S(bytes, set);
  if (::sched_getaffinity(0, bytes, set) == 0) {
    for (int id = 0; id < CpuTopology::kMaxCpus; ++id) {
      if (CPU_ISSET_S(static_cast<size_t>(id), bytes, set)) ids.push_back(id);
    }
  }
  CPU_FREE(set);
  return ids;
}

CpuTopology CpuTopology::read() { return read("", affinity_cpus()); }

CpuTopology CpuTopology::read(const std::string& root, std::span<const int> allowed) {
  const std::string folder = root + "/sys/devices/system/cpu";
  std::set<int> mask;
  for (const int id : allowed) {
    if (id >= 0 && id < kMaxCpus) mask.insert(id);
  }
  std::vector<int> online = read_list(folder + "/online");
  if (online.empty()) online.assign(mask.begin(), mask.end());
  std::vector<int> usable;
  std::copy_if(online.begin(), online.end(), std::back_inserter(usable),
               [&](int id) { return mask.empty() || mask.count(id) != 0; });
  if (usable.empty()) usable.assign(mask.begin(), mask.end());
  if (usable.empty()) usable.push_back(0);

  std::map<int, int> node_of;
  for (const int node : read_list(root + "/sys/devices/system/node/online")) {
    for (const int id :
         read_list(fmt::format("{}/sys/devices/system/node/node{}/cpulist", root, node))) {
      node_of.emplace(id, node);
    }
  }
  const std::set<int> efficient = efficient_cpus(root, online);

  CpuTopology topology;
  std::map<std::tuple<int, int64_t, int64_t>, int> cores;
  std::map<int, int> caches;
  for (const int id : usable) {
    const std::string cpu_folder = fmt::format("{}/cpu{}", folder, id);
    LogicalCpu cpu;
    cpu.id = id;
    cpu.core =
        cores.emplace(core_key(cpu_folder, id), static_cast<int>(cores.size())).first->second;
    cpu.cache =
        caches.emplace(cache_key(cpu_folder, id), static_cast<int>(caches.size())).first->second;
    if (const auto node = node_of.find(id); node != node_of.end()) cpu.node = node->second;
    cpu.efficient = efficient.count(id) != 0;
    topology.cpus_.push_back(cpu);
  }
  topology.quota_ = cgroup_quota(root);
  return topology;
}

int CpuTopology::cores() const {
  return distinct(cpus_, [](const LogicalCpu& cpu) { return cpu.core; });
}

int CpuTopology::performance_cores() const {
  std::vector<LogicalCpu> fast;
  std::copy_if(cpus_.begin(), cpus_.end(), std::back_inserter(fast),
               [](const LogicalCpu& cpu) { return !cpu.efficient; });
  return fast.empty() ? cores() : distinct(fast, [](const LogicalCpu& cpu) { return cpu.core; });
}

int CpuTopology::nodes() const {
  return distinct(cpus_, [](const LogicalCpu& cpu) { return cpu.node; });
}

int CpuTopology::cache_groups() const {
  return distinct(cpus_, [](const LogicalCpu& cpu) { return cpu.cache; });
}

std::vector<int> CpuTopology::placement() const {
  std::vector<LogicalCpu> first;
  std::set<int> seen;
  for (const LogicalCpu& cpu : cpus_) {
    if (seen.insert(cpu.core).second) first.push_back(cpu);
  }
  std::sort(first.begin(), first.end(), [](const LogicalCpu& a, const LogicalCpu& b) {
    return std::tie(a.efficient, a.node, a.cache, a.id) <
           std::tie(b.efficient, b.node, b.cache, b.id);
  });
  std::vector<int> ids;
  for (const LogicalCpu& cpu : first) ids.push_back(cpu.id);
  return ids;
}

}  // namespace strata
