#include "engine/tokenizer/pre_tokenizer.h"

#include "engine/tokenizer/unicode_class.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

struct ClassifiedChar {
  CharClass char_class;
  std::size_t byte_count;
};

ClassifiedChar classify_at(std::string_view text, std::size_t at) {
  const DecodedChar decoded = decode_utf8(text, at);
  return {classify(decoded.code_point), decoded.byte_count};
}

// Bytes of the contraction that begins at `at` with an apostrophe, or 0.
std::size_t contraction_bytes(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (at + 2 >= text.size()) return 0;
  const char second = text[at + 2];
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    return 3;
  }
  return 0;
}

std::size_t run_end(std::string_view text, std::size_t at, CharClass char_class) {
  while (at < text.size()) {
    const ClassifiedChar next = classify_at(text, at);
    if (next.char_class != char_class) break;
    at += next.byte_count;
  }
  return at;
}

// The piece that begins with white space which no word takes along. When something visible
// follows, the last space of the run is left for the next piece, unless it is all there is.
std::size_t space_end(PreTokenizer kind, std::string_view text, std::size_t begin) {
  std::size_t last = begin;
  std::size_t at = begin;
  while (at < text.size()) {
    const ClassifiedChar next = classify_at(text, at);
    if (next.char_class == CharClass::Number && kind == PreTokenizer::Smollm) return at;
    if (next.char_class != CharClass::Space) return last > begin ? last : at;
    last = at;
    at += next.byte_count;
  }
  return at;
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  if (name == "gpt-2" || name == "default") return PreTokenizer::Gpt2;
  if (name == "smollm" || name == "starcoder") return PreTokenizer::Smollm;
  return std::nullopt;
}

std::size_t piece_end(PreTokenizer kind, std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    if (const std::size_t bytes = contraction_bytes(text, begin); bytes != 0) return begin + bytes;
  }
  std::size_t at = begin;
  ClassifiedChar first = classify_at(text, at);
  if (text[begin] == ' ' && begin + 1 < text.size()) {
    const ClassifiedChar next = classify_at(text, begin + 1);
    const bool takes_space =
        next.char_class != CharClass::Space &&
        !(next.char_class == CharClass::Number && kind == PreTokenizer::Smollm);
    if (takes_space) {
      at = begin + 1;
      first = next;
    }
  }
  if (first.char_class == CharClass::Space) return space_end(kind, text, begin);
  at += first.byte_count;
  if (first.char_class == CharClass::Number && kind == PreTokenizer::Smollm) return at;
  return run_end(text, at, first.char_class);
}

}  // namespace turnstile::engine
