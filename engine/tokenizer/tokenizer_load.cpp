// Builds a Tokenizer from the lists in a model file and refuses lists that contradict each other.
#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";

// Control tokens of these names end a turn in the model families that use them, whatever the
// file's eos is.
constexpr std::array<std::string_view, 5> kEndNames = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>",
                                                       "<|end|>", "<end_of_turn>"};

tl::unexpected<LoadError> bad_vocab(std::string_view key, std::string what) {
  return tl::unexpected(LoadError{"key " + std::string(key), std::move(what)});
}

// The byte that "<0x4A>" names; anything else is ordinary text.
std::optional<char> byte_of_name(std::string_view name) {
  if (name.size() != 6 || name.substr(0, 3) != "<0x" || name[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : name.substr(3, 2)) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<unsigned>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

void append_token_bytes(std::string_view spelled, TokenType type, std::string& out) {
  if (type == TokenType::Byte) {
    if (const auto byte = byte_of_name(spelled)) {
      out.push_back(*byte);
      return;
    }
  }
  // Special tokens are spelled as they read. So is a normal one that leaves the byte alphabet.
  if (type != TokenType::Normal || !append_spelled_bytes(spelled, out)) out.append(spelled);
}

tl::expected<std::vector<TokenType>, LoadError> read_types(const GgufFile& file,
                                                           std::size_t token_count) {
  std::vector<TokenType> types;
  if (!file.has_key(kTypesKey)) return types;
  const auto numbers = file.get_ints(kTypesKey);
  if (!numbers) return bad_vocab(kTypesKey, "must be an array of integers");
  if (numbers->size() != token_count) {
    return bad_vocab(kTypesKey, "has " + std::to_string(numbers->size()) + " entries for " +
                                    std::to_string(token_count) + " tokens");
  }
  types.reserve(token_count);
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    if ((*numbers)[i] < 1 || (*numbers)[i] > 6) {
      return bad_vocab(kTypesKey, "token " + std::to_string(i) + " has type " +
                                      std::to_string((*numbers)[i]) + " (1 to 6 are known)");
    }
    types.push_back(static_cast<TokenType>((*numbers)[i]));
  }
  return types;
}

tl::expected<std::optional<TokenId>, LoadError> read_id(const GgufFile& file, std::string_view key,
                                                        std::size_t token_count) {
  if (!file.has_key(key)) return std::optional<TokenId>();
  const auto id = file.require_uint(key);
  if (!id) return tl::unexpected(id.error());
  if (*id >= token_count) {
    return bad_vocab(key, std::to_string(*id) + " is not below the vocabulary size " +
                              std::to_string(token_count));
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

}  // namespace

tl::expected<Tokenizer, LoadError> Tokenizer::from_gguf(const GgufFile& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  const auto model = file.require_string(kModelKey);
  if (!model) return tl::unexpected(model.error());
  if (*model != "gpt2") {
    return bad_vocab(kModelKey,
                     "tokenizer " + printable_text(*model) + " is not supported (gpt2 is)");
  }
  TokenizerParts parts;
  auto tokens = file.get_strings(kTokensKey);
  if (!tokens) return bad_vocab(kTokensKey, "must be an array of strings");
  parts.tokens = std::move(*tokens);
  auto types = read_types(file, parts.tokens.size());
  if (!types) return tl::unexpected(std::move(types.error()));
  parts.types = std::move(*types);
  auto merges = file.get_strings(kMergesKey);
  if (!merges) return bad_vocab(kMergesKey, "must be an array of strings");
  parts.merges = std::move(*merges);
  if (file.has_key(kPreKey)) {
    const auto name = file.require_string(kPreKey);
    if (!name) return tl::unexpected(name.error());
    parts.pre_tokenizer = *name;
  } else {
    parts.pre_tokenizer = "default";
  }
  const std::pair<std::string_view, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &parts.bos},
      {"tokenizer.ggml.eos_token_id", &parts.eos},
      {"tokenizer.ggml.eot_token_id", &parts.eot},
  };
  for (const auto& [key, target] : ids) {
    auto id = read_id(file, key, parts.tokens.size());
    if (!id) return tl::unexpected(std::move(id.error()));
    *target = *id;
  }
  parts.adds_bos = file.get_bool("tokenizer.ggml.add_bos_token").value_or(false);
  return from_parts(parts);
}

