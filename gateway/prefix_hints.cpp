#include "gateway/prefix_hints.h"

namespace turnstile::gateway {
namespace {

constexpr std::size_t kBlock = engine::BlockTokens::extent;

}  // namespace

void PrefixHints::note(const engine::CacheSalt& salt, std::span<const engine::TokenId> prompt) {
  if (places_.empty()) places_.resize(kPlaces);
  engine::PrefixKey key = engine::root_key(salt);
  for (std::size_t at = 0; at + kBlock <= prompt.size(); at += kBlock) {
    key = engine::chain_key(key, prompt.subspan(at).first<kBlock>());
    places_[place_of(key)] = key;
  }
}

std::size_t PrefixHints::known_tokens(const engine::CacheSalt& salt,
                                      std::span<const engine::TokenId> prompt) const {
  if (places_.empty()) return 0;
  engine::PrefixKey key = engine::root_key(salt);
  std::size_t at = 0;
  for (; at + kBlock < prompt.size(); at += kBlock) {
    key = engine::chain_key(key, prompt.subspan(at).first<kBlock>());
    if (places_[place_of(key)] != key) break;
  }
  return at;
}

}  // namespace turnstile::gateway
