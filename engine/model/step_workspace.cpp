#include "engine/model/step_workspace.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "engine/model/work_split.h"
#include "kernels/attention_parts.h"
#include "kernels/bf16.h"
#include "kernels/kernel_table.h"
#include "kernels/panel.h"

namespace turnstile::engine {

namespace {

using kernels::ActivationRows;
using kernels::kQuantBlock;

constexpr std::size_t kAlignment = 64;

// Hands out aligned pieces. A first pass without memory adds up the size, so the list of pieces
// is written once.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(std::size_t rows, std::size_t cols) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    const std::size_t bytes = rows * cols * sizeof(T);
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return piece;
  }

  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

ActivationRows take_activations(Carver& carver, std::size_t rows, int cols, bool with_bf16) {
  const auto width = static_cast<std::size_t>(cols);
  const std::size_t blocks = width / static_cast<std::size_t>(kQuantBlock);
  ActivationRows x;
  x.rows = static_cast<int>(rows);
  x.cols = cols;
  x.f32 = carver.take<float>(rows, width);
  x.q = carver.take<std::int8_t>(rows, width);
  x.scale = carver.take<float>(rows, blocks);
  x.sum = carver.take<std::int32_t>(rows, blocks);
  x.scaled_sum = carver.take<float>(rows, blocks);
  if (with_bf16) {
    x.bf16 = carver.take<std::uint16_t>(rows, static_cast<std::size_t>(kernels::bf16_stride(cols)));
  }
  return x;
}

void carve(StepWorkspace& work, Carver& carver, const LlamaConfig& config, std::size_t rows,
           bool with_bf16) {
  work.residual = carver.take<float>(rows, static_cast<std::size_t>(config.hidden));
  work.normed = take_activations(carver, rows, config.hidden, with_bf16);
  work.qkv = carver.take<float>(
      rows, static_cast<std::size_t>(config.q_width() + 2 * config.kv_width()));
  work.attended = take_activations(carver, rows, config.q_width(), with_bf16);
  work.gated = take_activations(carver, rows, config.feed_forward, with_bf16);
  work.attention_parts = carver.take<float>(
      std::min(rows, static_cast<std::size_t>(StepWorkspace::kSplitRows)) *
          static_cast<std::size_t>(config.q_heads * work.part_chunks),
      kernels::attention_part_floats(config.head_dim));
  constexpr auto kItemCols =
      static_cast<std::size_t>(WorkSplit::kMaxItemPanels * kernels::kPanelRows);
  for (WorkerScratch& worker : work.workers) {
    worker.gate = carver.take<float>(WorkSplit::kRowTile, kItemCols);
    worker.up = carver.take<float>(WorkSplit::kRowTile, kItemCols);
    worker.attention =
        carver.take<float>(1, kernels::attention_scratch_floats(config.head_dim));
  }
}

}  // namespace

std::optional<StepWorkspace> StepWorkspace::allocate(const LlamaConfig& config,
                                                     std::size_t max_rows, int threads,
                                                     bool with_bf16, int part_chunks) {
  StepWorkspace work;
  work.part_chunks = part_chunks;
  work.workers.resize(static_cast<std::size_t>(threads));
  work.stretches = WorkStretches(threads);
  Carver sizes(nullptr);
  carve(work, sizes, config, max_rows, with_bf16);
  auto memory = HugePages::allocate(sizes.used());
  if (!memory) return std::nullopt;
  work.memory = std::move(*memory);
  Carver pieces(work.memory.data());
  carve(work, pieces, config, max_rows, with_bf16);
  return work;
}

ActivationRows row_range(const ActivationRows& x, int begin, int end) {
  const auto first = static_cast<std::size_t>(begin);
  const auto width = static_cast<std::size_t>(x.cols);
  const std::size_t blocks = width / static_cast<std::size_t>(kQuantBlock);
  return {end - begin,
          x.cols,
          x.f32 + first * width,
          x.q + first * width,
          x.scale + first * blocks,
          x.sum + first * blocks,
          x.scaled_sum + first * blocks,
          x.bf16 == nullptr ? nullptr : x.bf16 + begin * kernels::bf16_stride(x.cols)};
}

ActivationRows column_range(const ActivationRows& x, int row, int begin, int end) {
  assert(begin % kQuantBlock == 0 && "a part of a row begins with a block");
  const ActivationRows whole = row_range(x, row, row + 1);
  const int block = begin / kQuantBlock;
  return {1,
          end - begin,
          whole.f32 + begin,
          whole.q + begin,
          whole.scale + block,
          whole.sum + block,
          whole.scaled_sum + block,
          whole.bf16 == nullptr ? nullptr : whole.bf16 + begin};
}

}  // namespace turnstile::engine
