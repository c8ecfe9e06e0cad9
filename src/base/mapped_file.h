// A read-only memory-mapped file. Pages are read when touched; nothing is read at open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace strata {

class MappedFile {
 public:
  // Fails with kNotFound / kInvalidArgument when the path is missing, a directory or unreadable.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that bytes [offset, offset + length) will be read here and there, so that it
  // reads nothing ahead of them.
  void expect_random_reads(size_t offset, size_t length) const;
  // Asks the kernel to start reading bytes [offset, offset + length) now; returns at once.
  void prefetch(size_t offset, size_t length) const;
  // Tells the kernel that bytes [offset, offset + length) will not be read again soon.
  void forget(size_t offset, size_t length) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace strata
