// pre_tokenizer.h: cuts text into the pieces inside which BPE may merge.
//
// Gpt2 cuts as this pattern does, alternatives in order, greedy:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Smollm first makes every character of category N a piece of its own and then applies the same
// pattern to the stretches between them. So a space before a digit is a piece, and of several
// spaces before a digit all stay together, because the stretch ends there.
//
// Written as linear scanners: no look at a character happens more than twice, nothing recurses.
//
// Tests: tests/engine/tokenizer_pre_test.cpp (against a plain transcription of the pattern).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace turnstile::engine {

enum class PreTokenizer : std::uint8_t { Gpt2, Smollm };

// From the value of `tokenizer.ggml.pre`: "gpt-2" and "default" (what converters write that know
// nothing better) are Gpt2; "smollm" and "starcoder" are Smollm. nullopt for any other name.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name);

// The end of the piece that begins at `begin` (below text.size()); always beyond `begin`.
std::size_t piece_end(PreTokenizer kind, std::string_view text, std::size_t begin);

}  // namespace turnstile::engine
