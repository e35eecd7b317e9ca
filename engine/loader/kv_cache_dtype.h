// kv_cache_dtype.h: the setting `kv_cache_dtype` and the cache that it stands for.
//
//   auto    what kDefaultKvType is
//   f16     halves
//   int8    bytes with a scale for each head of a position (kernels/kv_block.h)
//
// Thread: any; pure. Tests: tests/engine/kv_pool_size_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/model/llama_config.h"
#include "kernels/kv_block.h"

namespace turnstile::engine {

inline constexpr std::array kKvTypes{kernels::KvType::F16, kernels::KvType::Int8};
// Int8 passes its gate (tests/engine/kv_accuracy_test.cpp), but beside quantised activations it
// exceeds what the golden texts allow (ARCHITECTURE.md).
inline constexpr kernels::KvType kDefaultKvType = kernels::KvType::F16;
inline constexpr std::size_t kPositionsOfKvBlock = kernels::kKvBlockTokens;

tl::expected<kernels::KvType, LoadError> choose_kv_type(std::string_view setting);
std::string_view kv_cache_dtype_name(kernels::KvType type);

// Of one block, all layers.
std::size_t kv_block_bytes(const LlamaConfig& config, kernels::KvType type);

}  // namespace turnstile::engine
