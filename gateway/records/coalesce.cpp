#include "gateway/records/coalesce.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace turnstile::gateway {

bool RefusalCoalescer::note(policy::Instant now, const RequestRecord& record) {
  auto window = windows_.find(std::string_view(record.key_id));
  if (window == windows_.end()) {
    // All windows end together, at whole seconds, so that one pass a second closes them.
    const policy::Instant ends = std::chrono::floor<std::chrono::seconds>(now) + kWindow;
    window = windows_.emplace(record.key_id, Window{ends, 0, {}}).first;
    next_deadline_ = ends;
  }
  Window& open = window->second;
  if (open.singles < kSingleRecords) {
    ++open.singles;
    return true;
  }
  const auto group = std::ranges::find_if(open.groups, [&](const Group& candidate) {
    return candidate.sample.code == record.code &&
           candidate.sample.service_class == record.service_class;
  });
  if (group != open.groups.end()) {
    ++group->count;
  } else {
    open.groups.push_back({record, 1});
  }
  return false;
}

void RefusalCoalescer::take_due(policy::Instant now, std::vector<Group>& out) {
  if (!next_deadline_ || now < *next_deadline_) return;
  next_deadline_.reset();
  for (auto window = windows_.begin(); window != windows_.end();) {
    if (now < window->second.ends) {
      next_deadline_ = std::min(next_deadline_.value_or(window->second.ends), window->second.ends);
      ++window;
      continue;
    }
    std::ranges::move(window->second.groups, std::back_inserter(out));
    window = windows_.erase(window);
  }
}

bool StrangerCoalescer::note(policy::Instant now, std::string_view address, std::string_view code,
                             int status, bool may_write, std::string_view& record_address) {
  auto window = windows_.find(address);
  if (window == windows_.end() && windows_.size() >= kMaxAddresses) {
    address = "other";
    window = windows_.find(address);
  }
  const bool is_first = window == windows_.end();
  if (is_first) {
    window = windows_.emplace(std::string(address), Window{now + kWindow, code, status, 0}).first;
    next_deadline_ = std::min(next_deadline_.value_or(window->second.ends), window->second.ends);
  }
  record_address = window->first;
  if (is_first && may_write) return true;
  window->second.code = code;
  window->second.status = status;
  ++window->second.count;
  return false;
}

void StrangerCoalescer::take_due(policy::Instant now, std::vector<Group>& out) {
  if (!next_deadline_ || now < *next_deadline_) return;
  next_deadline_.reset();
  for (auto window = windows_.begin(); window != windows_.end();) {
    Window& open = window->second;
    if (now >= open.ends) {
      if (open.count == 0) {
        window = windows_.erase(window);
        continue;
      }
      // The address goes on failing: its next record is due a minute from now, not at once.
      out.push_back({window->first, open.code, open.status, std::exchange(open.count, 0)});
      open.ends = (now == policy::Instant::max() ? open.ends : now) + kWindow;
    }
    next_deadline_ = std::min(next_deadline_.value_or(open.ends), open.ends);
    ++window;
  }
}

}  // namespace turnstile::gateway