tl::expected<Tokenizer, LoadError> Tokenizer::from_parts(const TokenizerParts& parts) {
  Tokenizer tokenizer;
  const auto pre = find_pre_tokenizer(parts.pre_tokenizer);
  if (!pre) {
    return bad_vocab(kPreKey, "pre-tokenizer " + printable_text(parts.pre_tokenizer) +
                                  " is not supported (gpt-2, default, smollm and starcoder are)");
  }
  tokenizer.pre_tokenizer_ = *pre;
  tokenizer.pre_tokenizer_name_ = parts.pre_tokenizer;
  if (auto done = tokenizer.add_tokens(parts); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  if (auto done = tokenizer.add_special_tokens(parts); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  if (auto done = tokenizer.add_merges(parts); !done) {
    return tl::unexpected(std::move(done.error()));
  }
  return tokenizer;
}

tl::expected<void, LoadError> Tokenizer::add_tokens(const TokenizerParts& parts) {
  const std::size_t count = parts.tokens.size();
  if (count == 0 || count > TokenizerLimits::kMaxVocabulary) {
    return bad_vocab(kTokensKey, std::to_string(count) + " tokens (1 to " +
                                     std::to_string(TokenizerLimits::kMaxVocabulary) +
                                     " are allowed)");
  }
  if (!parts.types.empty() && parts.types.size() != count) {
    return bad_vocab(kTypesKey, "has not one entry per token");
  }
  types_ = parts.types;
  types_.resize(count, TokenType::Normal);
  begins_.reserve(count + 1);
  begins_.push_back(0);
  byte_tokens_.fill(kNoToken);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string_view spelled = parts.tokens[id];
    if (spelled.size() > TokenizerLimits::kMaxTokenBytes) {
      return bad_vocab(kTokensKey, "token " + std::to_string(id) + " has " +
                                       std::to_string(spelled.size()) + " bytes (limit " +
                                       std::to_string(TokenizerLimits::kMaxTokenBytes) + ")");
    }
    if (bytes_.size() + spelled.size() > std::numeric_limits<std::uint32_t>::max()) {
      return bad_vocab(kTokensKey, "all tokens together have more than 4 GiB");
    }
    append_token_bytes(spelled, types_[id], bytes_);
    begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    const std::string_view bytes = token_bytes(static_cast<TokenId>(id));
    longest_token_bytes_ = std::max(longest_token_bytes_, bytes.size());
    const bool is_plain = types_[id] == TokenType::Normal || types_[id] == TokenType::Byte;
    if (is_plain && bytes.size() == 1) {
      TokenId& byte_token = byte_tokens_[static_cast<unsigned char>(bytes[0])];
      if (byte_token == kNoToken) byte_token = static_cast<TokenId>(id);
    }
  }
  return {};
}

tl::expected<void, LoadError> Tokenizer::add_special_tokens(const TokenizerParts& parts) {
  for (const auto& id : {parts.bos, parts.eos, parts.eot}) {
    if (id && *id >= vocab_size()) {
      return bad_vocab("tokenizer.ggml", "a bos, eos or eot id is not below the vocabulary size");
    }
  }
  bos_ = parts.bos;
  eos_ = parts.eos;
  adds_bos_ = parts.adds_bos && bos_.has_value();
  ends_generation_.resize(vocab_size(), false);
  if (parts.eos) ends_generation_[*parts.eos] = true;
  if (parts.eot) ends_generation_[*parts.eot] = true;
  std::vector<std::pair<std::string, TokenId>> names;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (types_[id] != TokenType::Control && types_[id] != TokenType::UserDefined) continue;
    const std::string_view name = token_bytes(id);
    if (name.empty() || name.size() > TokenizerLimits::kMaxSpecialTokenBytes) {
      return bad_vocab(kTokensKey, "special token " + std::to_string(id) + " has " +
                                       std::to_string(name.size()) + " bytes (1 to " +
                                       std::to_string(TokenizerLimits::kMaxSpecialTokenBytes) +
                                       " are allowed)");
    }
    const bool is_end = types_[id] == TokenType::Control &&
                        std::find(kEndNames.begin(), kEndNames.end(), name) != kEndNames.end();
    if (is_end) ends_generation_[id] = true;
    names.emplace_back(name, id);
  }
  special_ = SpecialTokens(std::move(names));
  return {};
}

tl::expected<void, LoadError> Tokenizer::add_merges(const TokenizerParts& parts) {
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(parts.tokens.size());
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (types_[id] == TokenType::Normal) ids.emplace(parts.tokens[id], id);
  }
  merges_ = MergeTable(parts.merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const std::string_view merge = parts.merges[rank];
    const std::size_t gap = merge.find(' ');
    if (gap == std::string_view::npos || gap == 0 || gap + 1 == merge.size() ||
        merge.find(' ', gap + 1) != std::string_view::npos) {
      return bad_vocab(kMergesKey, "merge " + std::to_string(rank) +
                                       " is not two symbols with one space between them");
    }
    joined.assign(merge.substr(0, gap)).append(merge.substr(gap + 1));
    const auto left = ids.find(merge.substr(0, gap));
    const auto right = ids.find(merge.substr(gap + 1));
    const auto result = ids.find(joined);
    if (left == ids.end() || right == ids.end() || result == ids.end()) {
      return bad_vocab(kMergesKey, "merge " + std::to_string(rank) +
                                       " names a token that is not in the vocabulary");
    }
    merges_.insert(left->second, right->second, {static_cast<std::uint32_t>(rank), result->second});
  }
  merges_.find_order(vocab_size());
  // A piece that is a token may be looked up only if merging would arrive at that token too.
  whole_pieces_ = PieceTable(ids.size());
  std::vector<TokenId> merged;
  for (const auto& [spelled, id] : ids) {
    const std::string_view bytes = token_bytes(id);
    merged.clear();
    merge_piece(bytes, merged);
    if (merged.size() == 1 && merged[0] == id) {
      whole_pieces_.insert(PieceTable::hash_of(bytes), id);
    }
  }
  return {};
}

}  // namespace turnstile::engine
