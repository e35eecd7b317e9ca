// step_output.h: what one engine step produced, as one value that crosses to the I/O thread.
//
// Events of one request come in this order:
//
//   Bound  (PromptComputed)*  (Token | Paused | Resumed | PromptComputed)*  Finished per choice
//
// Exactly one Finished event for each choice of an added request, whatever happens to it; the one
// with `request_done` set is the request's last event, and its blocks and slots are free then.
// Text, top log-probabilities live in shared arrays so that a step allocates nothing once the
// arrays have grown: the receiver returns the object for reuse.
//
// Thread: written by the engine thread, then owned by whoever holds the value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/token_id.h"

namespace turnstile::engine {

enum class EventKind : std::uint8_t { Bound, PromptComputed, Token, Paused, Resumed, Finished };

enum class FinishReason : std::uint8_t {
  StopToken,   // an end-of-generation token or one of stop.token_ids; `token` tells which. It was
               // generated, so it counts as a completion token, but has no Token event and no text
  StopString,  // `stop_index` tells which of stop.strings
  Length,      // max_tokens generated
  Cancelled,   // Engine::cancel
  Fault        // the engine cannot go on with it; a bug or a device failure
};

struct Event {
  EventKind kind = EventKind::Token;
  FinishReason finish = FinishReason::StopToken;  // Finished
  bool request_done = false;                      // Finished: the last choice
  std::uint16_t choice = 0;
  RequestId request = 0;
  TokenId token = 0;                 // Token; Finished by StopToken
  std::uint32_t stop_index = 0;      // Finished by StopString
  // Token and Finished: text that may be sent now, whole characters only, in StepOutput::text. A
  // token may bring none (part of a character, or text that may still become a stop string), the
  // Finished event brings what was held back and is not part of a stop string.
  std::uint32_t text_offset = 0;
  std::uint32_t text_bytes = 0;
  // Token and Finished by StopToken, when log-probabilities were asked for: the chosen token's, and
  // its best alternatives in StepOutput::top_logprobs, best first.
  float logprob = 0.0F;
  std::uint32_t top_offset = 0;
  std::uint32_t top_count = 0;
  // Bound: prompt tokens found in the prefix cache. PromptComputed: prompt tokens computed in this
  // step for this request (recomputation after a pause is counted in `recomputed` alone).
  std::uint32_t tokens = 0;
  std::uint32_t recomputed = 0;
  // Bound, Token, Paused, Resumed: KV blocks that the request holds after this step, shared blocks
  // counted once a holder.
  std::uint32_t held_blocks = 0;
};

struct TopLogprob {
  TokenId token = 0;
  float logprob = 0.0F;
};

// Gauges after the step and amounts of the step; the engine thread adds times.
struct StepStats {
  std::uint32_t rows = 0;                // tokens computed in the step
  std::uint32_t prompt_rows = 0;         // of them prompt tokens
  std::uint32_t running_sequences = 0;   // hold blocks
  std::uint32_t waiting_sequences = 0;   // added or paused, without blocks
  std::uint32_t preemptions = 0;         // sequences paused in this step
  std::uint32_t cache_query_tokens = 0;  // prompt tokens looked up in the prefix cache
  std::uint32_t cache_hit_tokens = 0;
  // Speculation: sequences with guesses, guesses computed, and guesses that each saved a step: so
  // many tokens have those sequences got beyond one each. What came true behind the end of a text
  // (end token, stop string) is computed and not accepted.
  std::uint32_t drafts = 0;
  std::uint32_t draft_tokens = 0;
  std::uint32_t accepted_tokens = 0;
  std::uint64_t free_blocks = 0;         // free or reclaimable
  std::uint64_t total_blocks = 0;
  // The learned cost of a step (step_cost.h); 0 until something is known.
  double step_base_ms = 0.0;
  double step_row_ms = 0.0;
  double step_kv_byte_ms = 0.0;
};

struct StepOutput {
  std::vector<Event> events;
  std::vector<TopLogprob> top_logprobs;
  std::string text;
  StepStats stats;

  std::string_view text_of(const Event& event) const {
    return std::string_view(text).substr(event.text_offset, event.text_bytes);
  }
  std::span<const TopLogprob> top_of(const Event& event) const {
    return std::span(top_logprobs).subspan(event.top_offset, event.top_count);
  }
  void clear() {
    events.clear();
    top_logprobs.clear();
    text.clear();
    stats = StepStats{};
  }
};

}  // namespace turnstile::engine
