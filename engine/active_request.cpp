#include "engine/active_request.h"

#include <algorithm>
#include <utility>

namespace turnstile::engine {

ActiveRequest::ActiveRequest(Request incoming, std::uint64_t arrival,
                             std::span<const TokenId> file_end_tokens, std::uint32_t most_drafts)
    : request(std::move(incoming)),
      stops(request.stop.strings),
      end_tokens(request.stop.token_ids),
      open_choices(request.choices) {
  if (!request.stop.ignore_eos) {
    end_tokens.insert(end_tokens.end(), file_end_tokens.begin(), file_end_tokens.end());
  }
  std::sort(end_tokens.begin(), end_tokens.end());
  end_tokens.erase(std::unique(end_tokens.begin(), end_tokens.end()), end_tokens.end());

  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  const std::uint32_t final_tokens = prompt_tokens + request.stop.max_tokens;
  choices.reserve(request.choices);
  for (std::uint32_t i = 0; i < request.choices; ++i) {
    choices.push_back(
        {.sequence = {},
         .text = CompletionText(stops, request.stop.include_stop_string),
         .counts = TokenCounts(request.sampling, request.prompt, request.stop.max_tokens)});
    Sequence& sequence = choices.back().sequence;
    sequence.request = this;
    sequence.order = {request.priority, request.deadline, arrival, static_cast<std::uint16_t>(i)};
    sequence.token_gap_ms = request.token_gap_ms;
    sequence.slots = static_cast<std::uint16_t>(i == 0 ? request.choices : 1);
    sequence.prompt_tokens = prompt_tokens;
    sequence.final_tokens = final_tokens;
    sequence.tokens.reserve(final_tokens);
    sequence.tokens = request.prompt;
    sequence.table.salt = request.salt;
    sequence.table.blocks.reserve(blocks_for(final_tokens));
    sequence.table.keys.reserve(blocks_for(final_tokens));
    sequence.draft.reserve(most_drafts);
  }
}

bool ActiveRequest::ends_at(TokenId token) const {
  return std::binary_search(end_tokens.begin(), end_tokens.end(), token);
}

std::uint32_t ActiveRequest::held_blocks() const {
  std::size_t blocks = 0;
  for (const Choice& choice : choices) blocks += choice.sequence.table.blocks.size();
  return static_cast<std::uint32_t>(blocks);
}

}  // namespace turnstile::engine
