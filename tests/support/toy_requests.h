// toy_requests.h: requests and limits for engines over the toy tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/limits.h"
#include "engine/request.h"
#include "engine/token_id.h"

namespace turnstile::tests {

// Eight sequences of up to 512 tokens, chunks of 64, 300 blocks.
engine::Limits roomy_limits();

// Greedy, one choice, no stop but the end tokens.
engine::Request greedy_request(engine::RequestId id, std::string_view prompt,
                               std::uint32_t max_tokens);

// Request 1, whose every token is `token` by a bias.
engine::Request only_token(engine::TokenId token, std::uint32_t max_tokens);

// Small letters; another seed, another text.
std::string letters(std::size_t count, std::uint32_t seed = 1);

}  // namespace turnstile::tests
