// bpe.h: merges the symbols of one piece.
//
// At every step the neighbouring pair with the lowest rank is merged, the leftmost of equal ones.
// Short pieces are scanned again for each merge. Long ones keep their symbols in a linked list and
// the positions of each rank in a bucket, so that a rank is taken off the heap once however many
// places it merges: a million equal characters cost one pass over each halving of the list. That is
// exact because in an ordered merge list (MergeTable::is_ordered()) no merge makes a pair that
// ranks before it; for other lists each position is queued by itself.
//
// Cost: O(n log n) for n symbols; short pieces do not allocate.
// Tests: tests/engine/tokenizer_bpe_test.cpp (against the definition, random merge lists).
#pragma once

#include <cstddef>
#include <vector>

#include "engine/token_id.h"
#include "engine/tokenizer/merge_table.h"

namespace turnstile::engine {

// Pieces of up to this many symbols take the path without a heap.
inline constexpr std::size_t kShortPieceSymbols = 32;

// Merges the symbols ids[from..] in place; `ids` gets shorter.
void apply_merges(const MergeTable& merges, std::vector<TokenId>& ids, std::size_t from);

}  // namespace turnstile::engine
