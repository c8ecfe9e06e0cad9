// Memory of this process that no file stands behind, in huge pages where the system gives them: large
// tables that are read all over cost fewer address translations there.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace strata {

class AnonymousMemory {
 public:
  // Zeros, committed when touched; aligned to 2 MiB. Fails with kResourceExhausted when the address
  // space or the commit limit is used up.
  static Result<AnonymousMemory> allocate(size_t bytes);

  AnonymousMemory(AnonymousMemory&& other) noexcept;
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept;
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;
  ~AnonymousMemory();

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  AnonymousMemory() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace strata
