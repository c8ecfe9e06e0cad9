#include "backend/gpu/emu/spec.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "backend/gpu/emu/random.h"

namespace strata::gpu::emu {

namespace {

struct Card {
  const char* arch;
  const char* group;
  const char* name;
  int multiprocessors;  // as the driver counts: RDNA cards show work group processors
  int memory_gib;
  int shared_kib;
  bool integrated;
};

constexpr Card kCards[] = {
    {"sm61", "", "NVIDIA GeForce GTX 1080 Ti", 28, 11, 48, false},
    {"sm70", "", "NVIDIA Tesla V100", 80, 16, 96, false},
    {"sm75", "sm75", "NVIDIA GeForce RTX 2080 Ti", 68, 11, 64, false},
    {"sm80", "sm80", "NVIDIA A100", 108, 80, 163, false},
    {"sm86", "sm80", "NVIDIA GeForce RTX 3090", 82, 24, 99, false},
    {"sm87", "sm80", "NVIDIA Jetson AGX Orin", 16, 64, 163, true},
    {"sm89", "sm80", "NVIDIA GeForce RTX 4090", 128, 24, 99, false},
    {"sm90", "sm90", "NVIDIA H200", 132, 141, 227, false},
    {"sm120", "sm120", "NVIDIA GeForce RTX 5080", 84, 16, 99, false},
    {"sm121", "sm120", "NVIDIA GB10", 48, 128, 99, true},
    {"gfx906", "", "AMD Radeon VII", 60, 16, 64, false},
    {"gfx90a", "", "AMD Instinct MI210", 104, 64, 64, false},
    {"gfx942", "", "AMD Instinct MI300X", 304, 192, 64, false},
    {"gfx1010", "", "AMD Radeon RX 5700 XT", 20, 8, 64, false},
    {"gfx1030", "gfx10", "AMD Radeon RX 6950 XT", 40, 16, 64, false},
    {"gfx1031", "gfx10", "AMD Radeon RX 6700 XT", 20, 12, 64, false},
    {"gfx1032", "gfx10", "AMD Radeon RX 6600 XT", 16, 8, 64, false},
    {"gfx1034", "gfx10", "AMD Radeon RX 6500 XT", 8, 4, 64, false},
    {"gfx1035", "gfx10", "AMD Radeon 680M", 6, 8, 64, true},
    {"gfx1036", "gfx10", "AMD Radeon Graphics", 1, 2, 64, true},
    {"gfx1100", "gfx11", "AMD Radeon RX 7900 XTX", 48, 24, 64, false},
    {"gfx1101", "gfx11", "AMD Radeon RX 7800 XT", 30, 16, 64, false},
    {"gfx1102", "gfx11", "AMD Radeon RX 7600", 16, 8, 64, false},
    {"gfx1103", "gfx11", "AMD Radeon 780M", 6, 8, 64, true},
    {"gfx1150", "gfx11", "AMD Radeon 890M", 8, 16, 64, true},
    {"gfx1151", "gfx11", "AMD Radeon 8060S", 20, 96, 64, true},
    {"gfx1200", "gfx12", "AMD Radeon RX 9060 XT", 16, 16, 64, false},
    {"gfx1201", "gfx12", "AMD Radeon RX 9070 XT", 32, 16, 64, false},
};

bool is_architecture(std::string_view text, Vendor& vendor) {
  std::string_view digits;
  if (text.starts_with("sm")) {
    vendor = Vendor::kNvidia;
    digits = text.substr(2);
  } else if (text.starts_with("gfx")) {
    vendor = Vendor::kAmd;
    digits = text.substr(3);
  }
  return digits.size() >= 2 && digits.size() <= 4 &&
         std::all_of(digits.begin(), digits.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Kernel> kernel_by_name(std::string_view name) {
  for (int i = 0; i < kKernelCount; ++i) {
    if (name == kernel_name(static_cast<Kernel>(i))) return static_cast<Kernel>(i);
  }
  return std::nullopt;
}

constexpr const char* kOptions =
    "name, memory-mib, multiprocessors, seed, max-delay-us, drop-image, peer, graphs, host-waits, "
    "fail-allocation, fail-launch, late-error-at-launch, lose-at-launch, fail-copy, "
    "late-error-at-copy, corrupt-copy-to-host, corrupt-peer-copy, corrupt-one-peer-copy";

Status apply(DeviceSpec& spec, std::string_view device, std::string_view key,
             std::string_view value) {
  if (key == "name") {
    if (value.empty()) return invalid_argument("emu:{}: name= needs a name", device);
    spec.name = fmt::format("Emulated {}", value);
    return {};
  }
  if (key == "drop-image") {
    const auto kernel = kernel_by_name(value);
    if (!kernel) {
      return invalid_argument(
          "emu:{}: drop-image={}: no kernel has this name; "
          "`strata kernels` lists them",
          device, value);
    }
    spec.dropped.push_back(*kernel);
    return {};
  }

  struct Number {
    const char* key;
    uint64_t minimum, maximum;
    void (*set)(DeviceSpec&, uint64_t);
  };
  static constexpr Number kNumbers[] = {
      {"memory-mib", 1, 1u << 24, [](DeviceSpec& s, uint64_t v) { s.memory_bytes = v << 20; }},
      {"multiprocessors", 1, 1024,
       [](DeviceSpec& s, uint64_t v) { s.multiprocessors = static_cast<int>(v); }},
      {"seed", 0, UINT64_MAX, [](DeviceSpec& s, uint64_t v) { s.seed = v; }},
      {"max-delay-us", 0, 10'000'000,
       [](DeviceSpec& s, uint64_t v) { s.max_delay_us = static_cast<int>(v); }},
      {"peer", 0, 1, [](DeviceSpec& s, uint64_t v) { s.peer = v != 0; }},
      {"graphs", 0, 1, [](DeviceSpec& s, uint64_t v) { s.graphs = v != 0; }},
      {"host-waits", 0, 1, [](DeviceSpec& s, uint64_t v) { s.host_waits = v != 0; }},
      {"fail-allocation", 1, UINT64_MAX, [](DeviceSpec& s, uint64_t v) { s.fail_allocation = v; }},
      {"fail-launch", 1, UINT64_MAX, [](DeviceSpec& s, uint64_t v) { s.fail_launch = v; }},
      {"late-error-at-launch", 1, UINT64_MAX,
       [](DeviceSpec& s, uint64_t v) { s.late_error_at_launch = v; }},
      {"lose-at-launch", 1, UINT64_MAX, [](DeviceSpec& s, uint64_t v) { s.lose_at_launch = v; }},
      {"corrupt-copy-to-host", 1, UINT64_MAX,
       [](DeviceSpec& s, uint64_t v) { s.corrupt_copy_to_host = v; }},
      {"fail-copy", 1, UINT64_MAX, [](DeviceSpec& s, uint64_t v) { s.fail_copy = v; }},
      {"late-error-at-copy", 1, UINT64_MAX,
       [](DeviceSpec& s, uint64_t v) { s.late_error_at_copy = v; }},
      {"corrupt-peer-copy", 1, UINT64_MAX,
       [](DeviceSpec& s, uint64_t v) { s.corrupt_peer_copy = v; }},
      {"corrupt-one-peer-copy", 1, UINT64_MAX,
       [](DeviceSpec& s, uint64_t v) { s.corrupt_one_peer_copy = v; }},
  };
  for (const Number& option : kNumbers) {
    if (key != option.key) continue;
    const auto parsed = number(value);
    if (!parsed || *parsed < option.minimum || *parsed > option.maximum) {
      return invalid_argument("emu:{}: {}={} must be a whole number from {} to {}", device, key,
                              value, option.minimum, option.maximum);
    }
    option.set(spec, *parsed);
    return {};
  }
  return invalid_argument("emu:{}: unknown option {}; it has {}", device, key, kOptions);
}

}  // namespace

Result<DeviceSpec> parse_device_spec(std::string_view text, uint64_t default_seed) {
  if (text.starts_with("emu:")) text.remove_prefix(4);
  const size_t colon = text.find(':');
  const std::string_view arch = text.substr(0, colon);

  DeviceSpec spec;
  if (!is_architecture(arch, spec.vendor)) {
    return invalid_argument("emu:{}: not an architecture; write one like emu:gfx1100 or emu:sm90",
                            arch);
  }
  spec.arch = arch;
  const auto* card = std::find_if(std::begin(kCards), std::end(kCards),
                                  [&](const Card& c) { return arch == c.arch; });
  if (card != std::end(kCards)) {
    spec.group = card->group;
    spec.name = fmt::format("Emulated {}", card->name);
    spec.multiprocessors = card->multiprocessors;
    spec.memory_bytes = static_cast<uint64_t>(card->memory_gib) << 30;
    spec.shared_bytes = card->shared_kib * 1024;
    spec.integrated = card->integrated;
  } else {
    spec.name = fmt::format("Emulated {}", arch);
    spec.multiprocessors = 16;
    spec.memory_bytes = uint64_t{8} << 30;
    spec.shared_bytes = 48 * 1024;
  }
  spec.wave = arch.starts_with("gfx9") ? 64 : 32;
  spec.seed = default_seed;

  if (colon == std::string_view::npos) return spec;
  std::string_view rest = text.substr(colon + 1);
  for (;;) {
    const size_t comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid_argument("emu:{}: \"{}\" is not an option of the form key=value; it has {}",
                              arch, option, kOptions);
    }
    STRATA_RETURN_IF_ERROR(apply(spec, arch, option.substr(0, equals), option.substr(equals + 1)));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

void corrupt(const DeviceSpec& spec, void* data, size_t bytes) {
  auto* wrong = static_cast<unsigned char*>(data);
  for (size_t i = mix(spec.seed, bytes) % std::min<size_t>(bytes, 64); i < bytes; i += 4096) {
    wrong[i] ^= 0x40;
  }
}

}  // namespace strata::gpu::emu
