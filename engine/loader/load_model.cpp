#include "engine/loader/load_model.h"

#include <utility>

#include "engine/loader/gguf.h"
#include "engine/loader/kernel_choice.h"
#include "engine/loader/kv_cache_dtype.h"
#include "engine/model/llama.h"
#include "kernels/kernel_table.h"

namespace turnstile::engine {
namespace {

std::string text_of(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.token_bytes(*token)) : std::string();
}

void load_template(const GgufFile& file, LoadedModel& loaded) {
  const auto source = file.get_string("tokenizer.chat_template");
  if (!source) {
    loaded.no_template_reason = "the file has no tokenizer.chat_template";
    return;
  }
  const Tokenizer& tokenizer = *loaded.tokenizer;
  auto compiled = ChatTemplate::compile(*source, text_of(tokenizer, tokenizer.bos()),
                                        text_of(tokenizer, tokenizer.eos()));
  if (compiled) {
    loaded.chat_template.emplace(std::move(*compiled));
  } else {
    loaded.no_template_reason = "tokenizer.chat_template, line " +
                                std::to_string(compiled.error().line) + ": " +
                                compiled.error().message;
  }
}

}  // namespace

tl::expected<LoadedModel, LoadError> load_model(const std::string& path,
                                                const LoadOptions& options) {
  const auto choice = choose_kernels(options.kernels, options.numerics);
  if (!choice) return tl::unexpected(choice.error());
  const auto kv_type = choose_kv_type(options.kv_cache_dtype);
  if (!kv_type) return tl::unexpected(kv_type.error());
  auto file = GgufFile::open(path);
  if (!file) return tl::unexpected(std::move(file.error()));
  // Before the tokenizer, which may be of a kind that another architecture has.
  if (const auto ok = check_llama_architecture(*file); !ok) return tl::unexpected(ok.error());
  LoadedModel loaded;
  auto tokenizer = Tokenizer::from_gguf(*file);
  if (!tokenizer) return tl::unexpected(std::move(tokenizer.error()));
  loaded.tokenizer = std::make_shared<const Tokenizer>(std::move(*tokenizer));
  load_template(*file, loaded);

  loaded.instruction_set = choice->instruction_set;
  loaded.kv_cache_dtype = kv_cache_dtype_name(*kv_type);
  loaded.numerics = choice->numerics;
  loaded.numerics_remark = choice->remark;
  auto model = LlamaModel::load(*file, {.level = choice->level,
                                        .numerics = kernels::Numerics::Int8,
                                        .kv_type = *kv_type,
                                        .long_slice_table = choice->long_slice_table,
                                        .threads = options.threads,
                                        .workers = options.workers,
                                        .progress = options.progress,
                                        .memory_bytes = options.memory_bytes});
  if (!model) return tl::unexpected(std::move(model.error()));
  loaded.weight_bytes = (*model)->weight_bytes();
  loaded.model = std::move(*model);
  return loaded;
}

}  // namespace turnstile::engine
