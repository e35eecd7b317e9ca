#include "engine/template/text_chars.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

TextChars::TextChars(std::string_view text) : size_(text.size()), is_ascii_(is_ascii(text)) {
  if (is_ascii_) return;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).byte_count) {
    begins_.push_back(at);
  }
  begins_.push_back(text.size());
}

std::size_t TextChars::index_of(std::size_t begin) const {
  if (is_ascii_) return begin;
  const auto found = std::lower_bound(begins_.begin(), begins_.end(), begin);
  return static_cast<std::size_t>(found - begins_.begin());
}

std::size_t count_chars(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).byte_count) ++count;
  return count;
}

}  // namespace turnstile::engine
