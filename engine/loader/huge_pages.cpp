#include "engine/loader/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace turnstile::engine {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPopulateBytes = 16 * kHugePageBytes;  // what one item of work clears

bool populate_range(std::byte* begin, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;  // EINVAL: a kernel before 5.14
#endif
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += page) {
    volatile std::byte* byte = begin + at;
    *byte = *byte;
  }
  return true;
}

}  // namespace

std::optional<HugePages> HugePages::allocate(std::size_t bytes) {
  assert(bytes > 0 && "an empty span has no address");
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return std::nullopt;
  // The extra page leaves room to start at a 2 MiB boundary; untouched pages cost nothing.
  const std::size_t mapping_bytes = bytes + kHugePageBytes;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return std::nullopt;

  HugePages pages;
  pages.mapping_ = mapping;
  pages.mapping_bytes_ = mapping_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  pages.data_ = static_cast<std::byte*>(mapping) + (aligned - address);
  pages.bytes_ = bytes;
  madvise(pages.data_, bytes, MADV_HUGEPAGE);
  return pages;
}

bool HugePages::populate_fronts(kernels::WorkerPool& workers, std::size_t stride_bytes,
                                std::size_t front_bytes) {
  assert(0 < front_bytes && front_bytes <= stride_bytes && "a front is a part of its stride");
  const std::size_t parts_of_front = (front_bytes + kPopulateBytes - 1) / kPopulateBytes;
  const std::size_t parts = (bytes_ + stride_bytes - 1) / stride_bytes * parts_of_front;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<char> done(parts);
  workers.run(static_cast<int>(parts), [&](int item, int) {
    const auto part = static_cast<std::size_t>(item);
    const std::size_t front = part / parts_of_front * stride_bytes;
    const std::size_t first = front + part % parts_of_front * kPopulateBytes;
    const std::size_t end = std::min({first + kPopulateBytes, front + front_bytes, bytes_});
    const std::size_t begin = first / page * page;
    done[part] = begin >= end || populate_range(data_ + begin, end - begin);
  });
  return std::ranges::all_of(done, [](char is_done) { return is_done != 0; });
}

HugePages::~HugePages() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

HugePages::HugePages(HugePages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

HugePages& HugePages::operator=(HugePages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

}  // namespace turnstile::engine
