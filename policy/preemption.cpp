// Whom to pause so that a request of a higher class can start in this step.
//
// Only classes with can_preempt pause, only preemptible ones of strictly lower classes are paused,
// nobody more than kMostPauses times, so that what was started is also finished, and nobody that
// was started for the floor of its class, which would be no floor otherwise. The lowest class goes
// first, in it the newest, whose cache is smallest and whose client has waited least. A paused
// request gives slot and blocks back at once, and its own department's, team's and key's place too:
// otherwise it would keep its siblings out while it waits. Its blocks stay in the prefix cache
// until somebody needs them, so resuming often computes little.
#include <algorithm>
#include <cassert>
#include <tuple>

#include "policy/admission_state.h"

namespace turnstile::policy {
namespace {

constexpr std::int64_t kMostPauses = 2;

std::int64_t computed_tokens(const Request& request) {
  return request.size.prompt_tokens - request.prefill_left + request.ledger.generated_tokens();
}

bool goes_sooner(const Request* a, const Request* b) {
  return std::tuple(b->class_index, b->started, computed_tokens(*a), b->id) <
         std::tuple(a->class_index, a->started, computed_tokens(*b), a->id);
}

}  // namespace

bool Admission::State::fits_without(const Request& request, std::int64_t watermark_ppm,
                                    std::span<Request* const> paused) {
  std::int64_t freed_slots = 0;
  for (const Request* victim : paused) freed_slots += victim->size.choices;
  return sequence_slots.fits(request.size.choices - freed_slots, watermark_ppm) &&
         keeps_gaps(request, paused) &&
         kv_peak(request, paused) <= Meter::part_of(*kv_blocks.capacity(), watermark_ppm);
}

// Empty when pausing does not help or is not allowed.
std::vector<Request*> Admission::State::find_victims(const Request& request,
                                                     std::int64_t watermark_ppm) {
  std::vector<Request*> victims;
  if (!policy->classes[request.class_index].can_preempt) return victims;
  std::vector<Request*> candidates;
  for (Request* other : on_engine) {
    const bool may_go = other->class_index > request.class_index &&
                        policy->classes[other->class_index].preemptible &&
                        other->pauses < kMostPauses && !other->for_its_floor &&
                        !other->unreported;
    if (may_go) candidates.push_back(other);
  }
  std::ranges::sort(candidates, goes_sooner);
  for (Request* candidate : candidates) {
    victims.push_back(candidate);
    if (fits_without(request, watermark_ppm, victims)) break;
  }
  if (victims.empty() || !fits_without(request, watermark_ppm, victims)) return {};
  // Who was added early may prove unnecessary beside a larger one that came later.
  for (std::size_t i = 0; i < victims.size();) {
    std::vector<Request*> fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits_without(request, watermark_ppm, fewer)) {
      victims = std::move(fewer);
    } else {
      i += 1;
    }
  }
  return victims;
}

void Admission::State::pause(Request& victim, RequestId by) {
  assert(victim.phase == Phase::Running && "only what runs is paused");
  victim.phase = Phase::Paused;
  victim.pauses += 1;
  victim.blocks_returned = 0;
  running -= 1;
  std::erase(on_engine, &victim);
  releases_are_stale = true;
  set_prefill_left(victim, 0);
  victim.lease.release();
  refresh_gates(victim.path);
  const std::int64_t generated = victim.ledger.generated_tokens();
  const std::int64_t left =
      std::max<std::int64_t>(1, victim.estimated_completion_tokens - generated);
  WaitingRoom::Entry& entry = victim.entry;
  entry.id = victim.id;
  entry.leaf = victim.key->share;
  entry.class_index = victim.class_index;
  entry.deadline = victim.deadline;
  entry.units = kUnitsPerGeneratedToken * left;
  const WaitingRoom::Entry before = entry_of(victim);
  entry.stands_at = before.stands_at;
  entry.kept_deadline = before.kept_deadline;
  entry.was_started = true;
  entry.order = victim.order;
  enter_room(victim);
  unreported.emplace_back(std::in_place_type<Pause>, Pause{victim.id, by});
}

}  // namespace turnstile::policy
