#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace strata {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT) return not_found("no file at '{}'", path);
    return invalid_argument("cannot open '{}': {}", path, std::strerror(error));
  }
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_argument("'{}' is not a regular file", path);
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* address = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (address == MAP_FAILED) {
      file.size_ = 0;
      return resource_exhausted("cannot map '{}': {}", path, std::strerror(error));
    }
    file.data_ = static_cast<const std::byte*>(address);
  } else {
    ::close(fd);
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

namespace {

void advise_pages(const std::byte* data, size_t offset, size_t length, int advice) {
  if (data == nullptr || length == 0) return;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  ::madvise(const_cast<std::byte*>(data) + begin, offset + length - begin, advice);
}

}  // namespace

void MappedFile::expect_random_reads(size_t offset, size_t length) const {
  advise_pages(data_, offset, length, MADV_RANDOM);
}

void MappedFile::prefetch(size_t offset, size_t length) const {
  advise_pages(data_, offset, length, MADV_WILLNEED);
}

void MappedFile::forget(size_t offset, size_t length) const {
  advise_pages(data_, offset, length, MADV_DONTNEED);
}

}  // namespace strata
