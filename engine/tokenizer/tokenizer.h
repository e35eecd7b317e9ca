// tokenizer.h: text to token ids and back, from what the model file says.
//
// Byte-level BPE (`tokenizer.ggml.model` = "gpt2"):
//
//   text --special tokens--> runs --pre-tokenizer--> pieces --merges--> ids
//
// 1. With ParseSpecial::Yes, control and user-defined tokens are recognised first (leftmost,
//    then longest); with ParseSpecial::No their text is text like any other. Text of a client
//    is always encoded with No, or it could speak with the voice of another role.
// 2. The pre-tokenizer named by the file cuts each run into pieces (pre_tokenizer.h).
// 3. Each piece starts as single bytes; the pair with the lowest rank is merged, leftmost first,
//    until no pair has a rank. A byte that has no token is left out before merging.
//
// Nothing is normalised, no space is put in front, and encode() adds neither BOS nor EOS: see
// adds_bos(). Invalid UTF-8 is not an error: a byte that starts no character counts as a
// character that is neither letter, number nor space.
//
// Thread: immutable after construction; const use from any thread.
// Errors: a vocabulary that contradicts itself, or another kind of tokenizer: LoadError.
// Cost:   encode() is O(n log n) in the length of a piece and linear in everything else, also for a
//         million equal characters. No regular expressions, no recursion.
// Sources: Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with Subword Units"
//         (2016); the byte alphabet is that of GPT-2.
// Tests:  tests/engine/tokenizer_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "engine/load_error.h"
#include "engine/loader/gguf.h"
#include "engine/token_id.h"
#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/piece_table.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/special_tokens.h"

namespace turnstile::engine {

enum class ParseSpecial : bool { No = false, Yes = true };

// The numbers of `tokenizer.ggml.token_type`.
enum class TokenType : std::uint8_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

struct TokenizerLimits {
  static constexpr std::size_t kMaxVocabulary = 4'194'304;  // 16 x the largest in use
  static constexpr std::size_t kMaxTokenBytes = 65'536;
  // A special token is compared at every place where its first byte occurs, so it must be short.
  static constexpr std::size_t kMaxSpecialTokenBytes = 256;
};

// What a tokenizer is made from. Token and merge strings are spelled as in the file: normal tokens
// in the printable byte alphabet of GPT-2, a merge as "left right". The views need to live only
// during the call.
struct TokenizerParts {
  std::vector<std::string_view> tokens;
  std::vector<TokenType> types;  // empty: all normal; else one per token
  std::vector<std::string_view> merges;
  std::string_view pre_tokenizer = "gpt-2";
  std::optional<TokenId> bos, eos, eot;
  bool adds_bos = false;
};

class Tokenizer {
 public:
  static tl::expected<Tokenizer, LoadError> from_gguf(const GgufFile& file);
  static tl::expected<Tokenizer, LoadError> from_parts(const TokenizerParts& parts);

  // Appends the ids of `text` to `out`. Stops after the piece with which `out` has more than `most`
  // ids, so that a text that nobody could use costs no more than one that is used.
  void encode(std::string_view text, ParseSpecial parse_special, std::vector<TokenId>& out,
              std::size_t most = kNoLimit) const;
  static constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

  // The first special token in text[from..], leftmost, then longest.
  std::optional<SpecialMatch> find_special(std::string_view text, std::size_t from) const {
    return special_.find(text, from);
  }

  // The bytes that a token stands for; for a control token its name, which a server does not
  // emit. `id` must be below vocab_size().
  std::string_view token_bytes(TokenId id) const;
  // Control tokens have a meaning for the program, none for the reader.
  bool is_control(TokenId id) const;
  // eos, eot and control tokens of the names that end a turn in the known model families.
  bool is_end_of_generation(TokenId id) const;

  std::size_t vocab_size() const { return types_.size(); }
  // No text of n bytes has fewer than n / longest_token_bytes() tokens (dropped bytes aside).
  std::size_t longest_token_bytes() const { return longest_token_bytes_; }
  std::string_view pre_tokenizer_name() const { return pre_tokenizer_name_; }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  // Whether the model expects bos() in front of a prompt that no template wrote.
  bool adds_bos() const { return adds_bos_; }
  // The token that stands for exactly these bytes; the smallest id if there are several. Looks at
  // every token: for start-up and tests.
  std::optional<TokenId> find_token(std::string_view bytes) const;

 private:
  Tokenizer() = default;
  void encode_run(std::string_view run, std::vector<TokenId>& out, std::size_t most) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_piece(std::string_view piece, std::vector<TokenId>& out) const;
  tl::expected<void, LoadError> add_tokens(const TokenizerParts& parts);
  tl::expected<void, LoadError> add_merges(const TokenizerParts& parts);
  tl::expected<void, LoadError> add_special_tokens(const TokenizerParts& parts);

  std::string bytes_;                  // all tokens, one after the other
  std::vector<std::uint32_t> begins_;  // vocab_size() + 1 offsets into bytes_
  std::vector<TokenType> types_;
  std::vector<bool> ends_generation_;
  std::size_t longest_token_bytes_ = 0;

  PreTokenizer pre_tokenizer_ = PreTokenizer::Gpt2;
  std::string pre_tokenizer_name_;
  SpecialTokens special_;
  static constexpr TokenId kNoToken = 0xFFFF'FFFFu;
  std::array<TokenId, 256> byte_tokens_{};  // kNoToken for a byte without a token
  MergeTable merges_;
  PieceTable whole_pieces_;  // the pieces that merging turns into the one token of the same bytes
  std::optional<TokenId> bos_, eos_;
  bool adds_bos_ = false;
};

}  // namespace turnstile::engine
