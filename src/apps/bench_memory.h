// The bandwidth that reading weights can hope for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/device.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace strata::apps {

class MemoryMeter {
 public:
  // Takes a buffer of at least 256 MiB and four times the last-level caches, within a quarter of
  // memory; a card of its own gets a buffer of 512 MiB, an emulated one a small one. The device must
  // outlive the meter.
  static Result<std::unique_ptr<MemoryMeter>> create(backend::Device& device);

  // Reads the buffer once, front to back, with as many threads as the device computes with; on a card
  // copies one half to the other, and what counts is bytes read and written.
  Status pass();

  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_.size()); }
  int64_t cache_bytes() const { return cache_bytes_; }  // last-level caches; 0: not known
  int passes() const { return passes_; }
  double best() const { return best_; }  // bytes per second of the fastest pass; 0 before the first

 private:
  MemoryMeter(backend::Buffer buffer, int workers, int64_t cache_bytes);
  MemoryMeter(backend::Buffer buffer, backend::Device& card)
      : card_(&card), buffer_(std::move(buffer)), pool_(1) {}
  void took(std::chrono::duration<double> time);

  backend::Device* card_ = nullptr;
  backend::Buffer buffer_;
  ThreadPool pool_;
  std::vector<uint64_t> sums_;  // keep the compiler from leaving the reads out
  int64_t cache_bytes_ = 0;
  int passes_ = 0;
  double best_ = 0;
};

}  // namespace strata::apps
