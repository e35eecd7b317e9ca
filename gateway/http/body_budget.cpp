#include "gateway/http/body_budget.h"

namespace turnstile::gateway {

BodyCharge::~BodyCharge() {
  if (budget_ != nullptr) budget_->give_back(team_, bytes_);
}

std::optional<BodyCharge> BodyBudget::try_charge(std::string_view team, std::size_t bytes) {
  const auto found = held_by_team_.find(team);
  const std::size_t held_by_team = found == held_by_team_.end() ? 0 : found->second;
  if (bytes > total_bytes_ - held_bytes_ || held_by_team + bytes > team_bytes_) {
    return std::nullopt;
  }
  held_bytes_ += bytes;
  if (found != held_by_team_.end()) {
    found->second += bytes;
  } else {
    held_by_team_.emplace(team, bytes);
  }
  return BodyCharge(*this, std::string(team), bytes);
}

void BodyBudget::give_back(const std::string& team, std::size_t bytes) {
  held_bytes_ -= bytes;
  const auto found = held_by_team_.find(team);
  found->second -= bytes;
  if (found->second == 0) held_by_team_.erase(found);
}

}  // namespace turnstile::gateway
