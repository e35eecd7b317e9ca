// tiny_vocabulary.h: small byte-level vocabularies, written as plain text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {

// Bytes in the printable alphabet of vocabularies.
inline std::string spell(std::string_view bytes) {
  std::string spelled;
  for (const char c : bytes) {
    for (std::uint32_t code_point = 0x21; code_point < 0x144; ++code_point) {
      if (byte_of_char(code_point) == static_cast<std::uint8_t>(c)) {
        append_utf8(code_point, spelled);
      }
    }
  }
  return spelled;
}

class TinyVocabulary {
 public:
  // One token for each byte, in byte order, so that id == byte.
  TinyVocabulary() {
    for (int byte = 0; byte < 256; ++byte) add(spell(std::string(1, static_cast<char>(byte))));
  }

  TokenId add(std::string spelled, TokenType type = TokenType::Normal) {
    tokens_.push_back(std::move(spelled));
    types_.push_back(type);
    return static_cast<TokenId>(tokens_.size() - 1);
  }

  // Adds the token `left` + `right` and the merge that makes it.
  TokenId merge(std::string_view left, std::string_view right) {
    merges_.push_back(spell(left) + " " + spell(right));
    return add(spell(std::string(left) + std::string(right)));
  }

  // A merge of tokens that are all there.
  void merge_only(std::string_view left, std::string_view right) {
    merges_.push_back(spell(left) + " " + spell(right));
  }

  TokenizerParts parts() const {
    TokenizerParts parts;
    parts.tokens.assign(tokens_.begin(), tokens_.end());
    parts.types = types_;
    parts.merges.assign(merges_.begin(), merges_.end());
    parts.pre_tokenizer = "smollm";
    return parts;
  }

  Tokenizer build() const { return std::move(*Tokenizer::from_parts(parts())); }

 private:
  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::vector<std::string> merges_;
};

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   ParseSpecial parse_special = ParseSpecial::No) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, parse_special, ids);
  return ids;
}

inline std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

}  // namespace turnstile::engine
