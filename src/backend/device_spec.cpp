#include "backend/device_spec.h"

#include <algorithm>
#include <charconv>

#include "backend/module_loader.h"

namespace strata::backend {

namespace {

// Does a device name begin here?
bool names_device(std::string_view text) {
  const size_t end = text.find_first_of(",:#");
  const std::string_view kind = text.substr(0, end);
  if (kind == "cpu") return true;
  return is_module_kind(kind) && end != std::string_view::npos && text[end] == ':';
}

// An emulated card with settings, which may hold commas: "emu:gfx1100:seed=7".
bool has_settings(std::string_view name) {
  const size_t colon = name.find(':');
  return colon != std::string_view::npos && name.substr(0, colon).starts_with("emu") &&
         name.find(':', colon + 1) != std::string_view::npos;
}

// Part of a message: short, without control characters.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 60));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::string all_op_names() {
  std::string names;
  for (int i = 0; i < static_cast<int>(OpId::kCount); ++i) {
    names += i == 0 ? "" : ", ";
    names += op_name(static_cast<OpId>(i));
  }
  return names;
}

std::optional<OpId> op_by_name(std::string_view name) {
  // One op serves both; the names of the halves are what people know.
  if (name == "attention_prompt" || name == "attention_decode") return OpId::kAttention;
  for (int i = 0; i < static_cast<int>(OpId::kCount); ++i) {
    if (name == op_name(static_cast<OpId>(i))) return static_cast<OpId>(i);
  }
  return std::nullopt;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

Status set_device_option(std::string_view key, std::string_view value, DeviceRequest& device) {
  if (key == "kernels") {
    STRATA_ASSIGN_OR_RETURN(device.kernels, parse_kernel_policy(value));
    return {};
  }
  if (key == "reserve-mib" || key == "vram-limit-mib") {
    constexpr uint64_t kMostMib = uint64_t{1} << 30;
    const auto mib = whole_number(value);
    if (!mib || *mib > kMostMib) {
      return invalid_argument("{} expects a number of MiB, got \"{}\"", key, shown(value));
    }
    (key == "reserve-mib" ? device.reserve_bytes : device.memory_limit_bytes) = *mib << 20;
    return {};
  }
  if (key == "graphs" || key == "peer") {
    if (value != "on" && value != "off") {
      return invalid_argument("{} expects on or off, got \"{}\"", key, shown(value));
    }
    (key == "graphs" ? device.graphs : device.peer) = value == "on";
    return {};
  }
  if (const auto op = op_by_name(key)) {
    if (value != "reference") {
      return invalid_argument("{} can only be set to reference, got \"{}\"", key, shown(value));
    }
    device.kernels.reference_ops.push_back(*op);
    return {};
  }
  return invalid_argument(
      "a device has no option \"{}\"; it has kernels, graphs, peer, reserve-mib, vram-limit-mib and, "
      "each with the value reference, {}",
      shown(key), all_op_names());
}

}  // namespace

std::string_view device_kind(const DeviceRequest& request) {
  const std::string_view id = request.id;
  return id.substr(0, id.find_first_of(":#"));
}

Result<KernelPolicy> parse_kernel_policy(std::string_view text) {
  KernelPolicy policy;
  if (text == "auto") return policy;
  if (text == "reference") {
    policy.all_reference = true;
    return policy;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, comma - begin);
    begin = comma + 1;
    const auto op = op_by_name(name);
    if (!op) {
      return invalid_argument(
          "expected auto, reference, or names of ops separated by commas ({}), got \"{}\"",
          all_op_names(), shown(name));
    }
    policy.reference_ops.push_back(*op);
  }
  return policy;
}

Result<std::vector<DeviceRequest>> parse_device_list(std::string_view text) {
  std::vector<DeviceRequest> devices;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    while (end < text.size() && !names_device(text.substr(end + 1)) &&
           has_settings(text.substr(begin, end - begin))) {
      end = std::min(text.find(',', end + 1), text.size());
    }
    const std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    DeviceRequest device;
    device.id = name;
    const std::string_view kind = device_kind(device);
    if (kind != "cpu" && !is_module_kind(kind)) {
      return invalid_argument(
          "expected names of devices separated by commas (cpu, cuda:N, hip:N, emu:ARCHITECTURE; "
          "`strata doctor` lists those of this machine); there is no device \"{}\"",
          shown(name));
    }
    if (kind == "cpu") {
      if (name != "cpu" && !name.starts_with("cpu#")) {
        return invalid_argument("the processors are one device, named cpu");
      }
    } else {
      const std::string_view rest = name.substr(kind.size());
      device.target = rest.starts_with(':') ? rest.substr(1, rest.find('#') - 1) : "";
      if (device.target.empty()) {
        return invalid_argument("\"{}\" does not say which one: write {}", shown(name),
                                kind == "cuda"  ? "cuda:0"
                                : kind == "hip" ? "hip:0"
                                                : "emu:gfx1100");
      }
    }
    const bool twice = std::any_of(devices.begin(), devices.end(), [&](const DeviceRequest& other) {
      return other.id == device.id;
    });
    if (twice) {
      return invalid_argument(
          "the device {} is named twice; name each once, or give each a tag where that is meant: "
          "{}#1,{}#2",
          device.id, device.id, device.id);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

Status apply_device_option(std::string_view text, std::vector<DeviceRequest>& devices) {
  // The setting is what follows the last colon before the first "="; names may hold colons.
  const size_t equals =
      text.find('=', text.rfind(':') == std::string_view::npos ? 0 : text.rfind(':'));
  const size_t colon = text.rfind(':', equals);
  if (equals == std::string_view::npos || colon == std::string_view::npos) {
    return invalid_argument(
        "expected DEVICE:KEY=VALUE, such as 1:reserve-mib=5120 or hip:1:kernels=reference, got "
        "\"{}\"",
        shown(text));
  }
  const std::string_view name = text.substr(0, colon);
  const std::string_view key = text.substr(colon + 1, equals - colon - 1);
  const std::string_view value = text.substr(equals + 1);
  DeviceRequest* device = nullptr;
  for (DeviceRequest& candidate : devices) {
    if (candidate.id == name) device = &candidate;
  }
  if (const auto number = whole_number(name);
      device == nullptr && number && *number < devices.size()) {
    device = &devices[*number];
  }
  if (device == nullptr) {
    std::string known;
    for (size_t i = 0; i < devices.size(); ++i) {
      known += fmt::format("{}{} = {}", i == 0 ? "" : ", ", i, devices[i].id);
    }
    return invalid_argument("no device in use is called \"{}\" (in use: {})", shown(name),
                            known.empty() ? "none by name; add --devices" : known);
  }
  return set_device_option(key, value, *device);
}

}  // namespace strata::backend
