// text_chars.h: the characters of a text by number, as Python counts them.
//
// For ASCII a character is its byte; otherwise the offsets are listed once, O(bytes).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace turnstile::engine {

class TextChars {
 public:
  explicit TextChars(std::string_view text);

  std::size_t count() const { return is_ascii_ ? size_ : begins_.size() - 1; }
  // The byte where character `index` begins; for count() the size of the text.
  std::size_t begin_of(std::size_t index) const { return is_ascii_ ? index : begins_[index]; }
  // The number of the character that begins at byte `begin`.
  std::size_t index_of(std::size_t begin) const;

 private:
  std::size_t size_;
  bool is_ascii_;
  std::vector<std::size_t> begins_;
};

std::size_t count_chars(std::string_view text);

}  // namespace turnstile::engine
