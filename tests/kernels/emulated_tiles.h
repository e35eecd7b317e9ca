// emulated_tiles.h: the AMX tile instructions that the kernels use, as plain loops over eight
// arrays, one set for each thread. An instruction that a CPU would refuse (no configuration, a tile
// or row out of range, shapes that do not fit) is an assertion.
// Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3 (AMX).
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace turnstile::kernels::emulated_tiles {

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  std::uint8_t bytes[16][64] = {};
};

struct Tiles {
  bool configured = false;
  Tile tile[8];

  Tile& at(int index) {
    assert(configured && "tiles are configured before they are used");
    assert(index >= 0 && index < 8 && tile[index].rows > 0 && "a configured tile");
    return tile[index];
  }
};

inline Tiles& tiles() {
  thread_local Tiles state;
  return state;
}

// The 64 bytes of the configuration: palette, start row, 14 reserved, 16 widths, 16 heights.
inline void load_config(const void* memory) {
  std::uint8_t config[64];
  std::memcpy(config, memory, sizeof config);
  assert(config[0] == 1 && config[1] == 0 && "palette 1, start row 0");
  for (int i = 2; i < 16; ++i) assert(config[i] == 0 && "reserved bytes are zero");
  tiles() = Tiles{};
  tiles().configured = true;
  for (int i = 0; i < 8; ++i) {
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, config + 16 + 2 * i, sizeof row_bytes);
    assert(row_bytes <= 64 && config[48 + i] <= 16 && "a tile has at most 16 rows of 64 bytes");
    tiles().tile[i].row_bytes = row_bytes;
    tiles().tile[i].rows = config[48 + i];
  }
}

inline void release() { tiles() = Tiles{}; }

inline void zero(int to) { std::memset(tiles().at(to).bytes, 0, sizeof(Tile::bytes)); }

inline void load(int to, const void* from, std::ptrdiff_t stride) {
  Tile& tile = tiles().at(to);
  std::memset(tile.bytes, 0, sizeof tile.bytes);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(tile.bytes[r], static_cast<const std::uint8_t*>(from) + r * stride,
                static_cast<std::size_t>(tile.row_bytes));
  }
}

inline void store(int from, void* to, std::ptrdiff_t stride) {
  const Tile& tile = tiles().at(from);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(static_cast<std::uint8_t*>(to) + r * stride, tile.bytes[r],
                static_cast<std::size_t>(tile.row_bytes));
  }
}

// c += a (signed bytes) times b (unsigned bytes, four columns of a in each cell).
inline void dpbsud(int c, int a, int b) {
  Tile& sums = tiles().at(c);
  const Tile& left = tiles().at(a);
  const Tile& right = tiles().at(b);
  assert(sums.rows == left.rows && sums.row_bytes == right.row_bytes &&
         left.row_bytes == 4 * right.rows && "shapes of a tile product");
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < sums.row_bytes / 4; ++n) {
      std::int32_t sum = 0;
      std::memcpy(&sum, sums.bytes[m] + 4 * n, sizeof sum);
      for (int k = 0; k < left.row_bytes; ++k) {
        sum += static_cast<std::int8_t>(left.bytes[m][k]) * right.bytes[k / 4][4 * n + k % 4];
      }
      std::memcpy(sums.bytes[m] + 4 * n, &sum, sizeof sum);
    }
  }
}

inline float flushed(float value) { return std::fabs(value) < 0x1p-126F ? 0.0F : value; }

// One bf16 of a cell of two; denormals are taken for zero.
inline float bf16_at(const std::uint8_t* cell, int half) {
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<std::uint8_t*>(&bits) + 2, cell + 2 * half, 2);
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return flushed(value);
}

// c += a (bf16) times b (bf16, two columns of a in each cell): two chains, then one sum.
inline void dpbf16ps(int c, int a, int b) {
  Tile& sums = tiles().at(c);
  const Tile& left = tiles().at(a);
  const Tile& right = tiles().at(b);
  assert(sums.rows == left.rows && sums.row_bytes == right.row_bytes &&
         left.row_bytes == 4 * right.rows && "shapes of a tile product");
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < sums.row_bytes / 4; ++n) {
      float chain[2] = {0.0F, 0.0F};
      for (int k = 0; k < right.rows; ++k) {
        for (int half = 0; half < 2; ++half) {
          chain[half] = flushed(std::fma(bf16_at(left.bytes[m] + 4 * k, half),
                                         bf16_at(right.bytes[k] + 4 * n, half), chain[half]));
        }
      }
      float sum = 0.0F;
      std::memcpy(&sum, sums.bytes[m] + 4 * n, sizeof sum);
      sum = flushed(sum + flushed(chain[0] + chain[1]));
      std::memcpy(sums.bytes[m] + 4 * n, &sum, sizeof sum);
    }
  }
}

}  // namespace turnstile::kernels::emulated_tiles
