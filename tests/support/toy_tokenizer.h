// toy_tokenizer.h: 64 tokens that are hard on everything behind the sampler.
//
//   id      0 .. 25   "a" .. "z"                26 .. 51  "A" .. "Z"
//          52 .. 56   the bytes C3 A9 E2 82 AC, one token each: U+00E9 and U+20AC come in parts
//          57, 58     "ab", "END"               59        bytes E2 82: two thirds of U+20AC
//          60         " "                       61        a control token that ends nothing
//          62         a second end token        63        <|endoftext|>
//
// token("x") finds a token by its bytes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/token_id.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::tests {

inline constexpr std::size_t kToyVocabulary = 64;
inline constexpr engine::TokenId kToyControl = 61;
inline constexpr engine::TokenId kToyTurnEnd = 62;
inline constexpr engine::TokenId kToyEnd = 63;

std::shared_ptr<const engine::Tokenizer> toy_tokenizer();

// One token for each byte of letters and spaces.
std::vector<engine::TokenId> toy_tokens(std::string_view letters);

// A vocabulary of `size` tokens "t0", "t1", ... without end tokens.
std::shared_ptr<const engine::Tokenizer> endless_tokenizer(std::size_t size);

}  // namespace turnstile::tests
