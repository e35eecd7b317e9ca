#include "engine/model/attention_phase.h"

#include <algorithm>
#include <array>

#include "kernels/attention_parts.h"

namespace turnstile::engine {
namespace {

// Wanted of few rows. More would balance better and cost a tile's set-up each.
constexpr int kItemsPerThread = 8;
// Up to this many rows the caller merges alone: it takes less time than a barrier.
constexpr int kSerialMergeRows = 4;

std::size_t offset(int value) { return static_cast<std::size_t>(value); }

int rows_of(const AttentionTile& tile) { return tile.row_end - tile.row_begin; }

int chunks_of(const AttentionTile& tile) {
  return kernels::attention_chunks(static_cast<int>(tile.slice->first_position) + tile.row_end);
}

kernels::AttentionRows attention_rows(const LlamaStep& step, const AttentionTile& tile) {
  const std::size_t qkv_stride = offset(step.config.q_width() + 2 * step.config.kv_width());
  const std::size_t out_stride = offset(step.config.q_width());
  kernels::AttentionRows rows;
  rows.q = step.work.qkv + offset(tile.first_row) * qkv_stride;
  rows.q_stride = qkv_stride;
  rows.out = step.work.attended.f32 + offset(tile.first_row) * out_stride;
  rows.out_stride = out_stride;
  rows.rows = static_cast<int>(tile.slice->tokens.size());
  rows.q_heads = step.config.q_heads;
  rows.first_position = static_cast<int>(tile.slice->first_position);
  rows.blocks = tile.slice->blocks.data();
  return rows;
}

// Columns [col_begin, col_end) of a row of the tile's slice, as the next product reads them.
void quantize_columns(const LlamaStep& step, const AttentionTile& tile, int row, int col_begin,
                      int col_end) {
  const kernels::KernelTable& table = tile.is_long ? step.long_table : step.table;
  table.quantize(column_range(step.work.attended, tile.first_row + row, col_begin, col_end), 0, 1);
}

// Ranges of chunks that each tile is cut into.
int ranges(const LlamaStep& step, std::span<const AttentionTile> tiles) {
  if (step.work.part_chunks == 0 || step.pool.threads() == 1) return 1;
  int rows = 0;
  int most_chunks = 0;
  for (const AttentionTile& tile : tiles) {
    rows += rows_of(tile);
    most_chunks = std::max(most_chunks, chunks_of(tile));
    if (rows > StepWorkspace::kSplitRows) return 1;
  }
  const int items = static_cast<int>(tiles.size()) * step.config.kv_heads;
  const int wanted = kItemsPerThread * step.pool.threads();
  return std::clamp((wanted + items - 1) / items, 1, most_chunks);
}

void attend_in_ranges(const LlamaStep& step, const std::byte* layer_kv,
                      std::span<const AttentionTile> tiles, int range_count, bool quantize) {
  const int kv_heads = step.config.kv_heads;
  const std::size_t row_floats =
      offset(step.config.q_heads * step.work.part_chunks) *
      kernels::attention_part_floats(step.config.head_dim);
  // Tiles of few rows: each row has a place of its own among the parts.
  std::array<kernels::AttentionRows, StepWorkspace::kSplitRows> rows_of_tile;
  struct Place {
    int tile, row;
  };
  std::array<Place, StepWorkspace::kSplitRows> places;
  int row_count = 0;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    rows_of_tile[t] = attention_rows(step, tiles[t]);
    rows_of_tile[t].parts = step.work.attention_parts + offset(row_count) * row_floats;
    rows_of_tile[t].parts_row = tiles[t].row_begin;
    rows_of_tile[t].part_chunks = step.work.part_chunks;
    for (int row = tiles[t].row_begin; row < tiles[t].row_end; ++row) {
      places[offset(row_count++)] = {static_cast<int>(t), row};
    }
  }
  const int items_of_tile = kv_heads * range_count;
  step.pool.run(static_cast<int>(tiles.size()) * items_of_tile, [&](int item, int worker) {
    const AttentionTile& tile = tiles[offset(item / items_of_tile)];
    const int range = item % range_count;
    const int chunks = chunks_of(tile);
    kernels::AttentionRows rows = rows_of_tile[offset(item / items_of_tile)];
    rows.chunk_begin = chunks * range / range_count;
    rows.chunk_end = chunks * (range + 1) / range_count;
    if (rows.chunk_begin == rows.chunk_end) return;
    step.table.attend(step.kv_layout, layer_kv, rows, item % items_of_tile / range_count,
                      tile.row_begin, tile.row_end, step.work.workers[offset(worker)].attention);
  });
  const auto merge = [&](int place, int) {
    const auto [tile, row] = places[offset(place)];
    kernels::merge_attention_parts(step.kv_layout, rows_of_tile[offset(tile)], row);
    if (quantize) quantize_columns(step, tiles[offset(tile)], row, 0, step.config.q_width());
  };
  if (row_count > kSerialMergeRows) {
    step.pool.run(row_count, merge);
  } else {
    for (int place = 0; place < row_count; ++place) merge(place, 0);
  }
}

}  // namespace

bool can_quantize_heads(const LlamaConfig& config) {
  return config.heads_per_group() * config.head_dim % kernels::kQuantBlock == 0;
}

void attend_rows(const LlamaStep& step, int layer, std::span<const AttentionTile> tiles,
                 bool quantize) {
  if (tiles.empty()) return;
  const std::byte* layer_kv = step.kv_pool + step.kv_layout.offset(layer, 0, 0);
  const int range_count = ranges(step, tiles);
  if (range_count > 1) return attend_in_ranges(step, layer_kv, tiles, range_count, quantize);
  const int kv_heads = step.config.kv_heads;
  const int head_cols = step.config.heads_per_group() * step.config.head_dim;
  step.pool.run(static_cast<int>(tiles.size()) * kv_heads, [&](int item, int worker) {
    const AttentionTile& tile = tiles[offset(item / kv_heads)];
    const int head = item % kv_heads;
    step.table.attend(step.kv_layout, layer_kv, attention_rows(step, tile), head, tile.row_begin,
                      tile.row_end, step.work.workers[offset(worker)].attention);
    for (int row = tile.row_begin; quantize && row < tile.row_end; ++row) {
      quantize_columns(step, tile, row, head * head_cols, (head + 1) * head_cols);
    }
  });
}

}  // namespace turnstile::engine
