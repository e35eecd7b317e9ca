// piece_table.h: finds the token whose bytes are exactly a given piece.
//
// Open addressing, at most half full; a slot holds the id and 32 bits of the hash, the bytes stay
// with the tokenizer. The entries come from the model file and are fixed: a client cannot make
// lookups slow, only miss.
//
// Thread: immutable after the last insert; const use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/token_id.h"

namespace turnstile::engine {

class PieceTable {
 public:
  static constexpr TokenId kNone = 0xFFFF'FFFFu;

  PieceTable() : PieceTable(0) {}
  explicit PieceTable(std::size_t piece_count);

  // At most piece_count inserts. `hash` is hash_of() of the token's bytes.
  void insert(std::uint64_t hash, TokenId id);

  // The id for which same_bytes(id) is true among those of this hash, or kNone.
  template <typename SameBytes>
  TokenId find(std::uint64_t hash, SameBytes same_bytes) const {
    const auto tag = static_cast<std::uint32_t>(hash);
    for (std::size_t i = hash >> shift_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.tag == tag && same_bytes(slot.id)) return slot.id;
    }
  }

  static std::uint64_t hash_of(std::string_view bytes) {
    std::uint64_t hash = bytes.size() * kMultiplier;
    while (bytes.size() >= 8) {
      hash = mix(hash ^ load(bytes.data(), 8));
      bytes.remove_prefix(8);
    }
    if (!bytes.empty()) hash = mix(hash ^ load(bytes.data(), bytes.size()));
    return mix(hash);
  }

 private:
  struct Slot {
    std::uint32_t tag;
    TokenId id;
  };
  static constexpr std::uint64_t kMultiplier = 0x9E37'79B9'7F4A'7C15u;
  static std::uint64_t mix(std::uint64_t value) {
    value *= kMultiplier;
    return value ^ value >> 32;
  }
  static std::uint64_t load(const char* bytes, std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, count);
    return value;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 63;
};

}  // namespace turnstile::engine
