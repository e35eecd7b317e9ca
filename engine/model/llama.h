// llama.h: the `llama` architecture on the CPU kernels (model.h has the contract of a model).
//
//   tokens -> embedding -> layer 0 .. n-1 (llama_layer.h) -> final norm -> head -> logits
//
// Options choose the instruction set, the numerics and the type of K and V. Int8 (the product's
// path) quantises activations and keeps K and V as f16 or int8; Float32 is the reference:
// dequantised weights, float activations, K and V as f32, Scalar level only.
//
// With a table of its own for long slices (Bf16) their products are other bits. Which table a row
// gets depends on the number of rows of its slice alone, so a slice is still the same bits whatever
// else is in the step, but no longer however its prompt is cut. How far that goes: model.h.
//
// Memory: weights (panels), the KV pool, the step workspace and the rotary table are spans of huge
//         pages. forward() allocates nothing.
// Thread: load() on any thread; then the engine thread only. The model owns its worker pool unless
//         it shares another's.
// Errors: load() returns a LoadError; forward() asserts its preconditions (model.h).
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; grouped
//         query attention: Ainslie et al., "GQA", 2023.
// Tests:  tests/engine/llama_tiny_test.cpp (small checkpoints), llama_smollm2_test.cpp (the real
//         model against goldens), identity_test.cpp (the bitwise promise).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"
#include "engine/loader/huge_pages.h"
#include "engine/loader/weights.h"
#include "engine/model/ladder_probe.h"
#include "engine/model/llama_config.h"
#include "engine/model/llama_weights.h"
#include "engine/model/model.h"
#include "engine/model/rope_table.h"
#include "engine/model/step_rows.h"
#include "engine/model/step_workspace.h"
#include "kernels/kernel_table.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {

// From here on bf16 tiles beat int8, and no decode with its guesses is so long.
inline constexpr std::size_t kLongSliceRows = 64;

struct LlamaOptions {
  kernels::Level level = kernels::Level::Scalar;  // must be supported by this CPU
  kernels::Numerics numerics = kernels::Numerics::Int8;
  kernels::KvType kv_type = kernels::KvType::F16;  // F16 or Int8; Float32 numerics have F32
  // For products of slices of at least `long_slice_rows` rows; null: the same as for others.
  const kernels::KernelTable* long_slice_table = nullptr;
  std::size_t long_slice_rows = kLongSliceRows;
  int threads = 1;        // of the worker pool, the caller included
  // The pool of another model that outlives this one and computes at other times; null: its own.
  kernels::WorkerPool* workers = nullptr;
  LoadProgress progress;  // may be empty
  std::optional<std::size_t> memory_bytes;  // of the weights at most; absent: not known
};

class LlamaModel final : public Model {
 public:
  static tl::expected<std::unique_ptr<LlamaModel>, LoadError> load(const GgufFile& file,
                                                                   const LlamaOptions& options);

  std::size_t vocab_size() const override;
  std::size_t context_length() const override;
  std::size_t kv_block_bytes() const override;
  bool reserve(std::size_t kv_blocks, std::size_t max_step_tokens,
               std::size_t max_logits_rows) override;
  using Model::forward;
  bool forward(std::span<const StepSlice> slices, std::span<float> logits,
               StepWatch* watch) override;
  void copy_block(kernels::BlockId from, kernels::BlockId to) override;
  kernels::WorkerPool* workers() override { return &pool_; }

  const LlamaConfig& config() const { return config_; }
  const kernels::KernelTable& table() const { return table_; }
  std::size_t weight_bytes() const { return weights_.tensors.arena_bytes(); }
  std::size_t workspace_bytes() const;

  // Empty: none.
  void set_probe(LadderProbe probe);

 private:
  LlamaModel(const LlamaConfig& config, const kernels::KernelTable& table,
             const LlamaOptions& options);

  LlamaConfig config_;
  const kernels::KernelTable& table_;
  const kernels::KernelTable* long_slice_table_;  // null: there are no long slices
  std::size_t long_slice_rows_;
  std::unique_ptr<kernels::WorkerPool> own_pool_;  // null: shared
  kernels::WorkerPool& pool_;
  LlamaWeights weights_;
  RopeTable rope_;
  kernels::KvLayout kv_layout_;
  HugePages kv_pool_;
  std::optional<StepWorkspace> workspace_;
  StepRows rows_;
  std::size_t max_logits_rows_ = 0;
  LadderProbe probe_;
};

}  // namespace turnstile::engine
