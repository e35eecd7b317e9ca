// prefix_hints.h: which beginnings of prompts the engine has seen lately.
//
// The prefix cache belongs to the engine's thread; what it holds is known for certain only when a
// request is bound. This is the I/O thread's guess at arrival: the keys of the blocks of the
// prompts that were handed to the engine, in a table where a newer key takes the place of an older
// one. A wrong guess costs an inexact prediction or a turn within locality_slack, nothing else.
//
// Thread: I/O. Memory: 16 bytes for each of kPlaces. Cost: about 50 ns a block of the prompt.
// Tests:  tests/gateway/prefix_hints_test.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/prefix_key.h"
#include "engine/request.h"
#include "engine/token_id.h"

namespace turnstile::gateway {

class PrefixHints {
 public:
  static constexpr std::size_t kPlaces = 8192;

  // The prompt goes to the engine.
  void note(const engine::CacheSalt& salt, std::span<const engine::TokenId> prompt);

  // Tokens at the front of the prompt, whole blocks, that were seen. The last token of a prompt is
  // always computed.
  std::size_t known_tokens(const engine::CacheSalt& salt,
                           std::span<const engine::TokenId> prompt) const;

 private:
  static std::size_t place_of(const engine::PrefixKey& key) { return key.low % kPlaces; }

  std::vector<engine::PrefixKey> places_;  // empty until the first prompt
};

}  // namespace turnstile::gateway
