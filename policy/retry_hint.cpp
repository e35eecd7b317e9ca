// How long until a queue has room: the Retry-After of queue_full and queue_deadline.
//
// No promise, since it depends on lengths that nobody knows, but computed from what is known: queue
// deadlines are certain, and a running request is expected to end when it reaches the usual length
// of its key at the measured time per token. The predictor of a later version takes this place.
#include <algorithm>

#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

constexpr Duration kShortestHint = std::chrono::milliseconds(100);
constexpr Duration kLongestHint = std::chrono::minutes(10);
constexpr Duration kHintWithoutFacts = std::chrono::seconds(1);

Duration bounded(std::optional<Duration> hint) {
  return std::clamp(hint.value_or(kHintWithoutFacts), kShortestHint, kLongestHint);
}

void keep_shorter(std::optional<Duration>& hint, Duration other) {
  if (!hint || other < *hint) hint = other;
}

}  // namespace

void Admission::State::learn_pace(Instant now, Request& request, std::int64_t generated) {
  if (generated <= 0) return;
  if (request.last_tokens_at) {
    const std::int64_t per_choice = std::max<std::int64_t>(1, generated / request.size.choices);
    const std::int64_t sample = (now - *request.last_tokens_at).count() / per_choice;
    pace_ns += (sample - pace_ns) / 8;
  }
  request.last_tokens_at = now;
}

// Of a running request: to its usual length, or, past it, half as long again; never past
// max_tokens.
Duration Admission::State::expected_rest(const Request& request) const {
  const std::int64_t choices = request.size.choices;
  const std::int64_t generated = request.ledger.generated_tokens() / choices;
  const std::int64_t usual = request.estimated_completion_tokens / choices;
  const std::int64_t at_most = std::max<std::int64_t>(1, request.size.max_tokens - generated);
  const std::int64_t rest = generated < usual ? usual - generated : generated / 2 + 1;
  return Duration{std::min(rest, at_most) * pace_ns};
}

// `scope` null: any request can free the place.
Duration Admission::State::until_place(Instant now, const Request& request,
                                       const Principal* scope) const {
  const auto in_scope = [&](const Request& other) {
    return scope == nullptr || std::ranges::find(other.path, scope) != other.path.end();
  };
  std::optional<Duration> hint;
  for (const auto& [id, other] : requests) {
    if (&other == &request || !in_scope(other)) continue;
    if (other.phase == Phase::Running) keep_shorter(hint, expected_rest(other));
    if (other.phase == Phase::Waiting) keep_shorter(hint, other.deadline - now);
  }
  return bounded(hint);
}

Duration Admission::State::until_served(Instant, ClassIndex class_index) const {
  std::optional<Duration> first_end;
  std::int64_t ahead = 1;
  for (const auto& [id, other] : requests) {
    if (other.phase == Phase::Running) keep_shorter(first_end, expected_rest(other));
    if (other.phase == Phase::Waiting && other.class_index <= class_index) ahead += 1;
  }
  if (!first_end) return bounded(std::nullopt);
  return bounded(std::min(*first_end, kLongestHint) * ahead);
}

}  // namespace turnstile::policy
