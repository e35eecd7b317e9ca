#include "engine/model/llama_config.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::engine {

namespace {

template <typename T>
using Result = tl::expected<T, LoadError>;

tl::unexpected<LoadError> wrong_key(std::string_view key, std::string what) {
  return tl::unexpected(LoadError{"key " + std::string(key), std::move(what)});
}

Result<int> bounded(std::string_view key, std::uint64_t value, std::uint64_t max) {
  if (value < 1 || value > max) {
    return wrong_key(key, "is " + std::to_string(value) + "; it must be 1 to " +
                              std::to_string(max));
  }
  return static_cast<int>(value);
}

Result<int> required_count(const GgufFile& file, std::string_view key, std::uint64_t max) {
  const auto value = file.require_uint(key);
  if (!value) return tl::unexpected(value.error());
  return bounded(key, *value, max);
}

Result<int> optional_count(const GgufFile& file, std::string_view key, std::uint64_t max,
                           int absent) {
  if (!file.has_key(key)) return absent;
  return required_count(file, key, max);
}

// Reads the named number into `out` and remembers the first error, so that the list of keys below
// reads as a list.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  void required(int& out, std::string_view key, std::uint64_t max) {
    if (!error_) take(out, required_count(file_, key, max));
  }
  void optional(int& out, std::string_view key, std::uint64_t max, int absent) {
    if (!error_) take(out, optional_count(file_, key, max, absent));
  }
  const std::optional<LoadError>& error() const { return error_; }

 private:
  void take(int& out, Result<int> value) {
    if (value) {
      out = *value;
    } else {
      error_ = value.error();
    }
  }

  const GgufFile& file_;
  std::optional<LoadError> error_;
};

// Numbers that, when they are present and not zero, change the computation.
Result<void> refuse_other_mathematics(const GgufFile& file) {
  constexpr std::string_view kUnsupported[] = {
      "llama.expert_count",
      "llama.expert_used_count",
      "llama.attention.sliding_window",
      "llama.attention.scale",
      "llama.attention.max_alibi_bias",
      "llama.attention.clamp_kqv",
      "llama.embedding_scale",
      "llama.residual_scale",
      "llama.logit_scale",
      "llama.final_logit_softcapping",
      "llama.attn_logit_softcapping",
  };
  for (const std::string_view key : kUnsupported) {
    if (!file.has_key(key)) continue;
    const bool zero = file.get_uint(key) == std::uint64_t{0} || file.get_float(key) == 0.0;
    if (!zero) return wrong_key(key, "asks for a variant of the llama model that is not supported");
  }
  return {};
}

Result<void> check_heads(const GgufFile& file, LlamaConfig& config) {
  if (config.q_heads % config.kv_heads != 0) {
    return wrong_key("llama.attention.head_count_kv",
                     "is " + std::to_string(config.kv_heads) + ", which does not divide the " +
                         std::to_string(config.q_heads) + " heads of llama.attention.head_count");
  }
  if (!file.has_key("llama.attention.key_length")) {
    if (config.hidden % config.q_heads != 0) {
      return wrong_key("llama.attention.head_count",
                       "is " + std::to_string(config.q_heads) +
                           ", which does not divide llama.embedding_length " +
                           std::to_string(config.hidden) +
                           ", and llama.attention.key_length is absent");
    }
    config.head_dim = config.hidden / config.q_heads;
  }
  if (config.head_dim % 8 != 0 || config.head_dim > static_cast<int>(LlamaLimits::kMaxHeadDim)) {
    return wrong_key(file.has_key("llama.attention.key_length") ? "llama.attention.key_length"
                                                                : "llama.attention.head_count",
                     "gives heads of " + std::to_string(config.head_dim) +
                         " values; supported are multiples of 8 up to " +
                         std::to_string(LlamaLimits::kMaxHeadDim));
  }
  if (config.q_width() > static_cast<int>(LlamaLimits::kMaxWidth)) {
    return wrong_key("llama.attention.head_count",
                     "gives " + std::to_string(config.q_heads) + " heads of " +
                         std::to_string(config.head_dim) + " values; together they may have " +
                         std::to_string(LlamaLimits::kMaxWidth));
  }
  int value_dim = 0;
  Reader reader(file);
  reader.optional(value_dim, "llama.attention.value_length", LlamaLimits::kMaxHeadDim,
                  config.head_dim);
  if (reader.error()) return tl::unexpected(*reader.error());
  if (value_dim != config.head_dim) {
    return wrong_key("llama.attention.value_length",
                     "is " + std::to_string(value_dim) + " but keys have " +
                         std::to_string(config.head_dim) + " values; they must be equal");
  }
  return {};
}

struct Range {
  double least;
  double most;
};
// Outside of them a quotient or a power of these numbers may be infinite, and every logit with it.
constexpr Range kNormEpsilon{1e-12, 1.0};
constexpr Range kRopeBase{1.0, 1e12};
constexpr Range kPositionScale{1e-6, 1e6};

std::string short_text(double value) {
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%g", value);
  return digits.data();
}

Result<double> float_within(const GgufFile& file, std::string_view key, Range range) {
  const auto value = file.require_float(key);
  if (!value) return tl::unexpected(value.error());
  if (!(*value >= range.least && *value <= range.most)) {  // what is not a number is in no range
    return wrong_key(key, "is " + short_text(*value) + "; it must be " + short_text(range.least) +
                              " to " + short_text(range.most));
  }
  return *value;
}

