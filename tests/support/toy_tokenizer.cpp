#include "tests/support/toy_tokenizer.h"

#include <cassert>
#include <deque>
#include <string>

namespace turnstile::tests {

using engine::TokenId;
using engine::TokenType;

std::shared_ptr<const engine::Tokenizer> toy_tokenizer() {
  static const std::shared_ptr<const engine::Tokenizer> tokenizer = [] {
    std::deque<std::string> texts;
    std::vector<TokenType> types;
    const auto add = [&](std::string text, TokenType type) {
      texts.push_back(std::move(text));
      types.push_back(type);
    };
    for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c), TokenType::Normal);
    for (char c = 'A'; c <= 'Z'; ++c) add(std::string(1, c), TokenType::Normal);
    for (const char* byte : {"<0xC3>", "<0xA9>", "<0xE2>", "<0x82>", "<0xAC>"}) {
      add(byte, TokenType::Byte);
    }
    add("ab", TokenType::Normal);
    add("END", TokenType::Normal);
    add("\xC3\xA2\xC4\xA4", TokenType::Normal);  // E2 82 in the byte alphabet
    add("\xC4\xA0", TokenType::Normal);          // a space in the byte alphabet
    add("<|note|>", TokenType::Control);
    add("<|im_end|>", TokenType::Control);
    add("<|endoftext|>", TokenType::Control);
    engine::TokenizerParts parts;
    parts.tokens.assign(texts.begin(), texts.end());
    parts.types = types;
    parts.eos = kToyEnd;
    auto made = engine::Tokenizer::from_parts(parts);
    assert(made && made->vocab_size() == kToyVocabulary && "the toy vocabulary is sound");
    return std::make_shared<const engine::Tokenizer>(*std::move(made));
  }();
  return tokenizer;
}

std::vector<TokenId> toy_tokens(std::string_view letters) {
  std::vector<TokenId> ids;
  for (const char c : letters) {
    const auto id = toy_tokenizer()->find_token(std::string_view(&c, 1));
    assert(id && "the toy vocabulary has letters and the space");
    ids.push_back(*id);
  }
  return ids;
}

std::shared_ptr<const engine::Tokenizer> endless_tokenizer(std::size_t size) {
  std::deque<std::string> texts;
  for (std::size_t i = 0; i < size; ++i) texts.push_back("t" + std::to_string(i));
  engine::TokenizerParts parts;
  parts.tokens.assign(texts.begin(), texts.end());
  auto made = engine::Tokenizer::from_parts(parts);
  assert(made && "the endless vocabulary is sound");
  return std::make_shared<const engine::Tokenizer>(*std::move(made));
}

}  // namespace turnstile::tests
