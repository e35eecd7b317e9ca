// The part of a plan that lets decodes rest (scheduler.h).
#include <algorithm>
#include <cmath>

#include "engine/rest_rule.h"
#include "engine/scheduler.h"

namespace turnstile::engine {

std::optional<std::int32_t> Scheduler::best_prompt_priority() const {
  std::optional<std::int32_t> best;
  if (!waiting_.empty()) best = waiting_.front()->order.priority;
  const auto prompt = std::ranges::find_if(
      running_, [](const Sequence* sequence) { return sequence->remaining() > 1; });
  if (prompt != running_.end()) {
    best = std::min(best.value_or((*prompt)->order.priority), (*prompt)->order.priority);
  }
  return best;
}

double Scheduler::patient_cost_ms() const {
  double cost_ms = 0.0;
  for (const Sequence* sequence : patient_) cost_ms += decode_cost_ms(*sequence);
  return cost_ms;
}

double Scheduler::decode_cost_ms(const Sequence& sequence) const {
  StepWork work = work_of(1, sequence.computed, kv_position_bytes_);
  work.logits_rows = 1;
  return cost_.predict_ms(work) - cost_.terms().base_ms;
}

std::size_t Scheduler::least_patient(double step_ms) const {
  double rows = 0.0;
  for (const Sequence* sequence : patient_) rows += step_ms / (kGapShare * patience_ms(*sequence));
  const double mean_ms = patient_cost_ms() / static_cast<double>(patient_.size());
  if (mean_ms > 0.0) rows = std::max(rows, kPatientShare * step_ms / mean_ms);
  const double most = static_cast<double>(patient_.size());
  return static_cast<std::size_t>(std::clamp(std::ceil(rows), 1.0, most));
}

// Nothing: nobody better is in the plan, or they are in no hurry.
std::optional<double> Scheduler::patient_limit_ms(const StepPlan& plan) const {
  SmallestGap gap;
  bool has_prompt = false;
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const Sequence& sequence = *plan.slices[i].sequence;
    if (sequence.order.priority >= patient_.back()->order.priority) continue;
    gap.add(sequence);
    has_prompt = has_prompt || i >= plan.decodes;
  }
  if (gap.is_known()) return step_limit_ms(gap.ms());
  return has_prompt ? std::optional(0.0) : std::nullopt;
}

void Scheduler::plan_patient(StepPlan& plan) {
  if (patient_.empty()) return;
  std::size_t least = patient_.size();
  double left_ms = 0.0;
  const auto limit_ms = patient_limit_ms(plan);
  if (limit_ms) {
    const double planned_ms = cost_.predict_ms(plan.work);
    least = least_patient(std::max(planned_ms, *limit_ms));
    left_ms = *limit_ms - planned_ms;
    const Sequence* const next = *std::ranges::min_element(patient_, {}, &Sequence::turn_ms);
    turn_ms_ = std::max(turn_ms_, next->turn_ms);
    // Nobody pays later for rows that were to spare.
    for (Sequence* sequence : patient_) {
      sequence->turn_ms =
          std::clamp(sequence->turn_ms, turn_ms_, turn_ms_ + patience_ms(*sequence));
    }
    std::ranges::sort(patient_, [](const Sequence* a, const Sequence* b) {
      return a->turn_ms != b->turn_ms ? a->turn_ms < b->turn_ms : a->order < b->order;
    });
  }
  std::size_t taken = 0;
  for (Sequence* sequence : patient_) {
    const double cost_ms = decode_cost_ms(*sequence);
    if (taken >= least && cost_ms > left_ms) break;
    left_ms -= cost_ms;
    add_slice(*sequence, 1, plan);
    if (limit_ms) sequence->turn_ms += patience_ms(*sequence);
    ++taken;
  }
  plan.resting = static_cast<std::uint32_t>(patient_.size() - taken);
}

}  // namespace turnstile::engine
