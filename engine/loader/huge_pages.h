// huge_pages.h: one zeroed span of memory that asks the system for 2 MiB pages.
//
// The weights and the KV pool are read from end to end in every step; with 4 KiB pages the
// address translation alone costs a fifth to a third of the memory bandwidth. The request is a
// hint (MADV_HUGEPAGE): where the system refuses it, the memory works all the same.
//
// Pages cost memory, and the time to clear them, when they are first touched; populate() does that
// at once, so that no later step pays for it and a lack of memory shows at start. What is left out
// of it comes when it is needed.
//
// Ownership: unique; unmapped by the destructor. The start is aligned to 2 MiB.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/worker_pool.h"

namespace turnstile::engine {

class HugePages {
 public:
  // nullopt when the address space or the memory cannot be had. bytes > 0.
  static std::optional<HugePages> allocate(std::size_t bytes);

  HugePages() = default;
  ~HugePages();
  HugePages(HugePages&& other) noexcept;
  HugePages& operator=(HugePages&& other) noexcept;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // Touches every page, on all workers: clearing half a gigabyte takes one of them 0.2 s and more.
  // False when the system has not got the memory.
  bool populate(kernels::WorkerPool& workers) { return populate_fronts(workers, bytes_, bytes_); }

  // The same for the first `front_bytes` of every `stride_bytes`.
  bool populate_fronts(kernels::WorkerPool& workers, std::size_t stride_bytes,
                       std::size_t front_bytes);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;  // inside the mapping
  std::size_t bytes_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace turnstile::engine
