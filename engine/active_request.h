// active_request.h: a request and its choices while the engine has them.
//
// Address-stable: sequences and texts point into it. Built by Engine::add(), destroyed at the end
// of the step that reports its last Finished event.
//
// Thread: engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/completion_text.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/stop_matcher.h"
#include "engine/token_counts.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {

struct Choice {
  Sequence sequence;
  CompletionText text;
  TokenCounts counts;

  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(sequence.tokens.size()) - sequence.prompt_tokens;
  }
};

struct ActiveRequest {
  // All memory that the request will need while it runs is taken here.
  ActiveRequest(Request incoming, std::uint64_t arrival, std::span<const TokenId> file_end_tokens,
                std::uint32_t most_drafts);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  bool ends_at(TokenId token) const;
  // Blocks over all choices; a shared block counts once a holder.
  std::uint32_t held_blocks() const;
  // Choice 0 has computed the prompt and the others do not exist yet.
  bool has_unborn_choices() const {
    return choices.size() > 1 && choices.back().sequence.phase == SequencePhase::Unborn;
  }

  Request request;
  StopStrings stops;
  std::vector<TokenId> end_tokens;  // sorted: the file's, unless ignored, and the request's
  std::vector<Choice> choices;
  std::uint32_t open_choices;
  bool cancelled = false;
};

}  // namespace turnstile::engine
