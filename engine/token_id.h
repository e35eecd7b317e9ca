// token_id.h: the index of a token in the model's vocabulary.
#pragma once

#include <cstdint>

namespace turnstile::engine {

using TokenId = std::uint32_t;

}  // namespace turnstile::engine
