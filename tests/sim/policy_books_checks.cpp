// What the books hold Admission to after each step: nobody waits without a reason, requests are
// conserved, and every meter is what follows from the list of requests.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "tests/sim/policy_books.h"

namespace turnstile::policy::sim {
namespace {

struct Held {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t reading = 0;
  std::int64_t waiting_tokens = 0;

  void operator+=(const Held& other) {
    running += other.running;
    waiting += other.waiting;
    reading += other.reading;
    waiting_tokens += other.waiting_tokens;
  }
};

}  // namespace

bool Books::has_head(Instant now, ClassIndex class_index) const {
  return std::ranges::any_of(requests_, [&](const auto& item) {
    const BookedRequest& request = item.second;
    return request.stage == Stage::Waiting && request.class_index == class_index &&
           passes_gates(request) && is_head(now, request);
  });
}

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
  // Where a request of the class or a higher one runs and must get its tokens in a short time, a
  // head may wait for it; the books know nothing of gaps.
  const auto is_guarded = [&](ClassIndex class_index) {
    return std::ranges::any_of(requests_, [&](const auto& item) {
      const BookedRequest& other = item.second;
      return other.stage == Stage::Running && other.class_index <= class_index &&
             classes[other.class_index].timeouts.token_gap < std::chrono::seconds(1);
    });
  };
  if (is_guarded(*best)) return std::nullopt;
  if (a_head_does_not_fit(now, *best, classes[*best].watermark_ppm)) return std::nullopt;
  for (ClassIndex c = 0; c < classes.size(); ++c) {
    if (classes[c].floor_ppm == 0) continue;
    if (a_head_does_not_fit(now, c, 1'000'000)) return std::nullopt;
    // One that is due may wait for the gaps of others.
    if (is_guarded(c) && has_head(now, c)) return std::nullopt;
  }
  return "requests wait although every head that may be next fits";
}

std::optional<std::string> Books::check_owned(const Admission& admission) const {
  const std::int64_t known = admission.queued() + admission.running() + admission.untold();
  if (known == static_cast<std::int64_t>(requests_.size())) return std::nullopt;
  return "the books have " + std::to_string(requests_.size()) + " requests, admission " +
         std::to_string(known);
}

std::optional<std::string> Books::check_meters(Instant now, const Admission& admission) const {
  const std::int64_t over = counts.refused + counts.completed + counts.client_gone +
                            counts.timed_out + counts.fault;
  if (counts.arrived != over + admission.queued() + admission.running() + admission.untold()) {
    return "arrived is not refused + ended + queued + running";
  }
  if (auto fault = check_owned(admission)) return fault;
  // This runs after every step: names are put together once for all requests of a team and class.
  std::map<std::tuple<std::string_view, std::string_view, ClassIndex>, Held> by_path;
  for (const auto& [id, request] : requests_) {
    Held& held = by_path[{request.team, request.department, request.class_index}];
    if (request.stage == Stage::Running) {
      held.running += 1;
    } else if (request.stage == Stage::Reading) {
      held.reading += 1;
    } else if (!request.was_started) {  // else it holds no place
      held.waiting += 1;
      held.waiting_tokens += request.prompt;
    }
  }
  std::map<std::string, Held, std::less<>> by_scope;
  for (const auto& [path, held] : by_path) {
    const auto& [team, department, class_index] = path;
    const std::string& name = world_.policy->classes[class_index].name;
    for (std::string scope : {"team/" + std::string(team), "dept/" + std::string(department),
                              "class/" + name, std::string("all")}) {
      by_scope[scope] += held;
      by_scope[(scope += '/') += name] += held;
    }
  }
  for (const MeterView& view : admission.meters(now, Admission::Detail::Shared)) {
    const std::string_view name = view.name;
    const std::size_t slash = name.find('/');
    const std::string_view kind = name.substr(0, slash);
    const std::string scope(slash == std::string_view::npos ? "" : name.substr(slash + 1));
    const auto found = by_scope.find(scope);
    const Held held = found == by_scope.end() ? Held{} : found->second;
    std::int64_t least = 0;
    std::int64_t most = 0;
    if (kind == "kv_blocks") {
      least = most = blocks_;
    } else if (kind == "sequence_slots") {
      least = most = slots_;
    } else if (kind == "inflight") {
      least = most = held.running;
    } else if (kind == "inflight_by_class") {
      least = most = held.running;
    } else if (kind == "queue_tokens") {
      least = most = held.waiting_tokens;
    } else if (kind == "queue") {
      least = held.waiting;
      most = held.waiting + held.reading;  // a request may be read without a place
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
