#include "gateway/http/body_budget.h"

namespace turnstile::gateway {

BodyCharge::~BodyCharge() {
  if (budget_ == nullptr) return;
  budget_->held_bytes_ -= bytes_;
  held_by_team_ -= bytes_;
}

std::optional<BodyCharge> BodyBudget::try_charge(std::string_view team, std::size_t bytes) {
  auto held = held_by_team_.find(team);
  if (held == held_by_team_.end()) held = held_by_team_.emplace(team, 0).first;
  if (bytes > total_bytes_ - held_bytes_ || held->second + bytes > team_bytes_) {
    return std::nullopt;
  }
  held_bytes_ += bytes;
  held->second += bytes;
  return BodyCharge(*this, held->second, bytes);
}

}  // namespace turnstile::gateway
