#include "engine/tokenizer/tokenizer.h"

#include <cassert>
#include <limits>

#include "engine/tokenizer/bpe.h"

namespace turnstile::engine {

void Tokenizer::encode(std::string_view text, ParseSpecial parse_special,
                       std::vector<TokenId>& out, std::size_t most) const {
  std::size_t at = 0;
  if (parse_special == ParseSpecial::Yes) {
    while (out.size() <= most) {
      const auto match = special_.find(text, at);
      if (!match) break;
      encode_run(text.substr(at, match->begin - at), out, most);
      out.push_back(match->id);
      at = match->end;
    }
  }
  encode_run(text.substr(at), out, most);
}

void Tokenizer::encode_run(std::string_view run, std::vector<TokenId>& out,
                           std::size_t most) const {
  for (std::size_t at = 0; at < run.size() && out.size() <= most;) {
    const std::size_t end = piece_end(pre_tokenizer_, run, at);
    encode_piece(run.substr(at, end - at), out);
    at = end;
  }
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
  const TokenId whole = whole_pieces_.find(PieceTable::hash_of(piece),
                                           [&](TokenId id) { return token_bytes(id) == piece; });
  if (whole != PieceTable::kNone) {
    out.push_back(whole);
    return;
  }
  merge_piece(piece, out);
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<TokenId>& out) const {
  const std::size_t from = out.size();
  for (const char c : piece) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(c)];
    if (id != kNoToken) out.push_back(id);
  }
  apply_merges(merges_, out, from);
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  assert(id < types_.size() && "a token id is below vocab_size()");
  return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]);
}

bool Tokenizer::is_control(TokenId id) const {
  assert(id < types_.size() && "a token id is below vocab_size()");
  return types_[id] == TokenType::Control || types_[id] == TokenType::Unknown;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  assert(id < types_.size() && "a token id is below vocab_size()");
  return ends_generation_[id];
}

std::optional<TokenId> Tokenizer::find_token(std::string_view bytes) const {
  if (bytes.empty()) return std::nullopt;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (token_bytes(id) == bytes) return id;
  }
  return std::nullopt;
}

}  // namespace turnstile::engine
