// sequence.h: one generated stream, as the scheduler sees it.
//
//   tokens    [ prompt ............ | completion ... ]      known tokens
//   computed  ------------------>|                          K/V lies in `table`
//   remaining                    |<------------------>      what the next steps compute
//
// There is no phase "prefill" or "decode": every step moves `computed` towards tokens.size(). When
// it arrives, the logits of the last token give one token more. A paused sequence goes back to
// computed == 0 and keeps its tokens.
//
//   Unborn --fork--> Running <--> Waiting        choice 0 starts Waiting; the other choices are
//                       |            |           Unborn until choice 0 has computed the prompt
//                       +-> Finished <+
//
// Aside: the caller paused its request. It waits in no list until the request is resumed.
//
// Drafts (drafter.h) are never known tokens: they follow `tokens` only while the model runs.
//
// Thread: engine thread only; a value without behaviour, changed by Scheduler and Engine.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/acceptance.h"
#include "engine/block_table.h"
#include "engine/token_id.h"

namespace turnstile::engine {

// Who is served first: the smaller one. No two sequences are equal.
struct SequenceOrder {
  std::int32_t priority = 0;
  std::uint64_t deadline = 0;
  std::uint64_t arrival = 0;
  std::uint16_t choice = 0;
  auto operator<=>(const SequenceOrder&) const = default;
};

enum class SequencePhase : std::uint8_t { Unborn, Waiting, Running, Aside, Finished };

struct ActiveRequest;

struct Sequence {
  ActiveRequest* request = nullptr;  // whose choice it is; the scheduler does not look into it
  SequenceOrder order;
  SequencePhase phase = SequencePhase::Unborn;
  bool has_run = false;             // was admitted before: the next admission is a resume
  std::uint16_t slots = 1;          // that it takes while running: its own and its unborn choices'
  std::uint32_t prompt_tokens = 0;
  std::uint32_t final_tokens = 0;   // prompt and max_tokens
  std::uint32_t computed = 0;
  std::uint32_t computed_once = 0;  // high-water mark of `computed`: below it, rows are repeated
  float token_gap_ms = 0.0F;        // of the request
  double turn_ms = 0.0;             // among decodes that may rest: the least one is next
  std::vector<TokenId> tokens;      // has room for final_tokens
  BlockTable table;                 // empty unless Running

  // Speculation. The guesses for the positions from tokens.size() on; how many may be made in this
  // step; of how many, the first ones, the drafter is rather sure; how often guesses came true.
  std::vector<TokenId> draft;
  std::uint32_t draft_limit = 0;
  std::uint32_t sure_guesses = 0;
  Acceptance acceptance;

  std::uint32_t remaining() const { return static_cast<std::uint32_t>(tokens.size()) - computed; }
};

}  // namespace turnstile::engine
