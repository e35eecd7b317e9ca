#include "engine/loader/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "engine/loader/gguf_parser.h"
#include "engine/loader/gguf_split.h"

namespace turnstile::engine {
namespace {

constexpr std::size_t kMaxPrintedBytes = 60;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Calls `use` with the integer at `at`, in its own type. False for types that are no integers.
template <typename Use>
bool visit_integer(GgufValueType type, const std::byte* at, Use use) {
  switch (type) {
    case GgufValueType::Uint8:
      use(load<std::uint8_t>(at));
      return true;
    case GgufValueType::Int8:
      use(load<std::int8_t>(at));
      return true;
    case GgufValueType::Uint16:
      use(load<std::uint16_t>(at));
      return true;
    case GgufValueType::Int16:
      use(load<std::int16_t>(at));
      return true;
    case GgufValueType::Uint32:
      use(load<std::uint32_t>(at));
      return true;
    case GgufValueType::Int32:
      use(load<std::int32_t>(at));
      return true;
    case GgufValueType::Uint64:
      use(load<std::uint64_t>(at));
      return true;
    case GgufValueType::Int64:
      use(load<std::int64_t>(at));
      return true;
    case GgufValueType::Float32:
    case GgufValueType::Float64:
    case GgufValueType::Bool:
    case GgufValueType::String:
    case GgufValueType::Array:
      return false;
  }
  return false;
}

std::string printable_float(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

}  // namespace

std::string printable_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxPrintedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  out += '"';
  if (text.size() > kMaxPrintedBytes) out += " (" + std::to_string(text.size()) + " bytes)";
  return out;
}

tl::expected<GgufFile, LoadError> GgufFile::open(const std::string& path) {
  auto file = open_part(path);
  if (!file) return file;
  return GgufSplit::complete(std::move(*file), path, open_part);
}

tl::expected<GgufFile, LoadError> GgufFile::open_part(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return tl::unexpected(LoadError{"file", "cannot be opened: " + std::string(strerror(errno))});
  }
  struct stat status {};
  GgufFile file;
  LoadError error;
  if (::fstat(descriptor, &status) != 0) {
    error = {"file", "cannot be examined: " + std::string(strerror(errno))};
  } else if (!S_ISREG(status.st_mode)) {
    error = {"file", "is not a regular file"};
  } else if (status.st_size == 0) {
    error = {"file", "is empty"};
  } else {
    const auto byte_count = static_cast<std::size_t>(status.st_size);
    void* mapping = ::mmap(nullptr, byte_count, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) {
      error = {"file", "cannot be mapped: " + std::string(strerror(errno))};
    } else {
      file.bytes_ = {static_cast<const std::byte*>(mapping), byte_count};
      file.mapped_ = true;
    }
  }
  ::close(descriptor);
  if (!file.mapped_) return tl::unexpected(std::move(error));
  if (auto parsed = GgufParser(file).run(); !parsed) {
    return tl::unexpected(std::move(parsed.error()));
  }
  return file;
}

tl::expected<GgufFile, LoadError> GgufFile::parse(std::span<const std::byte> bytes) {
  GgufFile file;
  file.bytes_ = bytes;
  if (auto parsed = GgufParser(file).run(); !parsed) {
    return tl::unexpected(std::move(parsed.error()));
  }
  return file;
}

