#include "engine/loader/gguf_parser.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace turnstile::engine {
namespace {

constexpr std::uint32_t kMagic = 0x4655'4747;  // "GGUF", read as little endian

// The smallest encodings: an empty key with a one-byte value, a one-dimensional tensor with an
// empty name. They bound a count by the bytes that are left.
constexpr std::uint64_t kMinKeyValueBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorInfoBytes = 8 + 4 + 8 + 4 + 8;
constexpr std::uint64_t kMinStringBytes = 8;

bool is_printable_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

LoadError error_at(std::uint64_t position, std::string what) {
  return {"byte " + std::to_string(position), std::move(what)};
}

LoadError key_error(std::string_view key, std::string what) {
  return {"key " + std::string(key), std::move(what)};
}

LoadError tensor_error(std::string_view name, std::string what) {
  return {"tensor " + std::string(name), std::move(what)};
}

}  // namespace

LoadError GgufParser::error_here(std::string what) const {
  return error_at(position_, std::move(what));
}

LoadError GgufParser::cut_short(std::string_view what) const {
  return error_here("the file ends inside " + std::string(what) + " (file size " +
                    std::to_string(bytes_.size()) + " bytes)");
}

template <typename T>
bool GgufParser::read_number(T& value) {
  if (bytes_left() < sizeof(T)) return false;
  std::memcpy(&value, bytes_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return true;
}

bool GgufParser::read_text(std::string_view& text) {
  std::uint64_t length = 0;
  const std::uint64_t start = position_;
  if (!read_number(length)) return false;
  if (length > bytes_left()) {
    position_ = start;
    return false;
  }
  text = {reinterpret_cast<const char*>(bytes_.data() + position_), length};
  position_ += length;
  return true;
}

tl::expected<void, LoadError> GgufParser::run() {
  if (auto done = read_header(); !done) return done;
  if (auto done = read_values(); !done) return done;
  if (auto done = read_alignment(); !done) return done;
  if (auto done = read_tensors(); !done) return done;
  return place_tensors();
}

tl::expected<void, LoadError> GgufParser::read_header() {
  std::uint32_t magic = 0;
  if (!read_number(magic)) return tl::unexpected(cut_short("the magic number"));
  if (magic != kMagic) return tl::unexpected(error_at(0, "not a GGUF file: the magic is missing"));
  const std::uint64_t version_at = position_;
  if (!read_number(file_.version_)) return tl::unexpected(cut_short("the version"));
  if (file_.version_ != 2 && file_.version_ != 3) {
    if ((file_.version_ & 0xFFFFu) == 0 && file_.version_ != 0) {
      return tl::unexpected(error_at(version_at, "big-endian GGUF files are not supported"));
    }
    return tl::unexpected(error_at(version_at, "GGUF version " + std::to_string(file_.version_) +
                                                   " is not supported (2 and 3 are)"));
  }
  const std::uint64_t counts_at = position_;
  if (!read_number(tensor_count_)) return tl::unexpected(cut_short("the tensor count"));
  if (!read_number(key_count_)) return tl::unexpected(cut_short("the key count"));
  if (tensor_count_ > GgufLimits::kMaxTensors ||
      tensor_count_ > bytes_left() / kMinTensorInfoBytes) {
    return tl::unexpected(error_at(counts_at, "tensor count " + std::to_string(tensor_count_) +
                                                  " is more than the file can hold (limit " +
                                                  std::to_string(GgufLimits::kMaxTensors) + ")"));
  }
  if (key_count_ > GgufLimits::kMaxKeys || key_count_ > bytes_left() / kMinKeyValueBytes) {
    return tl::unexpected(error_at(counts_at + 8, "key count " + std::to_string(key_count_) +
                                                      " is more than the file can hold (limit " +
                                                      std::to_string(GgufLimits::kMaxKeys) + ")"));
  }
  return {};
}

tl::expected<void, LoadError> GgufParser::read_values() {
  file_.values_.reserve(key_count_);
  file_.value_index_.reserve(key_count_);
  for (std::uint64_t i = 0; i < key_count_; ++i) {
    const std::uint64_t key_at = position_;
    std::string_view key;
    if (!read_text(key)) {
      return tl::unexpected(cut_short("the name of key " + std::to_string(i)));
    }
    if (key.empty() || key.size() > GgufLimits::kMaxKeyBytes) {
      return tl::unexpected(error_at(key_at, "key " + std::to_string(i) + " has a name of " +
                                                 std::to_string(key.size()) +
                                                 " bytes (1 to 65535 are allowed)"));
    }
    if (!is_printable_ascii(key)) {
      return tl::unexpected(error_at(key_at, "the name of key " + std::to_string(i) +
                                                 " holds something else than printable ASCII"));
    }
    if (!file_.value_index_.emplace(key, file_.values_.size()).second) {
      return tl::unexpected(key_error(key, "occurs twice"));
    }
    auto value = read_value(key);
    if (!value) return tl::unexpected(std::move(value.error()));
    file_.values_.emplace_back(key, *value);
  }
  return {};
}

tl::expected<GgufFile::Value, LoadError> GgufParser::read_value(std::string_view key) {
  std::uint32_t type = 0;
  if (!read_number(type)) return tl::unexpected(key_error(key, "the file ends before its value"));
  GgufFile::Value value;
  value.type = static_cast<GgufValueType>(type);
  if (value.type == GgufValueType::Array) return read_array(key);
  if (value.type == GgufValueType::String) {
    std::string_view text;
    if (!read_text(text)) {
      return tl::unexpected(key_error(key, "its string goes beyond the end of the file"));
    }
    value.payload = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    return value;
  }
  const auto width = scalar_value_bytes(type);
  if (!width) {
    return tl::unexpected(
        key_error(key, "value type " + std::to_string(type) + " is unknown (0 to 12 are known)"));
  }
  if (*width > bytes_left()) {
    return tl::unexpected(key_error(key, "the file ends inside its value"));
  }
  value.payload = bytes_.subspan(position_, *width);
  position_ += *width;
  if (value.type == GgufValueType::Bool && std::to_integer<unsigned>(value.payload[0]) > 1) {
    return tl::unexpected(key_error(key, "a bool must be 0 or 1"));
  }
  return value;
}

tl::expected<GgufFile::Value, LoadError> GgufParser::read_array(std::string_view key) {
  std::uint32_t type = 0;
  GgufFile::Value value;
  value.type = GgufValueType::Array;
  if (!read_number(type) || !read_number(value.count)) {
    return tl::unexpected(key_error(key, "the file ends before its array"));
  }
  value.element_type = static_cast<GgufValueType>(type);
  if (value.element_type == GgufValueType::Array) {
    return tl::unexpected(key_error(key, "an array of arrays is not supported"));
  }
  const auto width = scalar_value_bytes(type);
  if (!width && value.element_type != GgufValueType::String) {
    return tl::unexpected(key_error(
        key, "array element type " + std::to_string(type) + " is unknown (0 to 12 are known)"));
  }
  if (value.count > bytes_left() / width.value_or(kMinStringBytes)) {
    return tl::unexpected(key_error(key, "array of " + std::to_string(value.count) +
                                             " elements goes beyond the end of the file"));
  }
  const std::uint64_t start = position_;
  if (width) {
    position_ += value.count * *width;
  } else {
    for (std::uint64_t i = 0; i < value.count; ++i) {
      std::string_view text;
      if (!read_text(text)) {
        return tl::unexpected(key_error(key, "string " + std::to_string(i) + " of " +
                                                 std::to_string(value.count) +
                                                 " goes beyond the end of the file"));
      }
    }
  }
  value.payload = bytes_.subspan(start, position_ - start);
  if (value.element_type == GgufValueType::Bool &&
      std::any_of(value.payload.begin(), value.payload.end(),
                  [](std::byte b) { return std::to_integer<unsigned>(b) > 1; })) {
    return tl::unexpected(key_error(key, "a bool must be 0 or 1"));
  }
  return value;
}

tl::expected<void, LoadError> GgufParser::read_alignment() {
  constexpr std::string_view kKey = "general.alignment";
  const GgufFile::Value* value = file_.find_value(kKey);
  if (value == nullptr) return {};
  if (value->type != GgufValueType::Uint32) {
    return tl::unexpected(
        key_error(kKey, "must be a uint32, is " + std::string(value_type_name(value->type))));
  }
  alignment_ = *file_.get_uint(kKey);
  const bool is_power_of_two = alignment_ != 0 && (alignment_ & (alignment_ - 1)) == 0;
  if (!is_power_of_two || alignment_ < GgufLimits::kMinAlignment ||
      alignment_ > GgufLimits::kMaxAlignment) {
    return tl::unexpected(
        key_error(kKey, std::to_string(alignment_) + " is not a power of two from 8 to 4096"));
  }
  return {};
}

tl::expected<void, LoadError> GgufParser::read_tensors() {
  // The header's check counted the keys' bytes as well, so the count is compared again here.
  if (tensor_count_ > bytes_left() / kMinTensorInfoBytes) {
    return tl::unexpected(
        cut_short("the descriptions of " + std::to_string(tensor_count_) + " tensors"));
  }
  file_.tensors_.reserve(tensor_count_);
  file_.tensor_index_.reserve(tensor_count_);
  pending_.reserve(tensor_count_);
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    if (auto done = read_tensor(i); !done) return done;
  }
  return {};
}

