// raw_gguf.h: GGUF images with any field wrong, byte by byte.
//
// gguf_image.h writes files that follow the format; here every count, length, type and offset is
// whatever the test says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::tests {

template <typename T>
std::string raw_number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string raw_u32(std::uint32_t value) { return raw_number(value); }
inline std::string raw_u64(std::uint64_t value) { return raw_number(value); }
inline std::string raw_text(std::string_view text) {
  return raw_u64(text.size()) + std::string(text);
}

inline std::string raw_key(std::string_view key, std::uint32_t type, std::string_view payload) {
  return raw_text(key) + raw_u32(type) + std::string(payload);
}

inline std::string raw_array(std::uint32_t element_type, std::uint64_t count,
                             std::string_view elements) {
  return raw_u32(element_type) + raw_u64(count) + std::string(elements);
}

inline std::string raw_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                              std::uint32_t type, std::uint64_t offset) {
  std::string record = raw_text(name) + raw_u32(static_cast<std::uint32_t>(shape.size()));
  for (const std::uint64_t extent : shape) record += raw_u64(extent);
  return record + raw_u32(type) + raw_u64(offset);
}

struct RawGguf {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;  // else the number of records
  std::optional<std::uint64_t> key_count;
  std::vector<std::string> keys;     // records of raw_key()
  std::vector<std::string> tensors;  // records of raw_tensor()
  std::size_t alignment = 32;
  std::string data;

  std::string bytes() const {
    std::string out = magic + raw_u32(version) + raw_u64(tensor_count.value_or(tensors.size())) +
                      raw_u64(key_count.value_or(keys.size()));
    for (const std::string& key : keys) out += key;
    for (const std::string& tensor : tensors) out += tensor;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

}  // namespace turnstile::tests
