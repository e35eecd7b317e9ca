// gguf_image.h: writes GGUF files in memory, right ones and wrong ones.
//
// Tests take a valid image, change a key or a tensor, and look at what the loader says. Nothing is
// checked here: a tensor's bytes need not fit its shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/loader/gguf_types.h"

namespace turnstile::tests {

using GgufKeyValue =
    std::variant<std::uint32_t, std::int32_t, float, bool, std::string, std::vector<std::string>>;

struct GgufImageTensor {
  std::string name;
  engine::GgufType type = engine::GgufType::F32;
  std::vector<std::uint64_t> shape;  // fastest first
  std::vector<std::byte> bytes;
};

struct GgufImage {
  std::vector<std::pair<std::string, GgufKeyValue>> keys;
  std::vector<GgufImageTensor> tensors;

  // Replaces the value of a key or adds the key.
  void set(const std::string& key, GgufKeyValue value);
  void erase(const std::string& key);
  void erase_tensor(const std::string& name);
  GgufImageTensor& tensor(const std::string& name);  // must exist

  std::vector<std::byte> serialize() const;
};

}  // namespace turnstile::tests
