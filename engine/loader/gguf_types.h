// gguf_types.h: the numbers that name value types and tensor types in a GGUF file.
//
// Tensor types are stored in blocks: `elements` values share `bytes` bytes. The table knows every
// type of the format, so that sizes can be checked; what the engine can compute with is the
// business of the weight loader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace turnstile::engine {

enum class GgufType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q8_1 = 9,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  Q8_K = 15,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
};

struct GgufTypeInfo {
  GgufType type;
  std::string_view name;
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};

// nullopt for a number that the format does not use (any more).
std::optional<GgufTypeInfo> find_gguf_type(std::uint32_t type);

enum class GgufValueType : std::uint32_t {
  Uint8 = 0,
  Int8 = 1,
  Uint16 = 2,
  Int16 = 3,
  Uint32 = 4,
  Int32 = 5,
  Float32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  Uint64 = 10,
  Int64 = 11,
  Float64 = 12,
};

// Bytes of a scalar, nullopt for String, Array and numbers that the format does not use.
std::optional<std::uint32_t> scalar_value_bytes(std::uint32_t type);

// "uint32", "string", ...
std::string_view value_type_name(GgufValueType type);

}  // namespace turnstile::engine
