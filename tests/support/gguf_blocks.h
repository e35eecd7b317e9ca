// gguf_blocks.h: writes the weight formats of GGUF files, to nearest levels and without search.
//
// What comes out is a valid tensor near the values; how near does not matter, since tests compare
// the engine with a reference on the same bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/loader/gguf_types.h"

namespace turnstile::tests {

// The formats that encode_rows() writes: all that the engine computes with.
inline constexpr engine::GgufType kWeightFormats[] = {
    engine::GgufType::F32,  engine::GgufType::F16,  engine::GgufType::BF16,
    engine::GgufType::Q8_0, engine::GgufType::Q4_0, engine::GgufType::Q4_1,
    engine::GgufType::Q5_0, engine::GgufType::Q5_1, engine::GgufType::IQ4_NL,
    engine::GgufType::Q2_K, engine::GgufType::Q3_K, engine::GgufType::Q4_K,
    engine::GgufType::Q5_K, engine::GgufType::Q6_K};

// Row-major values as blocks of `type`. values.size() is a whole number of blocks.
std::vector<std::byte> encode_rows(engine::GgufType type, const std::vector<float>& values);

}  // namespace turnstile::tests
