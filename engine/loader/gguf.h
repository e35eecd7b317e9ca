// gguf.h: reads a GGUF model file: typed keys and views of tensor data.
//
//   magic "GGUF" | version 2 or 3 | tensor count | key count
//   key count    x (key, value type, value)
//   tensor count x (name, dimension count, dimensions, type, offset)
//   padding to `general.alignment` (32 when absent)
//   data: each tensor at data start + offset
//
// A model file is untrusted input. Order of work: bound, parse, validate, and only then allocate.
// A count or length is compared with the bytes that are left before anything is reserved for it,
// all arithmetic on numbers from the file is unsigned 64-bit and checked, so memory use is
// bounded by a small multiple of the header's real size, whatever its numbers say.
//
// What open() and parse() promise about the result:
//   1. Keys and tensor names are unique; keys are 1..65535 bytes of printable ASCII, names 1..64
//      bytes without control characters.
//   2. Every tensor has 1..4 dimensions, each 1..2^32-1, a type of the table in gguf_types.h, rows
//      that are whole blocks of it, and `data` of exactly the bytes that shape and type give.
//   3. Tensor data lies inside the file, starts at a multiple of the alignment, and no two
//      tensors overlap.
//   4. Every string and array lies inside the file. Arrays hold no arrays.
//
// Not promised: that values make sense together (head counts, vocabulary size). That is for the
// loader of the architecture.
//
// Lifetime: views (strings, tensor data) are valid as long as the GgufFile, for parse() as long as
//           the caller keeps the bytes.
// Thread:   immutable after construction; const use from any thread.
// Errors:   LoadError with `where` = "byte 1234", "key general.alignment", "tensor output.weight".
//           A file that another process truncates while it is mapped raises SIGBUS on access: a
//           broken environment; the gateway says so (gateway/vanishing_file.h).
// Cost:     O(header bytes + n log n) for n keys and tensors; tensor data is not touched.
// Format:   https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, little endian only.
// Tests:    tests/engine/gguf_test.cpp (one corrupt file per rule, seeded bit flips, truncations),
//           tests/engine/gguf_split_test.cpp, tests/fuzz/gguf_fuzz.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf_types.h"

namespace turnstile::engine {

struct GgufLimits {
  static constexpr std::uint64_t kMaxKeys = 65'536;
  static constexpr std::uint64_t kMaxTensors = 65'536;
  static constexpr std::uint64_t kMaxKeyBytes = 65'535;         // the format's own bound
  static constexpr std::uint64_t kMaxTensorNameBytes = 64;      // the format's own bound
  static constexpr std::uint32_t kMaxDimensions = 4;            // the format's own bound
  static constexpr std::uint64_t kMaxDimension = 0xFFFF'FFFFu;  // a row's bytes fit 64 bits
  static constexpr std::uint64_t kMinAlignment = 8;
  static constexpr std::uint64_t kMaxAlignment = 4'096;
};

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;            // a raw GgufType number, always one of the known ones
  std::vector<std::uint64_t> shape;  // elements per dimension, fastest first
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  // Maps the file read-only. Refuses anything but a regular file. The first part of a split model
  // (NAME-00001-of-0000N.gguf) brings the other parts with it, as one file (gguf_split.h).
  static tl::expected<GgufFile, LoadError> open(const std::string& path);
  // Reads a file image that is already in memory. The caller keeps the bytes alive and unchanged.
  static tl::expected<GgufFile, LoadError> parse(std::span<const std::byte> bytes);

  GgufFile(GgufFile&& other) noexcept;
  GgufFile& operator=(GgufFile&& other) noexcept;
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  ~GgufFile();  // unmaps

  std::uint32_t version() const { return version_; }
  std::uint64_t file_bytes() const { return bytes_.size() + other_bytes_; }  // of all parts
  // Whether data() of the tensors are pages of the file, which may be given back and come again.
  bool mapped() const { return mapped_; }

  std::span<const GgufTensor> tensors() const { return tensors_; }
  // nullptr when there is none. The pointer is valid as long as the GgufFile is not moved from.
  const GgufTensor* find_tensor(std::string_view name) const;

  bool has_key(std::string_view key) const;

  // nullopt when the key is absent or holds another kind of value. get_uint() takes any integer
  // type whose value is not negative, get_float() takes FLOAT32 and FLOAT64 only.
  std::optional<std::uint64_t> get_uint(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  // The elements of an array of strings, or of integers (each must fit int64).
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const;

  // As above, for keys that the caller cannot do without: the error says whether the key is
  // missing or what it holds instead.
  tl::expected<std::uint64_t, LoadError> require_uint(std::string_view key) const;
  tl::expected<double, LoadError> require_float(std::string_view key) const;
  tl::expected<std::string_view, LoadError> require_string(std::string_view key) const;

  // Every key in file order with a short printable ASCII value, e.g. ("llama.block_count", "30"),
  // ("tokenizer.ggml.tokens", "49152 strings"). For `turnstile model info`.
  std::vector<std::pair<std::string, std::string>> printable_keys() const;

 private:
  friend class GgufParser;
  friend class GgufSplit;

  struct Value {
    GgufValueType type = GgufValueType::Uint8;
    GgufValueType element_type = GgufValueType::Uint8;  // of an array
    std::uint64_t count = 0;                            // of an array
    std::span<const std::byte> payload;  // scalar bytes, string text, or the array's elements
  };

  GgufFile() = default;
  static tl::expected<GgufFile, LoadError> open_part(const std::string& path);
  const Value* find_value(std::string_view key) const;
  LoadError wrong_value(std::string_view key, std::string_view expected) const;

  std::span<const std::byte> bytes_;
  bool mapped_ = false;  // whether the destructor unmaps bytes_
  std::uint32_t version_ = 0;
  std::vector<std::pair<std::string_view, Value>> values_;  // in file order
  std::unordered_map<std::string_view, std::size_t> value_index_;
  std::vector<GgufTensor> tensors_;  // in file order
  std::vector<GgufFile> other_parts_;  // of a split model: they own what tensors_ views
  std::uint64_t other_bytes_ = 0;
  // Keys are views into the file, not into GgufTensor::name, so that a move keeps them valid.
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

// A text of the file, quoted, for people: at most 60 bytes, and none that a terminal would obey.
std::string printable_text(std::string_view text);

}  // namespace turnstile::engine
