// weights.h: the tensors of a model file, checked and rearranged into one arena.
//
// A model states which tensors it needs, in the order in which a step reads them; load() checks
// all of them (present, type, shape, none left over in the file), adds up the sizes with checked
// arithmetic, and only then allocates. Whether their numbers are finite is looked at when they are
// read, each tensor before it is used. Matrices become panels (kernels/panel.h), vectors become
// floats. The arena is one span of huge pages, so a decode step is one forward sweep through it.
//
//   needs:  attn_q   attn_k   ...  ffn_down  ...  output
//   arena:  |panels  |panels  |    |panels   |    |panels |     each part starts at 64 bytes
//
// The rows of the file are read once; their pages are given back to the system tensor by tensor,
// so the peak is about the arena plus one tensor, not arena plus file.
//
// Ownership: Weights owns the arena; PanelMatrix and spans are views of it and stay valid when the
//            Weights object is moved.
// Thread:    load() packs on the pool it is given; the result is immutable.
// Errors:    LoadError with `where` = "tensor NAME".
// Tests:     tests/engine/weights_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"
#include "engine/loader/huge_pages.h"
#include "kernels/panel.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {

struct TensorNeed {
  std::string name;
  int rows = 1;         // outputs; 1 for a vector
  int cols = 0;         // inputs, or the length of a vector
  bool vector = false;  // one dimension, F32, F16 or BF16, kept as floats
  bool optional = false;
};

// Called on the loading thread after each tensor; done == total at the last call.
using LoadProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

class Weights {
 public:
  // What load() will take in memory, after the same checks; another number than the file's bytes
  // where a format expands into panels of another one.
  static tl::expected<std::size_t, LoadError> needed_bytes(const GgufFile& file,
                                                           std::span<const TensorNeed> needs);

  static tl::expected<Weights, LoadError> load(const GgufFile& file,
                                               std::span<const TensorNeed> needs,
                                               kernels::WorkerPool& pool,
                                               const LoadProgress& progress,
                                               std::optional<std::size_t> memory_bytes = {});

  // By index into `needs`. An optional tensor that the file lacks has no panels and no values.
  kernels::PanelMatrix matrix(std::size_t need) const;
  std::span<const float> vector(std::size_t need) const;
  bool present(std::size_t need) const;

  std::size_t arena_bytes() const { return arena_.bytes(); }

 private:
  struct Part {
    kernels::PanelMatrix matrix;
    std::span<const float> values;
    bool present = false;
  };

  HugePages arena_;
  std::vector<Part> parts_;
};

}  // namespace turnstile::engine