GgufFile::GgufFile(GgufFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      mapped_(std::exchange(other.mapped_, false)),
      version_(other.version_),
      values_(std::move(other.values_)),
      value_index_(std::move(other.value_index_)),
      tensors_(std::move(other.tensors_)),
      other_parts_(std::move(other.other_parts_)),
      other_bytes_(other.other_bytes_),
      tensor_index_(std::move(other.tensor_index_)) {}

GgufFile& GgufFile::operator=(GgufFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(version_, other.version_);
  values_.swap(other.values_);
  value_index_.swap(other.value_index_);
  tensors_.swap(other.tensors_);
  other_parts_.swap(other.other_parts_);
  std::swap(other_bytes_, other.other_bytes_);
  tensor_index_.swap(other.tensor_index_);
  return *this;
}

GgufFile::~GgufFile() {
  if (!mapped_) return;
  const int result = ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  assert(result == 0 && "the mapping was made by open()");
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufFile::Value* GgufFile::find_value(std::string_view key) const {
  const auto found = value_index_.find(key);
  return found == value_index_.end() ? nullptr : &values_[found->second].second;
}

bool GgufFile::has_key(std::string_view key) const { return find_value(key) != nullptr; }

std::optional<std::uint64_t> GgufFile::get_uint(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::uint64_t> result;
  visit_integer(value->type, value->payload.data(), [&](auto number) {
    if (number >= 0) result = static_cast<std::uint64_t>(number);
  });
  return result;
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufValueType::Float32) return load<float>(value->payload.data());
  if (value->type == GgufValueType::Float64) return load<double>(value->payload.data());
  return std::nullopt;
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr || value->type != GgufValueType::String) return std::nullopt;
  return as_text(value->payload);
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr || value->type != GgufValueType::Bool) return std::nullopt;
  return value->payload[0] != std::byte{0};
}

std::optional<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr || value->type != GgufValueType::Array ||
      value->element_type != GgufValueType::String) {
    return std::nullopt;
  }
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const std::byte* at = value->payload.data();
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto length = load<std::uint64_t>(at);
    strings.emplace_back(reinterpret_cast<const char*>(at + 8), length);
    at += 8 + length;
  }
  return strings;
}

std::optional<std::vector<std::int64_t>> GgufFile::get_ints(std::string_view key) const {
  const Value* value = find_value(key);
  if (value == nullptr || value->type != GgufValueType::Array) return std::nullopt;
  const auto width = scalar_value_bytes(static_cast<std::uint32_t>(value->element_type));
  if (!width) return std::nullopt;
  std::vector<std::int64_t> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    bool fits = true;
    const bool is_integer =
        visit_integer(value->element_type, value->payload.data() + i * *width, [&](auto number) {
          if constexpr (std::is_same_v<decltype(number), std::uint64_t>) {
            fits = number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
          }
          if (fits) numbers.push_back(static_cast<std::int64_t>(number));
        });
    if (!is_integer || !fits) return std::nullopt;
  }
  return numbers;
}

LoadError GgufFile::wrong_value(std::string_view key, std::string_view expected) const {
  const Value* value = find_value(key);
  std::string what = "must be " + std::string(expected) + ", ";
  if (value == nullptr) {
    what += "is missing";
  } else if (value->type == GgufValueType::String || value->type == GgufValueType::Array) {
    what += "is of type " + std::string(value_type_name(value->type));
  } else {
    what += "is another value of type " + std::string(value_type_name(value->type));
  }
  return {"key " + std::string(key), std::move(what)};
}

tl::expected<std::uint64_t, LoadError> GgufFile::require_uint(std::string_view key) const {
  if (const auto value = get_uint(key)) return *value;
  return tl::unexpected(wrong_value(key, "an integer of 0 or more"));
}

tl::expected<double, LoadError> GgufFile::require_float(std::string_view key) const {
  if (const auto value = get_float(key)) return *value;
  return tl::unexpected(wrong_value(key, "a float"));
}

tl::expected<std::string_view, LoadError> GgufFile::require_string(std::string_view key) const {
  if (const auto value = get_string(key)) return *value;
  return tl::unexpected(wrong_value(key, "a string"));
}

std::vector<std::pair<std::string, std::string>> GgufFile::printable_keys() const {
  std::vector<std::pair<std::string, std::string>> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) {
    std::string text;
    if (value.type == GgufValueType::Array) {
      text = std::to_string(value.count) + " values of type " +
             std::string(value_type_name(value.element_type));
      if (value.element_type == GgufValueType::String) {
        text = std::to_string(value.count) + " strings";
      }
    } else if (value.type == GgufValueType::String) {
      text = printable_text(as_text(value.payload));
    } else if (value.type == GgufValueType::Bool) {
      text = value.payload[0] == std::byte{0} ? "false" : "true";
    } else if (const auto number = get_float(key)) {
      text = printable_float(*number);
    } else {
      visit_integer(value.type, value.payload.data(),
                    [&](auto integer) { text = std::to_string(integer); });
    }
    keys.emplace_back(key, std::move(text));
  }
  return keys;
}

}  // namespace turnstile::engine
