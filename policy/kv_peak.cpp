// How many cache blocks the running requests will need at the worst moment.
//
// A request of a class with length_quantile 1, or with several choices, reserves all it may ever
// need. Others hold what they use and are expected to grow to the quantile of their class's answers
// that got as far. Requests end at different times, so the worst moment is not the sum of all
// largest sizes: with the longest first, it is reached when one of them ends, while those that last
// longer have grown as far (future peak, after LightLLM's Past-Future scheduler).
//
// A guess that proves too short costs a pause in the engine, never a failure: the engine has the
// last word about its blocks.
#include <algorithm>
#include <cassert>

#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

constexpr std::int64_t kAlways = 1'000'000;
constexpr std::int64_t kAskEvery = 16;  // tokens, at least
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

}  // namespace

std::int64_t Admission::State::blocks_for(std::int64_t tokens) const {
  // Divided as 32 bits, which takes half the time; asked of every request that runs.
  assert(tokens >= 0 && tokens <= kMostTokens && "a sequence fits its context");
  return static_cast<std::uint32_t>(tokens + engine.block_tokens - 1) /
         static_cast<std::uint32_t>(engine.block_tokens);
}

void Admission::State::decide_reservation(Request& request) const {
  request.reserves_worst_case =
      request.size.choices > 1 ||
      policy->classes[request.class_index].length_quantile_ppm >= kAlways;
  if (!request.reserves_worst_case) expect_length(request);
}

// Of an answer that has come so far. The quantile moves slowly, so it is asked again only when the
// answer has grown by its half, or has reached it.
void Admission::State::expect_length(Request& request) const {
  const std::int64_t generated = request.ledger.generated_tokens();
  const auto length = length_of(request).at(
      policy->classes[request.class_index].length_quantile_ppm, generated);
  request.expected_length = length.value_or(request.size.max_tokens);
  request.ask_again_at = std::min(request.expected_length,
                                  generated + std::max(kAskEvery, generated / 2));
}

// At the start: the prompt and the first token; after a pause what was generated as well.
std::int64_t Admission::State::first_blocks(const Request& request) const {
  if (request.reserves_worst_case) return request.size.kv_blocks;
  return std::min(request.size.kv_blocks,
                  blocks_for(request.size.prompt_tokens + request.ledger.generated_tokens() + 1));
}

// At its usual end.
std::int64_t Admission::State::expected_blocks(const Request& request) const {
  if (request.reserves_worst_case) return request.size.kv_blocks;
  return blocks_for(request.size.prompt_tokens + request.estimated_completion_tokens);
}

Admission::State::Growth Admission::State::growth_of(const Request& request) const {
  const std::int64_t all = request.ledger.generated_tokens();
  const std::int64_t generated = request.size.choices == 1 ? all : all / request.size.choices;
  Growth growth;
  growth.tokens_left = std::max<std::int64_t>(1, request.size.max_tokens - generated);
  growth.held = request.phase == Phase::Running ? request.lease.held(kv_blocks)
                                                : first_blocks(request);
  growth.grows = !request.reserves_worst_case;
  if (!growth.grows) return growth;
  growth.tokens_left =
      std::clamp<std::int64_t>(request.expected_length - generated, 1, growth.tokens_left);
  return growth;
}

// `paused`: running requests that are about to go.
std::int64_t Admission::State::kv_peak(const Request& candidate,
                                       std::span<Request* const> paused) {
  growths.clear();
  growths.push_back(growth_of(candidate));
  std::int64_t worst_case = candidate.size.kv_blocks;
  for (Request* running_request : on_engine) {
    if (std::ranges::find(paused, running_request) != paused.end()) continue;
    growths.push_back(growth_of(*running_request));
    worst_case += running_request->size.kv_blocks;
  }
  std::ranges::sort(growths, std::ranges::greater{}, &Growth::tokens_left);
  std::int64_t peak = 0;
  std::int64_t held = 0;
  std::int64_t growing = 0;
  for (const Growth& next_to_end : growths) {
    held += next_to_end.held;
    growing += next_to_end.grows ? 1 : 0;
    peak = std::max(peak, held + growing * blocks_for(next_to_end.tokens_left));
  }
  // Blocks are rounded up for each of them, which must not keep a request from an empty engine.
  return std::min(peak, worst_case);
}

// What a running request has grown by since the last step. The books stay inside the cache: when
// prefixes are shared, requests hold fewer blocks than they count, and the engine has room yet.
void Admission::State::cover_growth(Request& request) {
  if (request.reserves_worst_case || request.phase != Phase::Running) return;
  if (request.ledger.generated_tokens() >= request.ask_again_at) expect_length(request);
  const std::int64_t positions =
      request.size.prompt_tokens + request.ledger.generated_tokens() + 1;
  const std::int64_t wanted =
      std::min(request.size.kv_blocks, blocks_for(positions)) - request.blocks_returned;
  const std::int64_t more = std::min(wanted - request.lease.held(kv_blocks),
                                     *kv_blocks.capacity() - kv_blocks.committed());
  if (more > 0) request.lease.grow(kv_blocks, more);
}

}  // namespace turnstile::policy
