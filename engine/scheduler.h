// scheduler.h: decides what a step computes and who holds blocks.
//
// plan() has three passes, each in the order (priority, arrival, choice):
//
//   1. decode   running sequences with one token left to compute; a new block where one begins
//   2. prefill  running sequences with more: chunks, as far as max_num_batched_tokens reaches
//   3. admit    waiting sequences, while there are slots, rows and blocks; the first that does not
//               fit stops the pass, so that nothing overtakes it
//
// Blocks. A sequence is admitted only with blocks for all its known tokens, and with one to spare
// for each running sequence that still grows; so chunks never run out and a newcomer is not paused
// at the next block boundary. When pass 1 finds no block, the last running sequence in the order
// (the newest of the largest priority number) is paused: it releases its blocks, which stay in the
// prefix cache until they are reclaimed, and waits for admission in its old place. No one is
// admitted in a step that paused someone.
//
// In-flight sharing. A waiting sequence whose next block is being computed by a running one is not
// admitted yet, and does not stop those behind it; its slots are kept free. So requests that come
// together with one long prefix compute it once.
//
// Progress (promise 5): if any sequence runs, the first in the order computes at least one row: the
// limits give every decode a row and leave one for a chunk, and with all others paused the pool
// covers max_model_len. If none runs, the first waiting one is admitted: nothing is in flight, no
// spare block is asked for, and its tokens fit the pool and, where prompts enter whole, the step.
// A sequence that is first is never paused, so it ends after finitely many steps, and among equal
// priorities only finitely many come before any sequence: a pause keeps its arrival number.
//
// Thread: engine thread only. Ownership: sequences belong to the engine and outlive their listing.
// Cost:   O(running) a step, and for each admission tried O(blocks of its prompt + running); no
//         allocation in plan().
// Tests:  tests/engine/scheduler_test.cpp, engine_property_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/limits.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace turnstile::engine {

class Scheduler {
 public:
  explicit Scheduler(const Limits& limits);

  // The sequence waits from now on. REQUIRES: it fits max_model_len. `choices`: how many sequences
  // it and its unborn siblings will be, so that a pause never allocates.
  void add(Sequence& sequence, std::size_t choices);

  // Fills `plan`, which is cleared first.
  void plan(StepPlan& plan);

  // After the slice was computed: its blocks become findable.
  void on_computed(Sequence& sequence, std::uint32_t rows);

  // `born` continues where the running `parent` has computed its whole prompt; the caller has given
  // up the slots that the parent kept for it. It runs if there is a slot and a block for its copy,
  // else it waits. Returns the copy of K/V that the caller must make, from first to second.
  std::optional<std::pair<kernels::BlockId, kernels::BlockId>> fork(Sequence& parent,
                                                                    Sequence& born);

  // The sequence, in whatever phase, gives everything back. Each of the `choices` of add() ends so.
  void finish(Sequence& sequence);

  std::size_t running_count() const { return running_.size(); }
  std::size_t waiting_count() const { return waiting_.size(); }
  const KvCache& kv() const { return kv_; }

  void check_invariants() const;

 private:
  void plan_decodes(StepPlan& plan);
  void plan_chunks(StepPlan& plan);
  void admit_waiting(StepPlan& plan);
  // True when it runs now, with its first slice in the plan.
  enum class Admit : std::uint8_t { Yes, NoRoom, InFlight };
  Admit try_admit(Sequence& sequence, StepPlan& plan);
  void pause(Sequence& sequence, StepPlan& plan);
  void add_slice(Sequence& sequence, std::uint32_t rows, StepPlan& plan) const;
  bool is_in_flight(const Sequence& waiting, std::size_t block_index) const;
  std::size_t spare_blocks() const;
  std::size_t used_slots() const;
  std::size_t slots_of(const Sequence& sequence) const;

  Limits limits_;
  KvCache kv_;
  std::vector<Sequence*> running_;  // both in order
  std::vector<Sequence*> waiting_;
  std::size_t listed_ = 0;  // sequences that may have to wait at the same time, unborn ones too
};

}  // namespace turnstile::engine
