#include "base/anonymous_memory.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <sys/mman.h>

namespace strata {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<AnonymousMemory> AnonymousMemory::allocate(size_t bytes) {
  AnonymousMemory memory;
  if (bytes == 0) return memory;
  if (bytes > SIZE_MAX - 2 * kHugePage) {
    return resource_exhausted("{} bytes are more than any memory holds", bytes);
  }
  const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* address = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return resource_exhausted("cannot allocate {:.1f} MiB: {}",
                              static_cast<double>(size) / (1 << 20), std::strerror(errno));
  }
  auto* begin = static_cast<std::byte*>(address);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + size, kHugePage - before);
  memory.data_ = begin + before;
  memory.size_ = size;
  // A wish: where the system has none, ordinary pages do.
  (void)::madvise(memory.data_, size, MADV_HUGEPAGE);
  return memory;
}

AnonymousMemory::AnonymousMemory(AnonymousMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AnonymousMemory& AnonymousMemory::operator=(AnonymousMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AnonymousMemory::~AnonymousMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace strata
