// How long until a queue has room: the Retry-After of queue_full and displaced. That of the other
// codes of the queue, until a prediction is in time, is in prediction.cpp.
//
// Computed as a prediction is: the work that is served before enough places are given up, at the
// measured pace, but not before running requests have reached their usual length and given back
// slots, nor the scope's own limit of running requests lets so many start; corrected by what
// predictions of the class have missed. Who waits gives up its place at its deadline at the latest.
#include <algorithm>
#include <vector>

#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

constexpr Duration kShortestHint = std::chrono::milliseconds(100);
constexpr Duration kLongestHint = std::chrono::minutes(10);
constexpr Duration kHintWithoutFacts = std::chrono::seconds(1);

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
  std::int64_t generated = request.ledger.generated_tokens();
  std::int64_t usual = request.estimated_completion_tokens;
  // Nearly always one, and a prediction asks this of every request that runs.
  if (const std::int64_t choices = request.size.choices; choices > 1) {
    generated /= choices;
    usual /= choices;
  }
  const std::int64_t at_most = std::max<std::int64_t>(1, request.size.max_tokens - generated);
  const std::int64_t rest = generated < usual ? usual - generated : generated / 2 + 1;
  return Duration{std::min(rest, at_most) * pace_ns};
}

// So many units must be served first that `wanted` of what is committed at the meter is given up,
// by those who stand in front: the scope's work, class by class, and what its siblings get then.
std::int64_t Admission::State::units_until_place(const Request& request, const PlaceNeed& need,
                                                 std::int64_t wanted) const {
  const ClassIndex own = request.class_index;
  const bool of_class = need.meter == &queue_by_class[own] ||
                        need.meter == &queue_tokens_by_class[own];
  const ShareTree::NodeIndex node =
      need.scope != nullptr ? need.scope->share : ShareTree::kRoot;
  const auto classes = static_cast<ClassIndex>(policy->classes.size());
  const ClassIndex first = of_class ? own : 0;
  const ClassIndex last = of_class ? own : classes - 1;
  std::int64_t ahead = 0;
  for (ClassIndex c = 0; c < first; ++c) ahead += shares.waiting_units(ShareTree::kRoot, c);
  std::int64_t in_scope = 0;
  for (ClassIndex c = first; c <= last; ++c) in_scope += shares.waiting_units(node, c);
  std::int64_t left = in_scope * wanted / std::max<std::int64_t>(1, need.meter->committed());
  for (ClassIndex c = first; c <= last; ++c) {
    const std::int64_t here = shares.waiting_units(node, c);
    if (left <= here || c == last) {
      return ahead + left + shares.units_beside(node, c, left, ShareTree::Counting::Waiting);
    }
    ahead += shares.waiting_units(ShareTree::kRoot, c);
    left -= here;
  }
  return ahead;
}

// The latest: so many have waited for as long as they may.
std::optional<Duration> Admission::State::until_given_up(Instant now, const PlaceNeed& need,
                                                         std::int64_t requests_to_go) const {
  std::vector<Instant> deadlines;
  room.for_each([&](const WaitingRoom::Entry& entry) {
    if (!entry.was_started && requests.at(entry.id).place.held(*need.meter) > 0) {
      deadlines.push_back(entry.deadline);
    }
  });
  if (requests_to_go > static_cast<std::int64_t>(deadlines.size())) return std::nullopt;
  const auto nth = deadlines.begin() + (requests_to_go - 1);
  std::ranges::nth_element(deadlines, nth);
  return *nth - now;
}

// Until the meter has room for the request, after all who were told to come before it.
Duration Admission::State::until_place(Instant now, const Request& request,
                                       const PlaceNeed& need) {
  const Meter& meter = *need.meter;
  const std::int64_t room_left =
      Meter::part_of(*meter.capacity(), need.watermark_ppm) - meter.committed();
  // Who were told to come scatter: at the last place another would often have been faster.
  const std::int64_t to_spare = std::min(2 * need.amount, *meter.capacity() / 2);
  const std::int64_t wanted =
      std::max<std::int64_t>(1, need.amount + to_spare + meter.awaited().told - room_left);
  const std::int64_t committed = std::max<std::int64_t>(1, meter.committed());
  const std::int64_t waiting = need.scope != nullptr ? need.scope->queue.committed() : room.size();
  const std::int64_t requests_to_go =
      std::max<std::int64_t>(1, (waiting * wanted + committed - 1) / committed);

  refresh_releases();
  if (releases.empty()) return kHintWithoutFacts;
  const std::int64_t ahead = units_until_place(request, need, wanted);
  Duration wait = std::max(predictor.time_for(prefill_left + ahead), until_released(ahead, 1, 0));
  if (need.scope != nullptr) {
    wait = std::max(wait, until_may_run(*need.scope, requests_to_go));
  }
  // Nine of ten shall find it free.
  wait = predictor.safe(request.class_index, beside_floors(request.class_index, wait));
  if (const auto given_up = until_given_up(now, need, requests_to_go)) {
    wait = std::min(wait, *given_up);
  }
  return std::clamp(wait, kShortestHint, kLongestHint);
}

}  // namespace turnstile::policy
