#include "engine/prefix_key.h"

namespace turnstile::engine {
namespace {

std::uint64_t finalise(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return x ^ (x >> 31);
}

// One word into both lanes. Each lane is a permutation of its state for a fixed word, and the lanes
// see the word at different offsets, so that they do not collide together.
void absorb(PrefixKey& state, std::uint64_t word) {
  state.high = finalise((state.high + 0x9e37'79b9'7f4a'7c15ULL) ^ word);
  state.low = finalise((state.low ^ 0xd1b5'4a32'd192'ed03ULL) + word * 0xaef1'7502'108e'f2d9ULL);
}

}  // namespace

PrefixKey root_key(const CacheSalt& salt) {
  PrefixKey state{0x243f'6a88'85a3'08d3ULL, 0x1319'8a2e'0370'7344ULL};  // digits of pi
  absorb(state, salt.high);
  absorb(state, salt.low);
  return state;
}

PrefixKey chain_key(const PrefixKey& parent, BlockTokens tokens) {
  PrefixKey state = parent;
  for (std::size_t i = 0; i < tokens.size(); i += 2) {
    absorb(state, std::uint64_t{tokens[i]} << 32 | tokens[i + 1]);
  }
  return state;
}

}  // namespace turnstile::engine
