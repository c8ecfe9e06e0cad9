#include "engine/planner/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

namespace strata::engine {

namespace {

std::optional<uint64_t> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The number behind `key` at the start of a line; of the first line where `key` is empty.
std::optional<uint64_t> value_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return number(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

// What a control group still grants: version 2 or 1 names.
std::optional<uint64_t> granted(const std::string& folder, const char* limit, const char* usage) {
  const auto most = value_in(folder + limit, "");
  const auto used = value_in(folder + usage, "");
  if (!most || !used) return std::nullopt;
  // Pages of files count as used but give way.
  const uint64_t files = value_in(folder + "memory.stat", "inactive_file ").value_or(0) +
                         value_in(folder + "memory.stat", "active_file ").value_or(0);
  const uint64_t firm = *used - std::min(*used, files);
  return *most - std::min(*most, firm);
}

}  // namespace

uint64_t available_ram(const std::string& root) {
  uint64_t bytes = value_in(root + "/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  const std::string groups = root + "/sys/fs/cgroup/";
  if (const auto most = granted(groups, "memory.max", "memory.current"))
    bytes = std::min(bytes, *most);
  if (const auto most =
          granted(groups + "memory/", "memory.limit_in_bytes", "memory.usage_in_bytes")) {
    bytes = std::min(bytes, *most);
  }
  return bytes;
}

}  // namespace strata::engine
