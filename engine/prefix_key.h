// prefix_key.h: a 128-bit name for "these tokens after that prefix, under this salt".
//
//   key(block 0) = mix(salt, 16 ids)          key(block i) = mix(key(block i - 1), 16 ids)
//
// Two equal keys are a hint, never a proof: PrefixCache compares ids, parent and salt before it
// hands out a block, so a collision can cost a cache hit but can never share a wrong block. That is
// why a fast mixer suffices and no cryptographic hash is needed. Among n cached blocks an accident
// has a chance of about n^2 / 2^129 (birthday bound; 2^-89 for a million blocks). A tenant who
// wants to provoke one must know the salt, which the gateway derives from a secret; all it would
// gain is a miss of its own kind, as keys of different salts are unrelated.
//
// Two independent 64-bit lanes, each word of input followed by the xor-shift-multiply finaliser of
// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014),
// with different odd constants for the lanes.
//
// Thread: pure. Cost: about 50 ns a block. Tests: tests/engine/prefix_cache_test.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "engine/request.h"
#include "engine/token_id.h"
#include "kernels/kv_block.h"

namespace turnstile::engine {

struct PrefixKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const PrefixKey&) const = default;
};

using BlockTokens = std::span<const TokenId, kernels::kKvBlockTokens>;

PrefixKey root_key(const CacheSalt& salt);
PrefixKey chain_key(const PrefixKey& parent, BlockTokens tokens);

}  // namespace turnstile::engine