tl::expected<void, LoadError> GgufParser::read_tensor(std::uint64_t index) {
  const std::uint64_t name_at = position_;
  std::string_view name;
  if (!read_text(name)) {
    return tl::unexpected(cut_short("the name of tensor " + std::to_string(index)));
  }
  if (name.empty() || name.size() > GgufLimits::kMaxTensorNameBytes) {
    return tl::unexpected(error_at(name_at, "tensor " + std::to_string(index) + " has a name of " +
                                                std::to_string(name.size()) +
                                                " bytes (1 to 64 are allowed)"));
  }
  if (has_control_character(name)) {
    return tl::unexpected(error_at(
        name_at, "the name of tensor " + std::to_string(index) + " holds a control character"));
  }
  if (!file_.tensor_index_.emplace(name, file_.tensors_.size()).second) {
    return tl::unexpected(tensor_error(name, "occurs twice"));
  }
  std::uint32_t dimensions = 0;
  if (!read_number(dimensions)) {
    return tl::unexpected(tensor_error(name, "the file ends inside its description"));
  }
  if (dimensions == 0 || dimensions > GgufLimits::kMaxDimensions) {
    return tl::unexpected(
        tensor_error(name, std::to_string(dimensions) + " dimensions (1 to 4 are allowed)"));
  }
  GgufTensor tensor;
  tensor.name = name;
  tensor.shape.resize(dimensions);
  PendingTensor pending;
  for (std::uint64_t& extent : tensor.shape) {
    if (!read_number(extent)) {
      return tl::unexpected(tensor_error(name, "the file ends inside its description"));
    }
    if (extent == 0 || extent > GgufLimits::kMaxDimension) {
      return tl::unexpected(
          tensor_error(name, "dimension " + std::to_string(extent) + " is not in 1 to 4294967295"));
    }
  }
  if (!read_number(tensor.type) || !read_number(pending.offset)) {
    return tl::unexpected(tensor_error(name, "the file ends inside its description"));
  }
  auto byte_count = tensor_bytes(tensor);
  if (!byte_count) return tl::unexpected(std::move(byte_count.error()));
  pending.byte_count = *byte_count;
  file_.tensors_.push_back(std::move(tensor));
  pending_.push_back(pending);
  return {};
}

