#include "engine/tokenizer/piece_table.h"

#include <bit>

namespace turnstile::engine {

PieceTable::PieceTable(std::size_t piece_count) {
  const std::size_t size = std::bit_ceil(2 * piece_count + 2);
  slots_.assign(size, Slot{0, kNone});
  mask_ = size - 1;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
}

void PieceTable::insert(std::uint64_t hash, TokenId id) {
  std::size_t i = hash >> shift_;
  while (slots_[i].id != kNone) i = (i + 1) & mask_;
  slots_[i] = {static_cast<std::uint32_t>(hash), id};
}

}  // namespace turnstile::engine
