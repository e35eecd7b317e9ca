#include "engine/ngram_drafter.h"

#include <algorithm>

namespace turnstile::engine {

Continuation find_continuation(std::span<const TokenId> tokens, std::uint32_t shortest,
                               std::uint32_t longest) {
  const std::size_t size = tokens.size();
  std::size_t best_end = size;
  std::size_t best_length = shortest > 0 ? shortest - 1 : 0;
  for (std::size_t end = size - std::min<std::size_t>(size, 1); end > best_length; --end) {
    if (tokens[end - 1] != tokens[size - 1]) continue;
    const std::size_t most = std::min<std::size_t>(longest, end);
    std::size_t length = 1;
    while (length < most && tokens[end - 1 - length] == tokens[size - 1 - length]) ++length;
    if (length <= best_length) continue;
    best_length = length;
    best_end = end;
    if (length == longest) break;
  }
  return {.begin = best_end, .length = best_end < size ? best_length : 0};
}

double NgramDrafter::propose(std::span<Sequence* const> sequences) {
  for (Sequence* sequence : sequences) {
    sequence->draft.clear();
    const std::vector<TokenId>& tokens = sequence->tokens;
    const auto [begin, length] =
        find_continuation(tokens, limits_.prompt_lookup_min, limits_.prompt_lookup_max);
    // A guess that reaches the end goes on with itself: a text that repeats with a period shorter
    // than the draft.
    const std::size_t period = tokens.size() - begin;
    if (period == 0) continue;
    for (std::size_t i = 0; i < sequence->draft_limit; ++i) {
      sequence->draft.push_back(tokens[begin + i % period]);
    }
    sequence->sure_guesses = length == limits_.prompt_lookup_max ? sequence->draft_limit : 0;
  }
  return 0.0;
}

}  // namespace turnstile::engine
