// step_plan.h: what one step will compute. Filled by Scheduler::plan(), reused from step to step.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_cost.h"

namespace turnstile::engine {

struct PlannedSlice {
  Sequence* sequence = nullptr;
  std::uint32_t rows = 0;     // known tokens computed ..  computed + rows
  std::uint32_t drafts = 0;   // the sequence's first so many guesses follow as rows of their own
  bool wants_logits = false;  // the slice reaches the sequence's last token
};

struct Admission {
  Sequence* sequence = nullptr;
  std::uint32_t hit_tokens = 0;  // found in the prefix cache
  bool resumed = false;
};

struct StepPlan {
  std::vector<PlannedSlice> slices;  // decodes, then chunks, then decodes that might have rested
  std::vector<Sequence*> paused;
  std::vector<Admission> admitted;
  std::uint32_t rows = 0;          // drafts included
  std::uint32_t prompt_rows = 0;   // of chunks
  std::uint32_t logits_rows = 0;
  std::uint32_t resting = 0;       // decodes that sit this step out
  std::uint32_t decodes = 0;       // slices before the chunks
  StepWork decode_work;            // theirs, without guesses
  StepWork work;                   // what the rows cost

  void clear() {
    slices.clear();
    paused.clear();
    admitted.clear();
    rows = 0;
    prompt_rows = 0;
    logits_rows = 0;
    resting = 0;
    decodes = 0;
    decode_work = {};
    work = {};
  }
};

}  // namespace turnstile::engine
