// load_model.h: one call from a model file to everything that serving it needs.
//
// Chooses the best instruction set of this machine unless a setting names a lower one, so that
// callers outside the engine need to know none.
//
// Thread: any; blocks until the weights are packed. Errors: LoadError.
// Tests:  tests/engine/llama_smollm2_test.cpp loads the parts; tests/e2e loads through this.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/weights.h"
#include "engine/model/model.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  // Why chat is not possible although the model is: the file has no template, or one that the
  // interpreter does not take. Empty when chat_template is there.
  std::string no_template_reason;
  std::string instruction_set;  // "avx2", ...
  std::string kv_cache_dtype;   // in effect: "f16" or "int8"
  std::string numerics;         // in effect; this and the remark: kernel_choice.h
  std::string numerics_remark;
  std::size_t weight_bytes = 0;  // in memory
};

struct LoadOptions {
  int threads = 1;        // of the model's worker pool, the engine thread included
  LoadProgress progress;  // may be empty
  // Of another model that outlives this one, instead of threads of its own; may be null.
  kernels::WorkerPool* workers = nullptr;
  // "auto", or "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx": for comparison and diagnosis,
  // and where answers must be the same bits on machines of different levels.
  std::string kernels = "auto";
  std::string numerics = "exact";  // or "fast" (kernel_choice.h)
  std::string kv_cache_dtype = "auto";  // or "f16", "int8" (kv_cache_dtype.h)
  // That may be taken; weights that need more are refused before any is. Absent: not known.
  std::optional<std::size_t> memory_bytes;
};

tl::expected<LoadedModel, LoadError> load_model(const std::string& path,
                                                const LoadOptions& options);

}  // namespace turnstile::engine
