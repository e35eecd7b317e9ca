#include "policy/floor_credits.h"

#include <algorithm>

namespace turnstile::policy {
namespace {

constexpr std::int64_t kScale = 1'000'000;

}  // namespace

FloorCredits::FloorCredits(const std::vector<ClassRules>& classes, std::int64_t largest_units)
    : most_(largest_units * kScale) {
  for (const ClassRules& rules : classes) classes_.push_back({rules.floor_ppm, 0, false});
}

void FloorCredits::set_backlogged(ClassIndex class_index, bool backlogged,
                                  std::int64_t running_units) {
  PerClass& state = classes_[class_index];
  if (backlogged && !state.backlogged) {
    state.credit = -std::min(running_units, most_ / kScale) * kScale;
  }
  state.backlogged = backlogged;
}

void FloorCredits::on_served(std::int64_t units) {
  for (PerClass& state : classes_) {
    if (state.backlogged) state.credit = std::min(most_, state.credit + state.floor_ppm * units);
  }
}

void FloorCredits::charge(ClassIndex class_index, std::int64_t units) {
  std::int64_t& credit = classes_[class_index].credit;
  credit = std::clamp(credit - units * kScale, -most_, most_);
}

bool FloorCredits::due(ClassIndex class_index) const {
  const PerClass& state = classes_[class_index];
  return state.backlogged && state.floor_ppm > 0 && state.credit > 0;
}

std::int64_t FloorCredits::credit_units(ClassIndex class_index) const {
  return classes_[class_index].credit / kScale;
}

}  // namespace turnstile::policy
