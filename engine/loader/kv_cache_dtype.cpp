#include "engine/loader/kv_cache_dtype.h"

#include <string>

namespace turnstile::engine {

tl::expected<kernels::KvType, LoadError> choose_kv_type(std::string_view setting) {
  if (setting == "auto") return kDefaultKvType;
  for (const kernels::KvType type : kKvTypes) {
    if (setting == kv_cache_dtype_name(type)) return type;
  }
  return tl::unexpected(LoadError{
      "setting kv_cache_dtype",
      "is '" + std::string(setting.substr(0, 64)) + "'; there are auto, f16 and int8"});
}

std::size_t kv_block_bytes(const LlamaConfig& config, kernels::KvType type) {
  kernels::KvLayout layout;
  layout.type = type;
  layout.layers = config.layers;
  layout.kv_heads = config.kv_heads;
  layout.head_dim = config.head_dim;
  return layout.block_bytes();
}

std::string_view kv_cache_dtype_name(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::F16: return "f16";
    case kernels::KvType::F32: return "f32";
    case kernels::KvType::Int8: return "int8";
  }
  return "";
}

}  // namespace turnstile::engine
