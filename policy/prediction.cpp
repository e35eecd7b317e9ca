// When will the first token come, and is that soon enough: the gate would_miss_deadline.
//
// Two bounds hold together. The engine must first work through what is served before: prompts that
// are being computed, waiting requests of higher classes, the own queue and what the weights give
// to siblings meanwhile. And slots, cache blocks and the own team's limits must be free, which
// happens when running requests reach their usual length.
#include <algorithm>
#include <cassert>

#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

// A prediction that uses up the last fifth of the time is no promise.
constexpr std::int64_t kTenthsOfDeadline = 8;
constexpr Duration kShortestRetry = std::chrono::milliseconds(100);

constexpr Duration kLongestRetry = std::chrono::minutes(10);
constexpr Duration kRetryWithoutFacts = std::chrono::seconds(1);

Duration in_good_time(Duration target) { return target / 10 * kTenthsOfDeadline; }

std::int64_t in_ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

void Admission::State::refresh_releases() {
  if (releases_are_stale) collect_releases();
}

// Running requests by their expected end, soonest first.
void Admission::State::collect_releases() {
  releases_are_stale = false;
  releases.clear();
  for (const Request* request : on_engine) {
    releases.push_back({expected_rest(*request), request->id, request->size.choices,
                        request->lease.held(kv_blocks), &request->path});
  }
  std::ranges::sort(releases, [](const Release& a, const Release& b) {
    return std::pair(a.after, a.id) < std::pair(b.after, b.id);
  });
}

// Until running requests have given back what the request and those ahead of it need.
Duration Admission::State::until_room(const Request& request, std::int64_t ahead_units,
                                      std::int64_t requests_behind) {
  refresh_releases();
  if (releases.empty()) return Duration{0};
  // Of all that waits, the part that is ahead needs its part of slots and blocks.
  Duration wait = until_released(ahead_units, request.size.choices, expected_blocks(request));
  for (const Principal* node : request.path) {
    wait = std::max(wait, until_may_run(*node, node->queue.committed() + 1 - requests_behind));
  }
  return wait;
}

// Until there are so many slots and blocks beyond what those ahead take.
Duration Admission::State::until_released(std::int64_t ahead_units, std::int64_t slots,
                                          std::int64_t blocks) const {
  std::int64_t waiting_units = 0;
  for (ClassIndex c = 0; c < policy->classes.size(); ++c) {
    waiting_units += shares.waiting_units(ShareTree::kRoot, c);
  }
  const auto part_ahead = [&](std::int64_t waiting) {
    return waiting_units > 0 ? waiting * std::min(ahead_units, waiting_units) / waiting_units : 0;
  };
  slots += part_ahead(waiting_slots) - (*sequence_slots.capacity() - sequence_slots.committed());
  blocks += part_ahead(waiting_blocks) - (*kv_blocks.capacity() - kv_blocks.committed());
  Duration wait{0};
  for (const Release& release : releases) {
    if (slots <= 0 && blocks <= 0) break;
    slots -= release.slots;
    blocks -= release.blocks;
    wait = release.after;
  }
  return wait;
}

// Until so many requests of the node have ended that `queued` more may run.
Duration Admission::State::until_may_run(const Principal& node, std::int64_t queued) const {
  if (!node.inflight.capacity()) return Duration{0};
  std::int64_t ends = node.inflight.committed() + queued - *node.inflight.capacity();
  Duration wait{0};
  std::int64_t seen = 0;
  for (const Release& release : releases) {
    if (ends <= 0) return wait;
    if (std::ranges::find(*release.path, &node) == release.path->end()) continue;
    wait = release.after;
    ends -= 1;
    seen += 1;
  }
  // More ends are needed than requests run: the rest takes turns of the same length.
  return seen == 0 ? wait : wait + wait * (std::max<std::int64_t>(0, ends) / seen);
}

// Lower classes that wait take their floors out of the service.
Duration Admission::State::beside_floors(ClassIndex class_index, Duration raw) const {
  std::int64_t lower_floors = 0;
  for (ClassIndex c = class_index + 1; c < policy->classes.size(); ++c) {
    if (shares.ready(ShareTree::kRoot, c)) lower_floors += policy->classes[c].floor_ppm;
  }
  return raw + raw / (1'000'000 - lower_floors) * lower_floors;
}

std::optional<Prediction> Admission::State::predict(const Request& request, bool starts,
                                                    ShareTree::Counting counting) {
  if (running == 0 || !predictor.knows_pace()) return std::nullopt;
  const ClassIndex class_index = request.class_index;
  const std::int64_t own =
      kUnitsPerPromptToken * (request.size.prompt_tokens - request.cached_hint);
  Prediction prediction;
  Duration until_free{0};
  if (!starts) {
    // Who keeps a place stands before those of its key that came later.
    const auto behind = request.keeps_place ? room.behind(entry_of(request))
                                            : WaitingRoom::Backlog{};
    prediction.ahead_units =
        shares.units_ahead(request.key->share, class_index, own, counting, behind.units);
    for (ClassIndex higher = 0; higher < class_index; ++higher) {
      prediction.ahead_units += shares.work(ShareTree::kRoot, higher, counting);
    }
    until_free = until_room(request, prediction.ahead_units, behind.requests);
  }
  prediction.raw = std::max(predictor.time_for(prefill_left + prediction.ahead_units + own),
                            until_free + predictor.time_for(own));
  prediction.raw = beside_floors(class_index, prediction.raw);
  prediction.likely = predictor.likely(class_index, prediction.raw);
  prediction.safe = predictor.safe(class_index, prediction.raw);
  return prediction;
}

std::optional<Refusal> Admission::State::check_first_token(Instant now, Request& request,
                                                           bool starts, Queued& queued) {
  queued.prediction = predict(request, starts,
                              request.keeps_place ? ShareTree::Counting::Waiting
                                                  : ShareTree::Counting::AndKept);
  if (!queued.prediction) return std::nullopt;
  if (!starts) request.predicted = queued.prediction->raw;
  request.predicted_at = now;
  if (policy->classes[request.class_index].allow_late) return std::nullopt;
  const Duration limit = in_good_time(request.first_token_within);
  const Duration expected = now - request.arrived + queued.prediction->likely;
  if (expected <= limit) return std::nullopt;
  Refusal refusal;
  refusal.code = RefusalCode::WouldMissDeadline;
  refusal.meter = "prefill_backlog";
  refusal.scope = queue_by_class[request.class_index].scope();
  refusal.limit = in_ms(limit);
  refusal.committed = prefill_left + queued.prediction->ahead_units;
  refusal.asked = in_ms(expected);
  refusal.retry_after = until_in_time(now, request);
  return refusal;
}

// Until a request like this one would be in good time, after all who were told to come before: at a
// prediction between the median and the ninth decile, since the told part of the work is certain to
// come and only its pace is not. Where requests are let in although they will be late, nothing but
// its wait keeps one in time: then at the ninth decile, and with half the time to spare.
Duration Admission::State::until_in_time(Instant, const Request& request) {
  const auto prediction = predict(request, false, ShareTree::Counting::AndTold);
  if (!prediction) return kRetryWithoutFacts;
  const Duration target = in_good_time(request.first_token_within);
  const bool is_late_allowed = policy->classes[request.class_index].allow_late;
  const Duration wait = is_late_allowed
                            ? prediction->safe - target / 2
                            : (prediction->likely + prediction->safe) / 2 - target;
  return std::clamp(wait, kShortestRetry, kLongestRetry);
}

}  // namespace turnstile::policy
