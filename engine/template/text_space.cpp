#include "engine/template/text_space.h"

#include "engine/tokenizer/unicode_class.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {

bool is_python_space(std::uint32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) ||
         (code_point != kInvalidCodePoint && classify(code_point) == CharClass::Space);
}

std::size_t leading_space_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const DecodedChar next = decode_utf8(text, at);
    if (!is_python_space(next.code_point)) break;
    at += next.byte_count;
  }
  return at;
}

std::size_t trailing_space_begin(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    const auto continues = [&] { return (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80; };
    while (begin > 0 && end - begin < 4 && continues()) --begin;
    const DecodedChar last = decode_utf8(text, begin);
    if (begin + last.byte_count != end || !is_python_space(last.code_point)) break;
    end = begin;
  }
  return end;
}

}  // namespace turnstile::engine
