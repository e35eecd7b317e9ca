#include "tests/support/gguf_image.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace turnstile::tests {

namespace {

using engine::GgufType;
using engine::GgufValueType;

constexpr std::size_t kAlignment = 32;

class Writer {
 public:
  template <typename T>
  void number(T value) {
    append(&value, sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint64_t>(value.size()));
    append(value.data(), value.size());
  }
  void type(GgufValueType value) { number(static_cast<std::uint32_t>(value)); }
  void pad() { bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment); }

  void operator()(std::uint32_t value) { type(GgufValueType::Uint32), number(value); }
  void operator()(std::int32_t value) { type(GgufValueType::Int32), number(value); }
  void operator()(float value) { type(GgufValueType::Float32), number(value); }
  void operator()(bool value) { type(GgufValueType::Bool), number(std::uint8_t{value}); }
  void operator()(const std::string& value) { type(GgufValueType::String), text(value); }
  void operator()(const std::vector<std::string>& values) {
    type(GgufValueType::Array);
    type(GgufValueType::String);
    number(static_cast<std::uint64_t>(values.size()));
    for (const std::string& value : values) text(value);
  }

  void append(const void* from, std::size_t size) {
    if (size == 0) return;
    bytes.resize(bytes.size() + size);
    std::memcpy(bytes.data() + bytes.size() - size, from, size);
  }

  std::vector<std::byte> bytes;
};

}  // namespace

void GgufImage::set(const std::string& key, GgufKeyValue value) {
  for (auto& [name, old] : keys) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  keys.emplace_back(key, std::move(value));
}

void GgufImage::erase(const std::string& key) {
  std::erase_if(keys, [&](const auto& pair) { return pair.first == key; });
}

void GgufImage::erase_tensor(const std::string& name) {
  std::erase_if(tensors, [&](const GgufImageTensor& tensor) { return tensor.name == name; });
}

GgufImageTensor& GgufImage::tensor(const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const GgufImageTensor& each) { return each.name == name; });
  assert(found != tensors.end() && "a tensor of the image");
  return *found;
}

std::vector<std::byte> GgufImage::serialize() const {
  Writer out;
  for (const char letter : {'G', 'G', 'U', 'F'}) out.number(letter);
  out.number(std::uint32_t{3});
  out.number(static_cast<std::uint64_t>(tensors.size()));
  out.number(static_cast<std::uint64_t>(keys.size()));
  for (const auto& [key, value] : keys) {
    out.text(key);
    std::visit(out, value);
  }
  std::uint64_t offset = 0;
  for (const GgufImageTensor& tensor : tensors) {
    out.text(tensor.name);
    out.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t dimension : tensor.shape) out.number(dimension);
    out.number(static_cast<std::uint32_t>(tensor.type));
    out.number(offset);
    offset += (tensor.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  out.pad();
  for (const GgufImageTensor& tensor : tensors) {
    out.append(tensor.bytes.data(), tensor.bytes.size());
    out.pad();
  }
  return out.bytes;
}

}  // namespace turnstile::tests
