// request_bytes.h: the bytes of the n-th request, the same on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "bench/load/options.h"

namespace turnstile::load {

// A complete HTTP/1.1 request with its JSON body. `number` selects the prompt and the sampling
// seed: equal (options, number) give equal bytes, different numbers different prompts after the
// shared part, so that no prefix cache can help unless it is asked to.
std::string request_bytes(const Options& options, std::uint64_t number);

}  // namespace turnstile::load
