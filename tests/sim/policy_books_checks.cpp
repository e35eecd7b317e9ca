// What the books hold Admission to after each step: nobody waits without a reason, requests are
// conserved, and every meter is what follows from the list of requests.
#include <algorithm>
#include <map>

#include "tests/sim/policy_books.h"

namespace turnstile::policy::sim {

bool Books::a_head_does_not_fit(Instant now, ClassIndex class_index,
                                std::int64_t watermark_ppm) const {
  return std::ranges::any_of(requests_, [&](const auto& item) {
    const BookedRequest& request = item.second;
    return request.stage == Stage::Waiting && request.class_index == class_index &&
           passes_gates(request) && is_head(now, request) && !surely_fits(request, watermark_ppm);
  });
}

// The class that is served next is the best with work, or one that is due for its floor.
std::optional<std::string> Books::check_work_conservation(Instant now) const {
  std::optional<ClassIndex> best;
  for (const auto& [id, request] : requests_) {
    if (request.stage != Stage::Waiting || !passes_gates(request)) continue;
    if (!best || request.class_index < *best) best = request.class_index;
  }
  if (!best) return std::nullopt;
  const auto& classes = world_.policy->classes;
  // Where a target for gaps is short, a head may wait for it; the books know nothing of gaps.
  const bool is_paced = std::ranges::any_of(classes, [](const ClassRules& rules) {
    return rules.timeouts.token_gap < std::chrono::seconds(1);
  });
  if (is_paced && std::ranges::any_of(requests_, [](const auto& item) {
        return item.second.stage == Stage::Running;
      })) {
    return std::nullopt;
  }
  if (a_head_does_not_fit(now, *best, classes[*best].watermark_ppm)) return std::nullopt;
  for (ClassIndex c = 0; c < classes.size(); ++c) {
    if (classes[c].floor_ppm > 0 && a_head_does_not_fit(now, c, 1'000'000)) return std::nullopt;
  }
  return "requests wait although every head that may be next fits";
}

std::optional<std::string> Books::check_meters(Instant now, const Admission& admission) const {
  const std::int64_t over = counts.refused + counts.completed + counts.client_gone +
                            counts.timed_out + counts.fault;
  if (counts.arrived != over + admission.queued() + admission.running()) {
    return "arrived is not refused + ended + queued + running";
  }
  std::map<std::string, std::int64_t> running;
  std::map<std::string, std::int64_t> waiting;
  std::map<std::string, std::int64_t> reading;
  std::map<std::string, std::int64_t> waiting_tokens;
  for (const auto& [id, request] : requests_) {
    auto& stage = request.stage == Stage::Running   ? running
                  : request.stage == Stage::Waiting ? waiting
                                                    : reading;
    for (const std::string& scope :
         {"team/" + request.team, "dept/" + request.department,
          "class/" + world_.policy->classes[request.class_index].name,
          std::string("all")}) {
      if (request.stage == Stage::Waiting && request.was_started) continue;  // holds no place
      stage[scope] += 1;
      stage[scope + "/" + world_.policy->classes[request.class_index].name] += 1;
      if (request.stage == Stage::Waiting) waiting_tokens[scope] += request.prompt;
    }
  }
  for (const MeterView& view : admission.meters(now, Admission::Detail::Shared)) {
    const std::size_t slash = view.name.find('/');
    const std::string kind = view.name.substr(0, slash);
    const std::string scope = slash == std::string::npos ? "" : view.name.substr(slash + 1);
    std::int64_t least = 0;
    std::int64_t most = 0;
    if (kind == "kv_blocks") {
      least = most = blocks_;
    } else if (kind == "sequence_slots") {
      least = most = slots_;
    } else if (kind == "inflight") {
      least = most = running[scope];
    } else if (kind == "inflight_by_class") {
      least = most = running[scope];
    } else if (kind == "queue_tokens") {
      least = most = waiting_tokens[scope];
    } else if (kind == "queue") {
      least = waiting[scope];
      most = waiting[scope] + reading[scope];  // a request may be read without a place
    } else if (kind == "requests_per_minute") {
      least = most = rates_.at(scope).tokens_missing(now);
    } else if (kind == "tokens_per_minute") {
      least = most = budgets_.at(scope).deficit.tokens_missing(now);
    }
    if (kind == "requests_per_minute" || kind == "tokens_per_minute") {
      const Deficit& deficit =
          kind == "requests_per_minute" ? rates_.at(scope) : budgets_.at(scope).deficit;
      if (deficit.per_minute == 0) continue;  // a rate of zero shows as empty
    } else if (view.committed > view.capacity) {
      return view.name + " holds more than its capacity";
    }
    if (view.committed < least || view.committed > most) {
      return view.name + " shows " + std::to_string(view.committed) + ", the books say " +
             std::to_string(most);
    }
  }
  return std::nullopt;
}

}  // namespace turnstile::policy::sim
