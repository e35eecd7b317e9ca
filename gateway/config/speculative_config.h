// speculative_config.h: the JSON of --speculative-config, in vLLM's shape, as a checked value.
//
//   {"method": "ngram", "num_speculative_tokens": 5,
//    "prompt_lookup_min": 2, "prompt_lookup_max": 5}
//
// As in vLLM a prompt_lookup bound that is absent equals the other one, and both are 5 when both
// are absent. Fields that this build does not know are errors: nothing is accepted and ignored.
//
// Thread: any; a value. Errors: the end of a sentence that starts with the setting's name.
// Tests:  tests/gateway/config_test.cpp (a table of texts and their errors).
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "engine/limits.h"

namespace turnstile::gateway {

// `text` empty: speculation is off.
tl::expected<engine::SpeculationLimits, std::string> parse_speculative_config(
    std::string_view text);

}  // namespace turnstile::gateway
