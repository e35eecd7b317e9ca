// work_split.h: how one matrix product is cut into items for the worker pool.
//
//            panels ->                      A large item loses time when a worker is preempted or
//          +----+----+----+                 at the end of the phase; a small one prepares its rows
//   rows   | 0  | 2  | 4  |                 again for few outputs. Items are a few panels wide (an
//    |     +----+----+----+                 even number: kernels compute two panels at a time, and
//    v     | 1  | 3  | 5  |                 two panels are one quantisation block of the next
//          +----+----+----+                 product) and at most kRowTile rows high, so that the
//                                           activations of an item stay in the L2 cache.
//
// Items are as wide as they can be without lengthening the phase: 36 panels are three items of six
// for each of two workers, and for four workers items of two, since 9 panels each are no sixes.
// Many rows make many items, which may then be wider: each of its rows is finished apart.
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
  static constexpr int kItemsPerThread = 8;  // at least, where they are wider than
  static constexpr int kUsualPanels = 6;     // .. this
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
      : panels(panel_count), rows(row_count), row_tiles(tiles_of(row_count, is_long)) {
    const int wide = panels * row_tiles / (kItemsPerThread * threads) / 2 * 2;
    const int most = is_long ? kLongItemPanels : std::clamp(wide, kUsualPanels, kMaxItemPanels);
    for (int width = 2; width <= most; width += 2) {
      const bool is_first = item_panels == 0;
      if (is_first || longest_share(width, threads) <= longest_share(item_panels, threads)) {
        item_panels = width;
      }
    }
  }

  static int tiles_of(int rows, bool is_long) {
    const int tile = is_long ? kLongRowTile : kRowTile;
    return (rows + tile - 1) / tile;
  }

  int items() const { return items_of(item_panels); }

  struct Item {
    int panel_begin, panel_end;
    int row_begin, row_end;
  };
  // Neighbouring items share their panels, which the second then finds in the cache.
  Item item(int index) const {
    const int panel_begin = index / row_tiles * item_panels;
    const int tile = index % row_tiles;
    return {panel_begin, std::min(panel_begin + item_panels, panels), rows * tile / row_tiles,
            rows * (tile + 1) / row_tiles};
  }

 private:
  int items_of(int width) const { return (panels + width - 1) / width * row_tiles; }

  // Panels of the worker that has most items of this width.
  int longest_share(int width, int threads) const {
    return (items_of(width) + threads - 1) / threads * width;
  }
};

}  // namespace turnstile::engine
