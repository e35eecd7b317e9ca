// Every hyperparameter, wrong in each way a file can have it wrong: the error names the key.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/loader/load_model.h"
#include "engine/model/llama_config.h"
#include "tests/support/random_llama.h"
#include "tests/support/temp_folder.h"

namespace turnstile {
namespace {

using tests::GgufImage;

tl::expected<engine::LlamaConfig, engine::LoadError> read(const GgufImage& image) {
  const std::vector<std::byte> bytes = image.serialize();
  const auto file = engine::GgufFile::parse(bytes);
  EXPECT_TRUE(file) << file.error().where << ": " << file.error().what;
  return engine::read_llama_config(*file);
}

TEST(LlamaConfig, ReadsEveryKey) {
  tests::LlamaShape shape;
  shape.layers = 3;
  shape.hidden = 96;
  shape.q_heads = 8;
  shape.kv_heads = 4;
  shape.head_dim = 24;
  shape.rotary_dim = 16;
  shape.feed_forward = 128;
  shape.vocab = 200;
  shape.context = 300;
  GgufImage image = tests::random_llama(shape, 1);
  image.set("llama.rope.freq_base", 50'000.0F);
  image.set("llama.rope.scaling.type", std::string("linear"));
  image.set("llama.rope.scaling.factor", 4.0F);
  image.set("llama.attention.layer_norm_rms_epsilon", 0.25F);
  const auto config = read(image);
  ASSERT_TRUE(config) << config.error().where << ": " << config.error().what;
  const engine::LlamaConfig expected{.layers = 3,
                                     .hidden = 96,
                                     .q_heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 24,
                                     .feed_forward = 128,
                                     .vocab = 200,
                                     .context = 300,
                                     .rotary_dim = 16,
                                     .norm_epsilon = 0.25F,
                                     .rope_base = 50'000.0,
                                     .rope_position_scale = 4.0};
  EXPECT_EQ(*config, expected);
  EXPECT_EQ(config->q_width(), 192);
  EXPECT_EQ(config->kv_width(), 96);
}

TEST(LlamaConfig, AbsentKeysHaveTheFormatsDefaults) {
  tests::LlamaShape shape;
  shape.kv_heads = 4;
  GgufImage image = tests::random_llama(shape, 1);
  for (const char* key :
       {"llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.value_length", "llama.rope.dimension_count", "llama.rope.freq_base",
        "llama.vocab_size"}) {
    image.erase(key);
  }
  const auto config = read(image);
  ASSERT_TRUE(config) << config.error().where << ": " << config.error().what;
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rotary_dim, 16);
  EXPECT_EQ(config->rope_base, 10'000.0);
  EXPECT_EQ(config->vocab, 160);
  EXPECT_EQ(config->rope_position_scale, 1.0);
}

TEST(LlamaConfig, RequiredKeysAreRequired) {
  for (const char* key : {"general.architecture", "llama.block_count", "llama.context_length",
                          "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    GgufImage image = tests::random_llama({}, 1);
    image.erase(key);
    const auto config = read(image);
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().where, std::string("key ") + key);
  }
}

TEST(LlamaConfig, CountsAreBoundedAndTyped) {
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
        "llama.attention.key_length", "llama.attention.value_length",
        "llama.rope.dimension_count", "llama.vocab_size"}) {
    const std::vector<tests::GgufKeyValue> wrong = {
        std::uint32_t{0}, std::numeric_limits<std::uint32_t>::max(), std::int32_t{-1}, 2.0F, true,
        std::string("2"), std::vector<std::string>{"2"}};
    for (const tests::GgufKeyValue& value : wrong) {
      GgufImage image = tests::random_llama({}, 1);
      image.set(key, value);
      const auto config = read(image);
      ASSERT_FALSE(config) << key << ", kind " << value.index();
      EXPECT_EQ(config.error().where, std::string("key ") + key) << "kind " << value.index();
      EXPECT_FALSE(config.error().what.empty());
    }
  }
}

struct WrongCase {
  const char* name;
  std::function<void(GgufImage&)> change;
  const char* where;
  const char* what;  // a part of the sentence
};

TEST(LlamaConfig, ContradictionsAreNamed) {
  const auto set = [](const char* key, tests::GgufKeyValue value) {
    return [key, value](GgufImage& image) { image.set(key, value); };
  };
  const WrongCase cases[] = {
      {"another architecture", set("general.architecture", std::string("qwen2")),
       "key general.architecture", "\"qwen2\"; this build runs 'llama' only"},
      {"an architecture that a terminal would obey",
       set("general.architecture", std::string("a\x1b[2J\x9b")), "key general.architecture",
       "is \"a\\x1b[2J\\x9b\"; this build"},
      {"kv heads that do not divide", set("llama.attention.head_count_kv", 3U),
       "key llama.attention.head_count_kv", "does not divide the 4 heads"},
      {"more kv heads than heads", set("llama.attention.head_count_kv", 8U),
       "key llama.attention.head_count_kv", "does not divide"},
      {"heads that do not divide hidden",
       [](GgufImage& image) {
         image.erase("llama.attention.key_length");
         image.set("llama.attention.head_count", 3U);
         image.set("llama.attention.head_count_kv", 3U);
       },
       "key llama.attention.head_count", "does not divide llama.embedding_length 64"},
      {"head size that is no multiple of 8", set("llama.attention.key_length", 20U),
       "key llama.attention.key_length", "multiples of 8"},
      {"value size that differs", set("llama.attention.value_length", 32U),
       "key llama.attention.value_length", "keys have 16 values"},
      {"odd rotary size", set("llama.rope.dimension_count", 15U),
       "key llama.rope.dimension_count", "even"},
      {"rotary size above the head", set("llama.rope.dimension_count", 32U),
       "key llama.rope.dimension_count", "at most the head size 16"},
      {"epsilon zero", set("llama.attention.layer_norm_rms_epsilon", 0.0F),
       "key llama.attention.layer_norm_rms_epsilon", "1e-12 to 1"},
      {"epsilon not a number",
       set("llama.attention.layer_norm_rms_epsilon", std::numeric_limits<float>::quiet_NaN()),
       "key llama.attention.layer_norm_rms_epsilon", "1e-12 to 1"},
      {"negative base", set("llama.rope.freq_base", -1.0F), "key llama.rope.freq_base", "1 to 1e+12"},
      {"infinite base", set("llama.rope.freq_base", std::numeric_limits<float>::infinity()),
       "key llama.rope.freq_base", "1 to 1e+12"},
      {"a base whose powers are infinite", set("llama.rope.freq_base", 1e-30F),
       "key llama.rope.freq_base", "is 1e-30; it must be 1 to 1e+12"},
      {"positions that become infinite", set("llama.rope.scale_linear", 1e-30F),
       "key llama.rope.scale_linear", "1e-06 to 1e+06"},
      {"an epsilon of next to nothing", set("llama.attention.layer_norm_rms_epsilon", 1e-30F),
       "key llama.attention.layer_norm_rms_epsilon", "is 1e-30; it must be 1e-12 to 1"},
      {"wider than any workspace", set("llama.feed_forward_length", 65'537U),
       "key llama.feed_forward_length", "1 to 65536"},
      {"heads that are together wider than any workspace",
       [](GgufImage& image) {
         image.set("llama.attention.head_count", 1'024U);
         image.set("llama.attention.key_length", 72U);
       },
       "key llama.attention.head_count", "1024 heads of 72 values; together they may have 65536"},
      {"unknown scaling", set("llama.rope.scaling.type", std::string("yarn")),
       "key llama.rope.scaling.type", "\"yarn\""},
      {"linear scaling without factor", set("llama.rope.scaling.type", std::string("linear")),
       "key llama.rope.scaling.factor", "missing"},
      {"factor without scaling", set("llama.rope.scaling.factor", 2.0F),
       "key llama.rope.scaling.factor", "without llama.rope.scaling.type"},
      {"experts", set("llama.expert_count", 8U), "key llama.expert_count", "not supported"},
      {"window", set("llama.attention.sliding_window", 4096U),
       "key llama.attention.sliding_window", "not supported"},
      {"another attention scale", set("llama.attention.scale", 0.5F), "key llama.attention.scale",
       "not supported"},
      {"vocabulary that differs from the embedding", set("llama.vocab_size", 161U),
       "key llama.vocab_size", "token_embd.weight has 160 rows"},
      {"tokens that differ from the embedding",
       set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"}),
       "key tokenizer.ggml.tokens", "has 2 entries but token_embd.weight has 160 rows"},
      {"no embedding", [](GgufImage& image) { image.erase_tensor("token_embd.weight"); },
       "tensor token_embd.weight", "missing"},
  };
  for (const WrongCase& wrong : cases) {
    GgufImage image = tests::random_llama({}, 1);
    wrong.change(image);
    const auto config = read(image);
    ASSERT_FALSE(config) << wrong.name;
    EXPECT_EQ(config.error().where, wrong.where) << wrong.name;
    EXPECT_NE(config.error().what.find(wrong.what), std::string::npos)
        << wrong.name << ": " << config.error().what;
  }
}

TEST(LlamaConfig, SwitchesThatAreOffAreNoObjection) {
  GgufImage image = tests::random_llama({}, 1);
  image.set("llama.expert_count", 0U);
  image.set("llama.logit_scale", 0.0F);
  image.set("llama.rope.scaling.type", std::string("none"));
  EXPECT_TRUE(read(image));
}

// Its tokenizer may be of another kind too, which is not what stands in the way.
TEST(LoadModel, AFileOfAnotherArchitectureIsNamed) {
  GgufImage image = tests::random_llama({}, 1);
  image.set("general.architecture", std::string("gemma3"));
  image.set("tokenizer.ggml.model", std::string("llama"));
  const std::vector<std::byte> bytes = image.serialize();
  const gateway::TempFolder folder;
  const std::filesystem::path path = folder.write(
      "model.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto loaded = engine::load_model(path, {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().where, "key general.architecture");
  EXPECT_EQ(loaded.error().what, "is \"gemma3\"; this build runs 'llama' only");
}

}  // namespace
}  // namespace turnstile
