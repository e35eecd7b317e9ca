// random_llama.h: small `llama` files of any shape and weight type, from a seed.
//
// Matrices have a standard deviation near 1/sqrt(inputs), norms are near 1, so activations keep
// their size through the layers and logits are neither flat nor extreme.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loader/gguf_types.h"
#include "tests/support/gguf_image.h"

namespace turnstile::tests {

struct LlamaShape {
  int layers = 2;
  int hidden = 64;
  int q_heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int feed_forward = 96;
  int vocab = 160;
  int context = 512;
  int rotary_dim = 16;
  bool tied = true;
  bool rope_factors = false;
  // Matrix number i of the file has type types[i % size].
  std::vector<engine::GgufType> types = {engine::GgufType::Q4_1};
};

// Shapes that meet every special case of the layer: mixed weight types; heads that are no whole
// panels and an untied head; widths that are no multiple of 32 and one key head for all; K types;
// the other types, and widths that no large tile divides.
std::vector<LlamaShape> special_shapes();

// One for each head size that is promised: 64, 80, 96, 128, 256.
std::vector<LlamaShape> head_size_shapes();

GgufImage random_llama(const LlamaShape& shape, std::uint32_t seed);

}  // namespace turnstile::tests
