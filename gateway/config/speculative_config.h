// speculative_config.h: the JSON of --speculative-config, in vLLM's shape, as a checked value.
//
//   {"method": "ngram", "num_speculative_tokens": 5,
//    "prompt_lookup_min": 2, "prompt_lookup_max": 5}
//   {"method": "draft_model", "model": "small.gguf", "num_speculative_tokens": 4}
//
// As in vLLM a prompt_lookup bound that is absent equals the other one, and both are 5 when both
// are absent; a method that is absent is draft_model when there is a model. Fields that this build
// or the method does not know are errors: nothing is accepted and ignored.
//
// Thread: any; a value. Errors: the end of a sentence that starts with the setting's name.
// Tests:  tests/gateway/config_test.cpp (a table of texts and their errors).
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "engine/limits.h"

namespace turnstile::gateway {

struct SpeculativeConfig {
  engine::SpeculationLimits limits;  // draft_kv_blocks is not among the fields: served_model.h
  std::string model;                 // GGUF file of the draft model, as written; empty: none
};

// "none" for no speculation.
std::string_view method_name(const engine::SpeculationLimits& limits);

// `text` empty: speculation is off.
tl::expected<SpeculativeConfig, std::string> parse_speculative_config(
    std::string_view text);

}  // namespace turnstile::gateway