tl::expected<std::uint64_t, LoadError> GgufParser::tensor_bytes(const GgufTensor& tensor) const {
  const auto info = find_gguf_type(tensor.type);
  if (!info) {
    return tl::unexpected(
        tensor_error(tensor.name, "tensor type " + std::to_string(tensor.type) + " is unknown"));
  }
  if (tensor.shape[0] % info->block_elements != 0) {
    return tl::unexpected(tensor_error(tensor.name, "rows of " + std::to_string(tensor.shape[0]) +
                                                        " elements are not whole blocks of " +
                                                        std::to_string(info->block_elements) +
                                                        " (" + std::string(info->name) + ")"));
  }
  // One row is below 2^32 elements of at most 8 bytes, so only the product over rows can overflow.
  std::uint64_t total = tensor.shape[0] / info->block_elements * info->block_bytes;
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] > std::numeric_limits<std::uint64_t>::max() / total) {
      return tl::unexpected(tensor_error(tensor.name, "its size in bytes does not fit 64 bits"));
    }
    total *= tensor.shape[i];
  }
  return total;
}

tl::expected<void, LoadError> GgufParser::place_tensors() {
  if (file_.tensors_.empty()) return {};
  const std::uint64_t data_start = (position_ + alignment_ - 1) / alignment_ * alignment_;
  const std::uint64_t data_bytes = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    const auto [offset, byte_count] = pending_[i];
    if (offset % alignment_ != 0) {
      return tl::unexpected(tensor_error(tensor.name, "offset " + std::to_string(offset) +
                                                          " is not a multiple of the alignment " +
                                                          std::to_string(alignment_)));
    }
    if (offset > data_bytes || byte_count > data_bytes - offset) {
      return tl::unexpected(tensor_error(
          tensor.name, std::to_string(byte_count) + " bytes at offset " + std::to_string(offset) +
                           " go beyond the end of the file (" + std::to_string(data_bytes) +
                           " bytes of data)"));
    }
    tensor.data = bytes_.subspan(data_start + offset, byte_count);
  }
  std::vector<std::size_t> order(pending_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return pending_[a].offset < pending_[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const PendingTensor& before = pending_[order[i - 1]];
    if (pending_[order[i]].offset < before.offset + before.byte_count) {
      return tl::unexpected(
          tensor_error(file_.tensors_[order[i]].name,
                       "its data overlaps that of tensor " + file_.tensors_[order[i - 1]].name));
    }
  }
  return {};
}

}  // namespace turnstile::engine