Result<double> read_position_scale(const GgufFile& file) {
  constexpr std::string_view kType = "llama.rope.scaling.type";
  constexpr std::string_view kFactor = "llama.rope.scaling.factor";
  if (file.has_key("llama.rope.scale_linear")) {
    return float_within(file, "llama.rope.scale_linear", kPositionScale);
  }
  if (!file.has_key(kType)) {
    if (file.has_key(kFactor)) {
      return wrong_key(kFactor, "is set without llama.rope.scaling.type");
    }
    return 1.0;
  }
  const auto type = file.require_string(kType);
  if (!type) return tl::unexpected(type.error());
  if (*type == "none") return 1.0;
  if (*type == "linear") return float_within(file, kFactor, kPositionScale);
  return wrong_key(kType, "is " + printable_text(*type) +
                              "; supported are 'none', 'linear' and the tensor rope_freqs.weight");
}

Result<void> read_rope(const GgufFile& file, LlamaConfig& config) {
  Reader reader(file);
  reader.optional(config.rotary_dim, "llama.rope.dimension_count", LlamaLimits::kMaxHeadDim,
                  config.head_dim);
  if (reader.error()) return tl::unexpected(*reader.error());
  if (config.rotary_dim % 2 != 0 || config.rotary_dim > config.head_dim) {
    return wrong_key("llama.rope.dimension_count",
                     "is " + std::to_string(config.rotary_dim) +
                         "; it must be even and at most the head size " +
                         std::to_string(config.head_dim));
  }
  config.rope_base = 10'000.0;
  if (file.has_key("llama.rope.freq_base")) {
    const auto base = float_within(file, "llama.rope.freq_base", kRopeBase);
    if (!base) return tl::unexpected(base.error());
    config.rope_base = *base;
  }
  const auto scale = read_position_scale(file);
  if (!scale) return tl::unexpected(scale.error());
  config.rope_position_scale = *scale;
  return {};
}

Result<void> read_vocabulary(const GgufFile& file, LlamaConfig& config) {
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return tl::unexpected(LoadError{"tensor token_embd.weight",
                                    embedding == nullptr ? "is missing"
                                                         : "must have two dimensions"});
  }
  const std::uint64_t rows = embedding->shape[1];
  if (rows > LlamaLimits::kMaxVocabulary) {
    return tl::unexpected(LoadError{"tensor token_embd.weight",
                                    "has " + std::to_string(rows) + " rows; at most " +
                                        std::to_string(LlamaLimits::kMaxVocabulary) +
                                        " tokens are supported"});
  }
  config.vocab = static_cast<int>(rows);

  int stated = 0;
  Reader reader(file);
  reader.optional(stated, "llama.vocab_size", LlamaLimits::kMaxVocabulary, config.vocab);
  if (reader.error()) return tl::unexpected(*reader.error());
  if (stated != config.vocab) {
    return wrong_key("llama.vocab_size", "is " + std::to_string(stated) +
                                             " but token_embd.weight has " +
                                             std::to_string(config.vocab) + " rows");
  }
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (tokens && tokens->size() != rows) {
    return wrong_key("tokenizer.ggml.tokens", "has " + std::to_string(tokens->size()) +
                                                  " entries but token_embd.weight has " +
                                                  std::to_string(config.vocab) + " rows");
  }
  return {};
}

}  // namespace

tl::expected<void, LoadError> check_llama_architecture(const GgufFile& file) {
  const auto architecture = file.require_string("general.architecture");
  if (!architecture) return tl::unexpected(architecture.error());
  if (*architecture != "llama") {
    return wrong_key("general.architecture", "is " + printable_text(*architecture) +
                                                 "; this build runs 'llama' only");
  }
  return {};
}

tl::expected<LlamaConfig, LoadError> read_llama_config(const GgufFile& file) {
  if (const auto ok = check_llama_architecture(file); !ok) return tl::unexpected(ok.error());
  if (const auto ok = refuse_other_mathematics(file); !ok) return tl::unexpected(ok.error());

  LlamaConfig config;
  Reader reader(file);
  reader.required(config.layers, "llama.block_count", LlamaLimits::kMaxLayers);
  reader.required(config.context, "llama.context_length", LlamaLimits::kMaxContext);
  reader.required(config.hidden, "llama.embedding_length", LlamaLimits::kMaxWidth);
  reader.required(config.feed_forward, "llama.feed_forward_length", LlamaLimits::kMaxWidth);
  reader.required(config.q_heads, "llama.attention.head_count", LlamaLimits::kMaxHeads);
  reader.optional(config.kv_heads, "llama.attention.head_count_kv", LlamaLimits::kMaxHeads,
                  config.q_heads);
  reader.optional(config.head_dim, "llama.attention.key_length", LlamaLimits::kMaxHeadDim, 0);
  if (reader.error()) return tl::unexpected(*reader.error());

  if (const auto ok = check_heads(file, config); !ok) return tl::unexpected(ok.error());
  const auto epsilon = float_within(file, "llama.attention.layer_norm_rms_epsilon", kNormEpsilon);
  if (!epsilon) return tl::unexpected(epsilon.error());
  config.norm_epsilon = static_cast<float>(*epsilon);
  if (const auto ok = read_rope(file, config); !ok) return tl::unexpected(ok.error());
  if (const auto ok = read_vocabulary(file, config); !ok) return tl::unexpected(ok.error());
  return config;
}

}  // namespace turnstile::engine
