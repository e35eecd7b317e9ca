#include "engine/loader/gguf_types.h"

#include <array>

namespace turnstile::engine {
namespace {

constexpr std::array kTypes = {
    GgufTypeInfo{GgufType::F32, "F32", 1, 4},
    GgufTypeInfo{GgufType::F16, "F16", 1, 2},
    GgufTypeInfo{GgufType::Q4_0, "Q4_0", 32, 18},
    GgufTypeInfo{GgufType::Q4_1, "Q4_1", 32, 20},
    GgufTypeInfo{GgufType::Q5_0, "Q5_0", 32, 22},
    GgufTypeInfo{GgufType::Q5_1, "Q5_1", 32, 24},
    GgufTypeInfo{GgufType::Q8_0, "Q8_0", 32, 34},
    GgufTypeInfo{GgufType::Q8_1, "Q8_1", 32, 36},
    GgufTypeInfo{GgufType::Q2_K, "Q2_K", 256, 84},
    GgufTypeInfo{GgufType::Q3_K, "Q3_K", 256, 110},
    GgufTypeInfo{GgufType::Q4_K, "Q4_K", 256, 144},
    GgufTypeInfo{GgufType::Q5_K, "Q5_K", 256, 176},
    GgufTypeInfo{GgufType::Q6_K, "Q6_K", 256, 210},
    GgufTypeInfo{GgufType::Q8_K, "Q8_K", 256, 292},
    GgufTypeInfo{GgufType::IQ2_XXS, "IQ2_XXS", 256, 66},
    GgufTypeInfo{GgufType::IQ2_XS, "IQ2_XS", 256, 74},
    GgufTypeInfo{GgufType::IQ3_XXS, "IQ3_XXS", 256, 98},
    GgufTypeInfo{GgufType::IQ1_S, "IQ1_S", 256, 50},
    GgufTypeInfo{GgufType::IQ4_NL, "IQ4_NL", 32, 18},
    GgufTypeInfo{GgufType::IQ3_S, "IQ3_S", 256, 110},
    GgufTypeInfo{GgufType::IQ2_S, "IQ2_S", 256, 82},
    GgufTypeInfo{GgufType::IQ4_XS, "IQ4_XS", 256, 136},
    GgufTypeInfo{GgufType::I8, "I8", 1, 1},
    GgufTypeInfo{GgufType::I16, "I16", 1, 2},
    GgufTypeInfo{GgufType::I32, "I32", 1, 4},
    GgufTypeInfo{GgufType::I64, "I64", 1, 8},
    GgufTypeInfo{GgufType::F64, "F64", 1, 8},
    GgufTypeInfo{GgufType::IQ1_M, "IQ1_M", 256, 56},
    GgufTypeInfo{GgufType::BF16, "BF16", 1, 2},
    GgufTypeInfo{GgufType::TQ1_0, "TQ1_0", 256, 54},
    GgufTypeInfo{GgufType::TQ2_0, "TQ2_0", 256, 66},
    GgufTypeInfo{GgufType::MXFP4, "MXFP4", 32, 17},
};

}  // namespace

std::optional<GgufTypeInfo> find_gguf_type(std::uint32_t type) {
  for (const GgufTypeInfo& info : kTypes) {
    if (static_cast<std::uint32_t>(info.type) == type) return info;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> scalar_value_bytes(std::uint32_t type) {
  switch (static_cast<GgufValueType>(type)) {
    case GgufValueType::Uint8:
    case GgufValueType::Int8:
    case GgufValueType::Bool:
      return 1;
    case GgufValueType::Uint16:
    case GgufValueType::Int16:
      return 2;
    case GgufValueType::Uint32:
    case GgufValueType::Int32:
    case GgufValueType::Float32:
      return 4;
    case GgufValueType::Uint64:
    case GgufValueType::Int64:
    case GgufValueType::Float64:
      return 8;
    case GgufValueType::String:
    case GgufValueType::Array:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view value_type_name(GgufValueType type) {
  switch (type) {
    case GgufValueType::Uint8:
      return "uint8";
    case GgufValueType::Int8:
      return "int8";
    case GgufValueType::Uint16:
      return "uint16";
    case GgufValueType::Int16:
      return "int16";
    case GgufValueType::Uint32:
      return "uint32";
    case GgufValueType::Int32:
      return "int32";
    case GgufValueType::Float32:
      return "float32";
    case GgufValueType::Bool:
      return "bool";
    case GgufValueType::String:
      return "string";
    case GgufValueType::Array:
      return "array";
    case GgufValueType::Uint64:
      return "uint64";
    case GgufValueType::Int64:
      return "int64";
    case GgufValueType::Float64:
      return "float64";
  }
  return "unknown type";
}

}  // namespace turnstile::engine
