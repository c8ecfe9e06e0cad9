// Runs the blocks of launches: the calling thread, helped by the pool's threads when a launch is
// long enough to be worth waking them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/gpu/emu/block.h"

namespace strata::gpu::emu {

class BlockPool {
 public:
  explicit BlockPool(int helpers);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Runs every block, in an order that follows from `seed`. Returns what went wrong first; the
  // remaining blocks are then not run. Callable from several threads at once.
  std::optional<std::string> run(const KernelLaunch& launch, uint64_t seed);

 private:
  struct Job;
  void help();
  void work(Job& job, BlockRunner& runner, bool owner);
  std::unique_ptr<BlockRunner> borrow();
  void give_back(std::unique_ptr<BlockRunner> runner);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable left_;
  std::deque<Job*> jobs_;  // that want help
  bool stopping_ = false;
  std::vector<std::unique_ptr<BlockRunner>> runners_;
  std::vector<std::thread> threads_;
};

}  // namespace strata::gpu::emu
