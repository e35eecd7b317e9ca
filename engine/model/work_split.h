// work_split.h: how one matrix product is cut into items for the worker pool.
//
//            panels ->                      A large item loses time when a worker is preempted or
//          +----+----+----+                 at the end of the phase; a small one reads activations
//   rows   | 0  | 2  | 4  |                 again for few outputs. Items are a few panels wide (an
//    |     +----+----+----+                 even number: kernels compute two panels at a time, and
//    v     | 1  | 3  | 5  |                 two panels are one quantisation block of the next
//          +----+----+----+                 product) and at most kRowTile rows high, so that the
//                                           activations of an item stay in the L2 cache.
//
// Rows of long slices (step_rows.h) are cut into higher and narrower items: their kernels widen the
// panels of an item once for all its rows, and read rows that are ready as they lie.
//
// Which split is used never changes the bits of a result (kernels/kernel_table.h).
#pragma once

#include <algorithm>

namespace turnstile::engine {

struct WorkSplit {
  static constexpr int kRowTile = 128;
  static constexpr int kItemsPerThread = 8;  // of panels, at least, where the matrix has them
  static constexpr int kMaxItemPanels = 16;
  static constexpr int kLongRowTile = 512;
  static constexpr int kLongItemPanels = 4;
  static_assert(kLongRowTile * kLongItemPanels <= kRowTile * kMaxItemPanels,
                "an item's results fit the scratch of a worker");

  int panels = 0;
  int rows = 0;
  int item_panels = 0;
  int row_tiles = 0;

  WorkSplit(int panel_count, int row_count, int threads, bool is_long)
      : panels(panel_count), rows(row_count) {
    const int wanted = panels / (kItemsPerThread * threads);
    item_panels = std::clamp(wanted / 2 * 2, 2, is_long ? kLongItemPanels : kMaxItemPanels);
    row_tiles = tiles_of(rows, is_long);
  }

  static int tiles_of(int rows, bool is_long) {
    const int tile = is_long ? kLongRowTile : kRowTile;
    return (rows + tile - 1) / tile;
  }

  int items() const { return (panels + item_panels - 1) / item_panels * row_tiles; }

  struct Item {
    int panel_begin, panel_end;
    int row_begin, row_end;
  };
  // Neighbouring items share their panels, which the second worker then finds in the L3 cache.
  Item item(int index) const {
    const int panel_begin = index / row_tiles * item_panels;
    const int tile = index % row_tiles;
    return {panel_begin, std::min(panel_begin + item_panels, panels), rows * tile / row_tiles,
            rows * (tile + 1) / row_tiles};
  }
};

}  // namespace turnstile::engine
