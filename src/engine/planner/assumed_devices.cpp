#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "engine/planner/plan_device.h"
#include "engine/planner/text_parts.h"

namespace strata::engine {

namespace {

// TOPS of int8 products per GB/s of memory, rounded down from what cards of the last ten years
// have: with matrix instructions (7900 XTX 0.12, 9070 XT 0.6, RTX 3090 0.3) and without (6950 XT
// 0.08). CPUs with byte dot products lie near the latter.
constexpr double kTopsPerGbsMatrix = 0.1;
constexpr double kTopsPerGbsPlain = 0.04;
constexpr double kLinkGbs = 12;
constexpr double kLaunchUs = 4;
constexpr double kCpuLaunchUs = 1;
constexpr double kMostOfAnything = 1e9;

// The number before `unit`; empty when the text does not have that form.
std::optional<double> quantity(std::string_view text, std::string_view unit) {
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value <= 0 || value > kMostOfAnything) return std::nullopt;
  return value;
}

std::optional<double> memory(std::string_view text) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  if (const auto gib = quantity(text, "GiB")) return *gib * kGib;
  if (const auto mib = quantity(text, "MiB")) return *mib * kGib / 1024;
  return std::nullopt;
}

bool multiplies_matrices(std::string_view arch) {
  return !(arch == "cpu" || arch.starts_with("gfx10") || arch.starts_with("gfx9") ||
           arch == "sm70" || arch == "sm60" || arch == "sm61");
}

bool starts_like_a_number(std::string_view text) {
  return !text.empty() && (text.front() == '-' || text.front() == '.' ||
                           (text.front() >= '0' && text.front() <= '9'));
}

Result<PlanDevice> parse_device(std::string_view text) {
  const auto wrong = [&](std::string_view part, std::string_view expected) {
    return invalid_argument(
        "assumed device {}: expected {}, got {}; an example is gfx1100:24GiB:800GB/s", quoted(text),
        expected, quoted(part));
  };
  const std::vector<std::string_view> parts = split_text(text, ':');
  if (parts.size() < 3) return wrong(text, "ARCH:MEMORY:BANDWIDTH");
  PlanDevice device;
  const std::string_view arch = parts[0];
  if (arch.empty() || arch.find('=') != std::string_view::npos) {
    return wrong(arch, "an architecture");
  }
  device.kind = arch == "cpu" ? PlanDevice::Kind::kCpu : PlanDevice::Kind::kGpu;
  const auto bytes = memory(parts[1]);
  if (!bytes) return wrong(parts[1], "free memory such as 24GiB or 512MiB");
  device.free_bytes = static_cast<uint64_t>(*bytes);
  const auto bandwidth = quantity(parts[2], "GB/s");
  if (!bandwidth) return wrong(parts[2], "memory bandwidth such as 800GB/s");
  device.memory_gbs = *bandwidth;

  std::string name;
  std::optional<double> tops, link, launch;
  const auto once = [&](std::optional<double>& place, std::optional<double> value,
                        std::string_view part, std::string_view expected) -> Status {
    if (!value) return wrong(part, expected);
    if (place) return wrong(part, "each figure once");
    place = value;
    return {};
  };
  for (size_t i = 3; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    if (part.starts_with("link=")) {
      STRATA_RETURN_IF_ERROR(once(link, quantity(part.substr(5), "GB/s"), part, "link=6GB/s"));
    } else if (part.starts_with("launch=")) {
      STRATA_RETURN_IF_ERROR(once(launch, quantity(part.substr(7), "us"), part, "launch=4us"));
    } else if (part.ends_with("TOPS") && starts_like_a_number(part)) {
      STRATA_RETURN_IF_ERROR(once(tops, quantity(part, "TOPS"), part, "100TOPS"));
    } else if (part.empty() || !name.empty() || part.find('=') != std::string_view::npos) {
      return wrong(part, "100TOPS, link=6GB/s, launch=4us, or one name");
    } else {
      name = part;
    }
  }
  device.int8_tops = tops.value_or(
      device.memory_gbs * (multiplies_matrices(arch) ? kTopsPerGbsMatrix : kTopsPerGbsPlain));
  const double host = device.is_cpu() ? device.memory_gbs / 2 : kLinkGbs;
  device.to_device_gbs = device.to_host_gbs = link.value_or(host);
  device.launch_us = launch.value_or(device.is_cpu() ? kCpuLaunchUs : kLaunchUs);
  device.id = arch;
  device.title = name;
  return device;
}

}  // namespace

Result<std::vector<PlanDevice>> parse_assumed_devices(std::string_view text) {
  std::vector<PlanDevice> devices;
  for (const std::string_view part : split_text(text, ',')) {
    STRATA_ASSIGN_OR_RETURN(PlanDevice device, parse_device(part));
    devices.push_back(std::move(device));
  }
  std::vector<std::string> ids;
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto same = [&](const PlanDevice& other) { return other.id == devices[i].id; };
    const auto count = std::count_if(devices.begin(), devices.end(), same);
    if (count > 1 && devices[i].is_cpu()) {
      return invalid_argument(
          "the assumed devices have {} CPUs; a machine has one, give all of its "
          "memory and bandwidth there",
          count);
    }
    const auto before =
        std::count_if(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), same);
    ids.push_back(count > 1 ? fmt::format("{}#{}", devices[i].id, before + 1) : devices[i].id);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    PlanDevice& device = devices[i];
    device.id = ids[i];
    device.title = device.title.empty() ? device.id : fmt::format("{} {}", device.id, device.title);
  }
  return devices;
}

}  // namespace strata::engine
