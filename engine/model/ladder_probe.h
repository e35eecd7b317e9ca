// ladder_probe.h: a look at the values between the parts of a model, for tests and diagnosis.
//
// When a model gives wrong logits, the first part whose values differ from the reference is where
// to look. The probe is called on the engine thread between two phases, with all rows of the step
// (in the last layer, after attention, only the rows that want logits).
#pragma once

#include <functional>
#include <string_view>

namespace turnstile::engine {

// Points: "embedding", "attn_norm", "qkv" (after rope), "attended", "attn_residual", "ffn_norm",
// "layer_out", "output_norm". `layer` is 0 for the first and last. `values` is (rows, cols).
using LadderProbe = std::function<void(std::string_view point, int layer, const float* values,
                                       int rows, int cols)>;

}  // namespace turnstile::engine
