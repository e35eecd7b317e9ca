// step_plan.h: what one step will compute. Filled by Scheduler::plan(), reused from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace turnstile::engine {

struct PlannedSlice {
  Sequence* sequence = nullptr;
  std::uint32_t rows = 0;     // tokens computed ..  computed + rows
  bool wants_logits = false;  // the slice reaches the sequence's last token
};

struct Admission {
  Sequence* sequence = nullptr;
  std::uint32_t hit_tokens = 0;  // found in the prefix cache
  bool resumed = false;
};

struct StepPlan {
  std::vector<PlannedSlice> slices;  // decodes first, then chunks
  std::vector<Sequence*> paused;
  std::vector<Admission> admitted;
  std::uint32_t rows = 0;
  std::uint32_t logits_rows = 0;

  void clear() {
    slices.clear();
    paused.clear();
    admitted.clear();
    rows = 0;
    logits_rows = 0;
  }
};

}  // namespace turnstile::engine
