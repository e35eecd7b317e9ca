// kernel_choice.h: what the settings `kernels` and `numerics` come to on this machine.
//
//   kernels    "auto": the best level that the CPU has; or the name of a lower one
//   numerics   "exact"  one order of reduction for every row: the logits of a request are the same
//                       bits alone, among others, with or without prefix cache, for any chunks
//              "fast"   chunks of prompts of kLongSliceRows tokens and more are multiplied as bf16
//                       on AMX tiles. All else is as in exact, generated tokens and their guesses
//                       too. The logits then depend on how a prompt was cut, on a prefix that
//                       another request left in the cache, and on a pause (engine/model/model.h).
//                       Without such tiles, or with `kernels` set below "amx", it is exact.
//
// Thread: any. Errors: LoadError that names the setting.
// Tests:  tests/engine/llama_fast_test.cpp.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "kernels/kernel_table.h"

namespace turnstile::engine {

struct KernelChoice {
  kernels::Level level = kernels::Level::Scalar;
  const kernels::KernelTable* long_slice_table = nullptr;  // null: exact
  std::string instruction_set;  // "avx2", ...
  std::string numerics;         // in effect: "exact", or "fast" and what that means
  std::string remark;  // a sentence without a full stop where fast was asked for and is exact
};

tl::expected<KernelChoice, LoadError> choose_kernels(const std::string& kernels,
                                                     const std::string& numerics);

}  // namespace turnstile::engine
