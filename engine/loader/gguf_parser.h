// gguf_parser.h: one pass over a GGUF image that fills a GgufFile. Private to the loader.
//
// The cursor never passes the end: every read compares with the bytes left first, and remembers
// where it failed in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"

namespace turnstile::engine {

class GgufParser {
 public:
  // `file.bytes_` holds the image; everything else of `file` is filled by run().
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.bytes_) {}
  tl::expected<void, LoadError> run();

 private:
  struct PendingTensor {
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
  };

  tl::expected<void, LoadError> read_header();
  tl::expected<void, LoadError> read_values();
  tl::expected<GgufFile::Value, LoadError> read_value(std::string_view key);
  tl::expected<GgufFile::Value, LoadError> read_array(std::string_view key);
  tl::expected<void, LoadError> read_tensors();
  tl::expected<void, LoadError> read_tensor(std::uint64_t index);
  tl::expected<std::uint64_t, LoadError> tensor_bytes(const GgufTensor& tensor) const;
  tl::expected<void, LoadError> read_alignment();
  tl::expected<void, LoadError> place_tensors();

  template <typename T>
  bool read_number(T& value);
  bool read_text(std::string_view& text);
  std::uint64_t bytes_left() const { return bytes_.size() - position_; }
  LoadError error_here(std::string what) const;
  LoadError cut_short(std::string_view what) const;

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<PendingTensor> pending_;  // parallel to file_.tensors_
};

}  // namespace turnstile::engine
