// step_rows.h: a step's slices, laid out as rows and as attention items.
//
//   slices   A: 1 token at 41      B: 5 tokens at 16..20
//   rows     0: (A, 41)            1..5: (B, 16..20)      token, position, block and slot of each
//   tiles    A: rows 0..0          B: rows 0..3, 4..4     (here with tiles of 4 rows)
//
//   runs     A: rows 0..0, short   B: rows 1..5, long     (here with 5 as the rows of a long slice)
//
// A run is consecutive rows of slices that are all long or all short; the products of long ones may
// use other kernels (llama.h). Which a row belongs to depends on its own slice alone.
//
// A tile is consecutive rows of one slice; attention computes one tile for one key head at a time.
// Tiles are ordered by cost, the largest first, so that the workers finish together.
//
// Thread: engine thread; read by workers between assign() calls. Cost: assign() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/model/model.h"
#include "kernels/kv_block.h"

namespace turnstile::engine {

struct StepRow {
  TokenId token = 0;
  std::uint32_t position = 0;
  kernels::BlockId block = 0;
  int slot = 0;
};

struct RowRun {
  int begin = 0;
  int end = 0;
  bool is_long = false;
  int rows() const { return end - begin; }
};

struct AttentionTile {
  const StepSlice* slice = nullptr;
  int first_row = 0;  // of the slice, in the step
  int row_begin = 0;  // of the tile, in the slice
  int row_end = 0;
  bool is_long = false;  // the slice
};

class StepRows {
 public:
  static constexpr int kTileRows = 16;
  static constexpr std::size_t kNoLongSlices = std::numeric_limits<std::size_t>::max();

  void reserve(std::size_t max_rows);

  // Slices of at least `long_rows` rows are long. Asserts what StepSlice requires. The slices must
  // live as long as the rows are used.
  void assign(std::span<const StepSlice> slices, std::size_t long_rows = kNoLongSlices);

  std::span<const StepRow> rows() const { return rows_; }
  std::span<const RowRun> runs() const { return runs_; }
  std::span<const AttentionTile> tiles() const { return tiles_; }
  // One tile for each row of logits_rows(), for the last layer.
  std::span<const AttentionTile> logits_tiles() const { return logits_tiles_; }
  // Rows whose logits are wanted, ascending.
  std::span<const int> logits_rows() const { return logits_rows_; }

 private:
  void add_slice(const StepSlice& slice, bool is_long);

  std::vector<StepRow> rows_;
  std::vector<RowRun> runs_;
  std::vector<AttentionTile> tiles_;
  std::vector<AttentionTile> logits_tiles_;
  std::vector<int> logits_rows_;
};

}  // namespace turnstile::engine
