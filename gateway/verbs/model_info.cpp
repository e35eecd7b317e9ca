// turnstile model info FILE [--draft-model FILE]
#include <algorithm>
#include <iomanip>
#include <map>
#include <optional>
#include <ostream>

#include "engine/limits.h"
#include "engine/loader/gguf.h"
#include "engine/loader/kernel_choice.h"
#include "engine/loader/kv_cache_dtype.h"
#include "engine/loader/same_vocabulary.h"
#include "engine/memory_text.h"
#include "engine/model/llama_config.h"
#include "engine/model/llama_weights.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/config/config.h"
#include "gateway/memory_left.h"
#include "gateway/served_model.h"
#include "gateway/vanishing_file.h"
#include "gateway/verbs/run.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

void row(std::ostream& out, std::string_view name, std::string_view value) {
  out << std::left << std::setw(22) << name << value << '\n';
}

std::string mib(double bytes) {
  const auto tenths = static_cast<std::uint64_t>(bytes / kMebibyte * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

struct TypeCount {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

void print_tensors(const engine::GgufFile& file, std::ostream& out) {
  std::map<std::string_view, TypeCount> types;
  std::uint64_t parameters = 0;
  for (const engine::GgufTensor& tensor : file.tensors()) {
    const auto info = engine::find_gguf_type(tensor.type);
    TypeCount& count = types[info ? info->name : "?"];
    ++count.tensors;
    count.bytes += tensor.data.size();
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : tensor.shape) elements *= dimension;
    parameters += elements;
  }
  row(out, "parameters", std::to_string(parameters));
  for (const auto& [name, count] : types) {
    row(out, "tensors", std::string(name) + " x " + std::to_string(count.tensors) + ", " +
                            mib(static_cast<double>(count.bytes)));
  }
}

using LoadedTokenizer = tl::expected<engine::Tokenizer, engine::LoadError>;

std::string sentence(const engine::LoadError& error) { return error.where + ": " + error.what; }

void print_tokenizer(const engine::GgufFile& file, const LoadedTokenizer& tokenizer,
                     std::ostream& out) {
  if (!tokenizer) return row(out, "tokenizer", "not usable: " + sentence(tokenizer.error()));
  row(out, "tokenizer", std::to_string(tokenizer->vocab_size()) + " tokens, pre-tokenizer " +
                            std::string(tokenizer->pre_tokenizer_name()));
  const auto chat_template = file.get_string("tokenizer.chat_template");
  row(out, "chat template",
      chat_template ? std::to_string(chat_template->size()) + " bytes" : std::string("none"));
}

// How many sequences of a length the cache holds at a time that a server on this machine would
// choose now.
std::string sequences_that_fit(const engine::LlamaConfig& config, std::size_t block_bytes,
                               std::optional<std::size_t> left_bytes) {
  const auto limits = engine_limits(ModelConfig{}, block_bytes,
                                    static_cast<std::size_t>(config.context), left_bytes);
  if (!limits) return "none: " + limits.error();
  const std::uint64_t positions = limits->kv_cache_blocks * engine::kPositionsOfKvBlock;
  const auto context = static_cast<std::uint64_t>(config.context);
  std::string text;
  const auto add = [&](std::uint64_t length) {
    text += std::to_string(positions / length) + " of " + std::to_string(length) + " tokens, ";
  };
  for (std::uint64_t length = 256; length < context && length <= positions; length *= 4) {
    add(length);
  }
  if (context <= positions) add(context);
  return text + "in " + engine::memory_text(limits->kv_cache_blocks * block_bytes);
}

// What a file needs in memory, or why it cannot be served.
struct Served {
  tl::expected<engine::LlamaConfig, engine::LoadError> config;
  tl::expected<std::size_t, engine::LoadError> weight_bytes;
};

Served look_at(const engine::GgufFile& file) {
  auto config = engine::read_llama_config(file);
  if (!config) return {config, tl::unexpected(config.error())};
  auto weight_bytes = engine::LlamaWeights::needed_bytes(file, *config);
  return {std::move(config), std::move(weight_bytes)};
}

void print_weights(std::string_view name, std::size_t bytes, std::ostream& out) {
  row(out, name, mib(static_cast<double>(bytes)) + " in memory");
}

// What serving needs, for both types of cache.
void print_memory(const engine::LlamaConfig& config, std::size_t weight_bytes, std::ostream& out) {
  print_weights("weights", weight_bytes, out);
  const std::optional<std::size_t> memory = memory_left_bytes();
  row(out, "memory left", memory ? engine::memory_text(*memory) : std::string("not known"));
  const auto left =
      memory ? std::optional(*memory - std::min<std::size_t>(*memory, weight_bytes)) : std::nullopt;
  for (const auto type : engine::kKvTypes) {
    const std::size_t block_bytes = engine::kv_block_bytes(config, type);
    const bool is_default = type == engine::kDefaultKvType;
    const auto context = static_cast<std::size_t>(config.context);
    const std::size_t context_blocks =
        (context + engine::kPositionsOfKvBlock - 1) / engine::kPositionsOfKvBlock;
    row(out, "KV cache " + std::string(engine::kv_cache_dtype_name(type)),
        std::to_string(block_bytes / engine::kPositionsOfKvBlock) + " bytes a token, " +
            engine::memory_text(block_bytes * context_blocks) + " for one full context" +
            (is_default ? "; the default" : ""));
    row(out, "sequences that fit", sequences_that_fit(config, block_bytes, left));
  }
}

// What a draft model needs beside all that, and whether it can be one.
ExitCode print_draft(const std::string& path, const LoadedTokenizer& tokenizer,
                     Surroundings around) {
  const VanishingFile watched(path);
  const auto file = engine::GgufFile::open(path);
  if (!file) {
    around.err << policy::plain_text(path) << ": " << sentence(file.error()) << '\n';
    return ExitCode::Environment;
  }
  row(around.out, "draft model", policy::plain_text(path));
  const auto [config, weight_bytes] = look_at(*file);
  const LoadedTokenizer draft = engine::Tokenizer::from_gguf(*file);
  std::string answer = "yes";
  if (weight_bytes) {
    print_weights("draft weights", *weight_bytes, around.out);
    const double position_bytes = 2.0 * 2.0 * config->layers * config->kv_width();
    row(around.out, "draft KV cache",
        std::to_string(static_cast<std::uint64_t>(position_bytes)) + " bytes a token, for one in " +
            std::to_string(engine::kBlocksPerDraftBlock) + " of the model's, in the same memory");
    if (draft && tokenizer) {
      const auto difference = engine::find_vocabulary_difference(*tokenizer, *draft);
      if (difference) answer = "no: it " + *difference;
    }
  } else {
    answer = "no: " + sentence(weight_bytes.error());
  }
  if (!draft) answer = "no: " + sentence(draft.error());
  row(around.out, "can draft", answer);
  return ExitCode::Done;
}

// What a server on this machine would compute with, for both values of `numerics`.
void print_kernels(std::ostream& out) {
  const auto choice = engine::choose_kernels("auto", "fast");
  if (!choice) return;
  row(out, "kernels", choice->instruction_set);
  row(out, "numerics", choice->remark.empty() ? "exact; or " + choice->numerics
                                              : "exact; " + choice->remark);
}

}  // namespace

ExitCode run(const ModelInfoOptions& options, Surroundings around) {
  const VanishingFile watched(options.file);
  const auto file = engine::GgufFile::open(options.file.string());
  if (!file) {
    around.err << policy::plain_text(options.file.string()) << ": " << file.error().where << ": "
               << file.error().what << '\n';
    return ExitCode::Environment;
  }
  std::ostream& out = around.out;
  row(out, "file", policy::plain_text(options.file.string()));
  row(out, "format", "GGUF " + std::to_string(file->version()) + ", " +
                         mib(static_cast<double>(file->file_bytes())));
  const auto name = file->get_string("general.name");
  if (name) row(out, "name", engine::printable_text(*name));
  const auto architecture = file->get_string("general.architecture");
  row(out, "architecture",
      architecture ? engine::printable_text(*architecture) : std::string("not stated"));
  const auto [config, weight_bytes] = look_at(*file);
  if (config) {
    row(out, "context", std::to_string(config->context) + " tokens");
    row(out, "layers", std::to_string(config->layers) + ", hidden " +
                           std::to_string(config->hidden) + ", heads " +
                           std::to_string(config->q_heads) + " / " +
                           std::to_string(config->kv_heads) + " x " +
                           std::to_string(config->head_dim));
  }
  print_tensors(*file, out);
  const LoadedTokenizer tokenizer = engine::Tokenizer::from_gguf(*file);
  print_tokenizer(*file, tokenizer, out);
  if (weight_bytes) print_memory(*config, *weight_bytes, out);
  print_kernels(out);
  std::string answer = "yes";
  if (!tokenizer) answer = "no: " + sentence(tokenizer.error());
  if (!weight_bytes) answer = "no: " + sentence(weight_bytes.error());
  row(out, "served by this build", answer);
  if (options.draft_model.empty()) return ExitCode::Done;
  return print_draft(options.draft_model.string(), tokenizer, around);
}

}  // namespace turnstile::gateway
