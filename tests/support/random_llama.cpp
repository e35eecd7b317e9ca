#include "tests/support/random_llama.h"

#include <cmath>
#include <random>
#include <string>

#include "tests/support/gguf_blocks.h"

namespace turnstile::tests {

namespace {

using engine::GgufType;

class TensorSource {
 public:
  TensorSource(const LlamaShape& shape, std::uint32_t seed, GgufImage& image)
      : shape_(shape), random_(seed), image_(image) {}

  void matrix(const std::string& name, int rows, int cols) {
    // Four uniform numbers added up are close enough to a normal one.
    const float deviation = std::sqrt(3.0F / static_cast<float>(cols));
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    for (float& value : values) {
      value = deviation * 0.5F * (uniform() + uniform() + uniform() + uniform());
    }
    const GgufType type = shape_.types[matrices_++ % shape_.types.size()];
    image_.tensors.push_back({name,
                              type,
                              {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows)},
                              encode_rows(type, values)});
  }

  // Values in centre -+ spread.
  void vector(const std::string& name, int length, float centre, float spread) {
    std::vector<float> values(static_cast<std::size_t>(length));
    for (float& value : values) value = centre + spread * uniform();
    image_.tensors.push_back({name,
                              GgufType::F32,
                              {static_cast<std::uint64_t>(length)},
                              encode_rows(GgufType::F32, values)});
  }

 private:
  float uniform() {  // [-1, 1), the same on every standard library
    return static_cast<float>(random_()) / 2147483648.0F - 1.0F;
  }

  const LlamaShape& shape_;
  std::mt19937 random_;
  GgufImage& image_;
  std::size_t matrices_ = 0;
};

void add_keys(const LlamaShape& shape, GgufImage& image) {
  const auto count = [&](const char* key, int value) {
    image.set(key, static_cast<std::uint32_t>(value));
  };
  image.set("general.architecture", std::string("llama"));
  count("llama.block_count", shape.layers);
  count("llama.context_length", shape.context);
  count("llama.embedding_length", shape.hidden);
  count("llama.feed_forward_length", shape.feed_forward);
  count("llama.attention.head_count", shape.q_heads);
  count("llama.attention.head_count_kv", shape.kv_heads);
  count("llama.attention.key_length", shape.head_dim);
  count("llama.attention.value_length", shape.head_dim);
  count("llama.rope.dimension_count", shape.rotary_dim);
  count("llama.vocab_size", shape.vocab);
  image.set("llama.rope.freq_base", 10'000.0F);
  image.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
}

}  // namespace

std::vector<LlamaShape> special_shapes() {
  LlamaShape mixed;
  mixed.layers = 3;
  mixed.types = {GgufType::Q4_1, GgufType::Q8_0, GgufType::Q4_0, GgufType::F16};

  LlamaShape odd_heads;
  odd_heads.hidden = 96;
  odd_heads.q_heads = 4;
  odd_heads.kv_heads = 4;
  odd_heads.head_dim = 40;
  odd_heads.rotary_dim = 32;
  odd_heads.feed_forward = 224;
  odd_heads.vocab = 155;
  odd_heads.tied = false;
  odd_heads.types = {GgufType::Q8_0, GgufType::Q4_1};

  LlamaShape no_blocks;
  no_blocks.hidden = 56;
  no_blocks.q_heads = 7;
  no_blocks.kv_heads = 1;
  no_blocks.head_dim = 8;
  no_blocks.rotary_dim = 8;
  no_blocks.feed_forward = 72;
  no_blocks.rope_factors = true;
  no_blocks.types = {GgufType::F32, GgufType::F16};

  // K types need widths of 256; every K type, and heads of 128 values.
  LlamaShape k_types;
  k_types.layers = 2;
  k_types.hidden = 256;
  k_types.q_heads = 2;
  k_types.kv_heads = 1;
  k_types.head_dim = 128;
  k_types.rotary_dim = 128;
  k_types.feed_forward = 256;
  k_types.types = {GgufType::Q6_K, GgufType::Q4_K, GgufType::Q5_K, GgufType::Q3_K, GgufType::Q2_K};

  // Widths of 32 that no larger tile divides, and the 32-column types that are not mixed above.
  LlamaShape small_blocks;
  small_blocks.hidden = 160;
  small_blocks.q_heads = 2;
  small_blocks.kv_heads = 2;
  small_blocks.head_dim = 80;
  small_blocks.rotary_dim = 80;
  small_blocks.feed_forward = 288;
  small_blocks.tied = false;
  small_blocks.types = {GgufType::Q5_0, GgufType::IQ4_NL, GgufType::Q5_1, GgufType::BF16};
  return {mixed, odd_heads, no_blocks, k_types, small_blocks};
}

std::vector<LlamaShape> head_size_shapes() {
  std::vector<LlamaShape> shapes;
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    LlamaShape shape;
    shape.hidden = 96;
    shape.q_heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = head_dim;
    shape.rotary_dim = head_dim;
    shape.types = {GgufType::Q8_0};
    shapes.push_back(shape);
  }
  return shapes;
}

GgufImage random_llama(const LlamaShape& shape, std::uint32_t seed) {
  GgufImage image;
  add_keys(shape, image);
  TensorSource source(shape, seed, image);
  const int q_width = shape.q_heads * shape.head_dim;
  const int kv_width = shape.kv_heads * shape.head_dim;
  source.matrix("token_embd.weight", shape.vocab, shape.hidden);
  if (!shape.tied) source.matrix("output.weight", shape.vocab, shape.hidden);
  if (shape.rope_factors) source.vector("rope_freqs.weight", shape.rotary_dim / 2, 4.0F, 3.0F);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    source.vector(prefix + "attn_norm.weight", shape.hidden, 1.0F, 0.3F);
    source.matrix(prefix + "attn_q.weight", q_width, shape.hidden);
    source.matrix(prefix + "attn_k.weight", kv_width, shape.hidden);
    source.matrix(prefix + "attn_v.weight", kv_width, shape.hidden);
    source.matrix(prefix + "attn_output.weight", shape.hidden, q_width);
    source.vector(prefix + "ffn_norm.weight", shape.hidden, 1.0F, 0.3F);
    source.matrix(prefix + "ffn_gate.weight", shape.feed_forward, shape.hidden);
    source.matrix(prefix + "ffn_up.weight", shape.feed_forward, shape.hidden);
    source.matrix(prefix + "ffn_down.weight", shape.hidden, shape.feed_forward);
  }
  source.vector("output_norm.weight", shape.hidden, 1.0F, 0.3F);
  return image;
}

}  // namespace turnstile::tests
