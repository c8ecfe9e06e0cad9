#include "apps/bench_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/cpu_topology.h"

namespace strata::apps {

namespace {

constexpr int64_t kStretch = int64_t{1} << 20;  // one item of work
constexpr int64_t kMinBytes = int64_t{256} << 20;
constexpr int64_t kCacheFactor = 4;
constexpr int kLine = 64;
constexpr int kLanes = 4;

// Largest cache of the first CPU, as sysfs tells it ("32768K"), times the groups of CPUs that have
// one of their own. sysconf() is of no use: virtual machines report the host's total there.
int64_t last_level_cache_bytes() {
  constexpr int kMostCaches = 8;
  int64_t largest = 0;
  for (int i = 0; i < kMostCaches; ++i) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i));
    int64_t size = 0;
    char unit = 0;
    if (!(file >> size) || size < 0 || size > (1 << 30)) continue;
    file >> unit;
    largest = std::max(largest, unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size);
  }
  return largest * CpuTopology::read().cache_groups();
}

// One word of every cache line: all lines come from memory, and the instructions in flight are few
// enough for any core to be limited by memory alone, whatever its vectors are.
uint64_t read_stretch(const std::byte* data) {
  uint64_t lanes[kLanes] = {};
  for (int64_t at = 0; at < kStretch; at += kLanes * kLine) {
    for (int i = 0; i < kLanes; ++i) {
      uint64_t word;
      std::memcpy(&word, data + at + i * kLine, sizeof word);
      lanes[i] += word;
    }
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

Result<std::unique_ptr<MemoryMeter>> MemoryMeter::create(backend::Device& device) {
  if (!device.shares_host_memory()) {
    const size_t bytes = size_t{device.caps().id.starts_with("emu") ? 1u : 512u} << 20;
    STRATA_ASSIGN_OR_RETURN(backend::Buffer buffer, device.allocate(bytes));
    return std::unique_ptr<MemoryMeter>(new MemoryMeter(std::move(buffer), device));
  }
  const int64_t cache = last_level_cache_bytes();
  const auto memory = static_cast<int64_t>(std::min<uint64_t>(
      device.caps().memory_bytes, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  int64_t bytes = std::max(kMinBytes, kCacheFactor * cache);
  if (memory > 0) bytes = std::min(bytes, std::max(memory / 4, kStretch));
  bytes = bytes / kStretch * kStretch;
  STRATA_ASSIGN_OR_RETURN(backend::Buffer buffer, device.allocate(static_cast<size_t>(bytes)));
  // What memory can give, not what small pages leave of it; only a hint.
  (void)::madvise(buffer.data(), buffer.size(), MADV_HUGEPAGE);
  return std::unique_ptr<MemoryMeter>(
      new MemoryMeter(std::move(buffer), device.caps().workers, cache));
}

MemoryMeter::MemoryMeter(backend::Buffer buffer, int workers, int64_t cache_bytes)
    : buffer_(std::move(buffer)),
      pool_(workers),
      sums_(buffer_.size() / static_cast<size_t>(kStretch)),
      cache_bytes_(cache_bytes) {
  pool_.parallel_for(static_cast<int64_t>(sums_.size()), [&](int64_t i, int) {
    std::memset(buffer_.as<std::byte>() + i * kStretch, static_cast<int>(i % 251 + 1), kStretch);
  });
}

Status MemoryMeter::pass() {
  if (card_ != nullptr) STRATA_RETURN_IF_ERROR(card_->stream().synchronize());
  const auto start = std::chrono::steady_clock::now();
  if (card_ != nullptr) {
    const size_t half = buffer_.size() / 2;
    STRATA_RETURN_IF_ERROR(
        card_->copy_on_device(buffer_.as<std::byte>() + half, buffer_.data(), half));
    STRATA_RETURN_IF_ERROR(card_->stream().synchronize());
  } else {
    pool_.parallel_for(static_cast<int64_t>(sums_.size()), [&](int64_t i, int) {
      sums_[static_cast<size_t>(i)] += read_stretch(buffer_.as<std::byte>() + i * kStretch);
    });
  }
  took(std::chrono::steady_clock::now() - start);
  return {};
}

void MemoryMeter::took(std::chrono::duration<double> time) {
  ++passes_;
  best_ = std::max(best_, static_cast<double>(buffer_.size()) / std::max(time.count(), 1e-9));
}

}  // namespace strata::apps
