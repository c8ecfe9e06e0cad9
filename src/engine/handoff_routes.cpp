#include "engine/handoff_routes.h"

#include <array>
#include <cstring>

namespace strata::engine {

using backend::Buffer;
using backend::Device;
using model::Route;

namespace {

constexpr size_t kParts = Device::kChecksumParts;
constexpr int kRepeats = 4;

using Sums = std::array<uint64_t, kParts>;

// No piece of it is like another, nor like a piece of another pattern.
void fill_pattern(std::vector<uint64_t>& words, uint64_t number) {
  uint64_t state = number;
  for (uint64_t& word : words) {
    state += 0x9e3779b97f4a7c15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    word = x ^ (x >> 31);
  }
}

// One card's end of the copies.
struct End {
  Device& device;
  Buffer data, parts;

  static Result<End> make(Device& device, size_t bytes) {
    End end{device, {}, {}};
    STRATA_ASSIGN_OR_RETURN(end.data, device.allocate(bytes));
    STRATA_ASSIGN_OR_RETURN(end.parts, device.allocate(sizeof(Sums)));
    return end;
  }
  Result<Sums> sums(size_t bytes) {
    Sums out{};
    STRATA_RETURN_IF_ERROR(device.start_checksum(data.data(), bytes, parts.as<uint64_t>()));
    STRATA_RETURN_IF_ERROR(device.copy_to_host(out.data(), parts.data(), sizeof out));
    return out;
  }
};

class Proof {
 public:
  Proof(End& from, End& to, size_t largest)
      : from_(from), to_(to), sent_(largest / 8), got_(largest / 8) {}

  // Ok when all arrived.
  Status run(std::span<const size_t> sizes, int& copies) {
    STRATA_RETURN_IF_ERROR(to_.device.may_copy_from(from_.device));
    STRATA_ASSIGN_OR_RETURN(lane_, to_.device.make_copy_lane());
    for (const size_t bytes : sizes) {
      for (int i = 0; i < kRepeats; ++i) {
        STRATA_RETURN_IF_ERROR(copy_once(bytes, static_cast<uint64_t>(++copies)));
      }
    }
    return {};
  }

 private:
  Status copy_once(size_t bytes, uint64_t number) {
    fill_pattern(sent_, number);
    STRATA_RETURN_IF_ERROR(from_.device.copy_to_device(from_.data.data(), sent_.data(), bytes));
    STRATA_ASSIGN_OR_RETURN(const Sums sent, from_.sums(bytes));
    STRATA_RETURN_IF_ERROR(to_.device.zero(to_.data.data(), bytes));
    STRATA_ASSIGN_OR_RETURN(const Sums before, to_.sums(bytes));
    STRATA_RETURN_IF_ERROR(
        lane_->from_device(from_.device, to_.data.data(), from_.data.data(), bytes));
    STRATA_RETURN_IF_ERROR(lane_->synchronize());
    STRATA_ASSIGN_OR_RETURN(const Sums arrived, to_.sums(bytes));
    STRATA_RETURN_IF_ERROR(to_.device.copy_to_host(got_.data(), to_.data.data(), bytes));
    if (sent != before && sent == arrived && std::memcmp(sent_.data(), got_.data(), bytes) == 0) {
      return {};
    }
    return failed_precondition("a direct copy of {} bytes from {} to {} arrived wrong", bytes,
                               from_.device.caps().id, to_.device.caps().id);
  }

  End& from_;
  End& to_;
  std::vector<uint64_t> sent_, got_;
  std::unique_ptr<backend::CopyLane> lane_;
};

Status prove_both_ways(Device& a, Device& b, int& copies) {
  STRATA_RETURN_IF_ERROR(b.may_copy_from(a));
  const bool emulated = a.caps().id.starts_with("emu");
  const std::vector<size_t> sizes =
      emulated ? std::vector<size_t>{16, 4112, size_t{64} << 10}
               : std::vector<size_t>{16, 65552, size_t{1} << 20, size_t{16} << 20};
  const size_t largest = sizes.back();
  STRATA_ASSIGN_OR_RETURN(End one, End::make(a, largest));
  STRATA_ASSIGN_OR_RETURN(End two, End::make(b, largest));
  STRATA_RETURN_IF_ERROR(Proof(one, two, largest).run(sizes, copies));
  return Proof(two, one, largest).run(sizes, copies);
}

}  // namespace

std::string ProvedRoute::line() const {
  return fmt::format("prompts go from {} to {} {}: {}", from, to,
                     route == Route::kDirect ? "directly" : "through host memory", why);
}

ProvedRoute prove_route(Device& from, Device& to) {
  ProvedRoute out{.from = from.caps().id, .to = to.caps().id, .route = Route::kHost, .why = {}};
  int copies = 0;
  if (const Status status = prove_both_ways(from, to, copies); !status.ok()) {
    out.why = status.message();
    return out;
  }
  out.route = Route::kDirect;
  out.why = fmt::format("{} direct copies arrived whole", copies);
  return out;
}

std::vector<ProvedRoute> prove_routes(std::span<const memory::LayerPlace> places) {
  std::vector<ProvedRoute> out;
  for (size_t i = 1; i < places.size(); ++i) {
    out.push_back(prove_route(*places[i - 1].device, *places[i].device));
  }
  return out;
}

}  // namespace strata::engine
