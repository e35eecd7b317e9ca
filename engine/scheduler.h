// scheduler.h: decides what a step computes and who holds blocks.
//
// plan() has three passes, the first two in the order (priority, deadline, arrival, choice):
//
//   1. decodes  running sequences with one token left to compute; a new block where one begins.
//               Those that may rest are left for the third pass
//   2. prompts  as far as the budget for them reaches: chunks of running sequences with more than
//               one token left, and waiting sequences, admitted while there are slots and blocks;
//               the first of these that does not fit ends admission, so that nothing overtakes it
//   3. patient  decodes that may rest, in turn: as many as the step has time for, and never fewer
//               than they need
//
// The budget for prompts is what max_num_batched_tokens leaves, and, while sequences decode that
// asked for a token gap, what keeps the whole step within kGapShare of the smallest gap, by the
// learned cost of a step (step_cost.h). Where the decodes alone take longer than that, holding
// others back would not keep the gap: they get kLostGapShare of the decodes' time. The first
// chunk gets kLeastPromptRows in any case, so no gap ever stops prompts.
//
// Rest. Where rows and not weights take the time of a step, a step is as long as it is full, and
// everybody in it waits for the slowest class's crowd. So a decode may sit a step out for better
// priorities: for a token gap of theirs that is at most half its own, or for a prompt of theirs
// (rest_rule.h). It keeps its slot and blocks, and its text is the same. How many must be taken in
// a step is what keeps their own gaps: n of gap g need n times step / g in each, and at least
// kPatientShare of its time. Beyond that the step takes as many as keep the smallest gap of the
// betters in it, prompts of theirs included. So a step is short while a better one waits for it,
// and full otherwise. They take turns by stride scheduling (Waldspurger and Weihl, 1995) with their
// gaps as strides: of equal gaps each gets the same, of two gaps the smaller more. Prompts that are
// not better than those that rest get at most kBesideShare of what is left, as long as that makes
// somebody rest, and at least kLeastBesideRows.
//
// Courtesy. Whoever arrives waits for the step in flight. So where better priorities have come
// lately, prompts of worse ones get only the larger of kCourtesyMs and kCourtesyBases times what a
// step costs without rows, less what better prompts take of the step: it is short when a better one
// arrives, and its first token does not wait for much else. They always get kLeastPromptRows of
// what the gaps leave. Where all are of one priority, prompts fill the step.
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
// together with one long prefix compute it once. The running one is served in the place of the
// first that waits for it, so nobody waits for a lower priority. If it ends or is paused first, its
// unpublished blocks are in flight no longer and the next in the order computes them.
//
// Drafts (drafter.h) are rows of a decode beyond its known token. They get rows and blocks that
// nobody else needs, and are given back after the step where they did not come true.
//
// Progress (promise 5): if any sequence runs, the first in the order computes at least one row: the
// limits give every decode a row and leave one for a chunk, and with all others paused the pool
// covers max_model_len. It never rests: nobody who runs is better, and where a better one that
// waits is not admitted, the plan holds nobody better and all that may rest are taken. Whoever
// rests has its turn after finitely many steps: at least one of them is taken in each, which moves
// its turn on by its gap, and newcomers begin where the turns are. If none runs, the first waiting
// one is admitted: nothing is in flight, no spare block is asked for, and its tokens fit the pool
// and, where prompts enter whole, the step.
// A sequence that is first is never paused, so it ends after finitely many steps, and among equal
// priorities only finitely many come before any sequence: a pause keeps its deadline and arrival
// number, and later requests have later deadlines.
//
// Thread: engine thread only. Ownership: sequences belong to the engine and outlive their listing.
// Cost:   O(running) a step, n log n of those that may rest, and for each admission tried O(blocks
//         of its prompt + running); no allocation in plan().
// Tests:  tests/engine/scheduler_test.cpp, rest_test.cpp, courtesy_test.cpp,
//         engine_property_test.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/limits.h"
#include "engine/sequence.h"
#include "engine/step_cost.h"
#include "engine/step_plan.h"

namespace turnstile::engine {

class Scheduler {
 public:
  // Of the smallest token gap; the rest is room for what the cost does not explain.
  static constexpr double kGapShare = 0.9;
  // Of the time that decodes alone take, for all others, when those miss the gap by themselves.
  static constexpr double kLostGapShare = 0.25;
  // Of a step's time, for decodes that may rest; of what they and prompts share, for the prompts.
  static constexpr double kPatientShare = 0.125;
  static constexpr double kBesideShare = 0.5;
  static constexpr std::uint32_t kLeastPromptRows = 16;
  static constexpr std::uint32_t kLeastBesideRows = 4;
  static constexpr double kCourtesyMs = 50.0;
  static constexpr double kCourtesyBases = 12.0;  // smaller chunks would read the weights too often
  // A priority is remembered for so many steps with prompts, and at most for twice as many.
  static constexpr std::uint32_t kCourtesySteps = 256;

  // `kv_position_bytes`: of K and V of one position over all layers.
  explicit Scheduler(const Limits& limits, std::uint64_t kv_position_bytes = 0);

  // The sequence waits from now on. REQUIRES: it fits max_model_len. `choices`: how many sequences
  // it and its unborn siblings will be, so that a pause never allocates.
  void add(Sequence& sequence, std::size_t choices);

  // Fills `plan`, which is cleared first.
  void plan(StepPlan& plan);

  // Gives the slice, a decode, at most `wanted` rows for guesses and returns how many.
  std::uint32_t add_drafts(PlannedSlice& slice, std::uint32_t wanted, StepPlan& plan);

  // How long the planned step took. Changes later plans, never a token.
  void observe(const StepPlan& plan, double duration_ms);
  const StepCost& cost() const { return cost_; }

  // After the slice was computed: its blocks become findable.
  void on_computed(Sequence& sequence, std::uint32_t rows);

  // After the guesses were judged: blocks that only they needed go back.
  void drop_drafts(Sequence& sequence);

  // `born` continues where the running `parent` has computed its whole prompt; the caller has given
  // up the slots that the parent kept for it. It runs if there is a slot and a block for its copy,
  // else it waits. Returns the copy of K/V that the caller must make, from first to second.
  std::optional<std::pair<kernels::BlockId, kernels::BlockId>> fork(Sequence& parent,
                                                                    Sequence& born);

  // The sequence, if it waits or runs, gives its blocks and its place back; put_back() lets it wait
  // again, in its old place of the order.
  void set_aside(Sequence& sequence);
  void put_back(Sequence& sequence);

  // The sequence, in whatever phase, gives everything back. Each of the `choices` of add() ends so.
  void finish(Sequence& sequence);

  std::size_t running_count() const { return running_.size(); }
  std::size_t waiting_count() const { return waiting_.size(); }
  const KvCache& kv() const { return kv_; }

  void check_invariants() const;

 private:
  void plan_decodes(StepPlan& plan);
  void plan_prompts(StepPlan& plan);
  void plan_patient(StepPlan& plan);
  void serve_now(const Sequence* computing, std::size_t next_chunk);
  // Yes: it runs now, with its first slice in the plan. InFlight: `computing` has what it needs.
  enum class Admit : std::uint8_t { Yes, NoRoom, InFlight };
  struct Admission {
    Admit admit;
    const Sequence* computing = nullptr;
  };
  Admission try_admit(Sequence& sequence, StepPlan& plan);
  void pause(Sequence& sequence, StepPlan& plan);
  void add_slice(Sequence& sequence, std::uint32_t rows, StepPlan& plan) const;
  void add_chunk(Sequence& sequence, std::uint32_t rows, StepPlan& plan);
  void open_prompt_budgets(const StepPlan& plan);
  std::uint32_t prompt_rows_left(const Sequence& sequence, std::uint32_t position,
                                 const StepPlan& plan) const;
  // How long a step may take for a gap, given what its decodes cost that may not rest.
  double step_limit_ms(double gap_ms) const;
  std::optional<std::int32_t> best_prompt_priority() const;
  double decode_cost_ms(const Sequence& sequence) const;
  double patient_cost_ms() const;
  std::size_t least_patient(double step_ms) const;
  std::optional<double> patient_limit_ms(const StepPlan& plan) const;
  bool is_courteous(const Sequence& sequence) const;
  void remember_priorities(const StepPlan& plan);
  const Sequence* find_in_flight(const Sequence& waiting, std::size_t block_index) const;
  std::size_t spare_blocks() const;
  std::size_t used_slots() const;
  std::size_t slots_of(const Sequence& sequence) const;

  Limits limits_;
  std::uint64_t kv_position_bytes_;
  KvCache kv_;
  StepCost cost_;
  // Of the step being planned; absent: only rows count.
  std::optional<double> prompt_budget_ms_;
  std::optional<double> courtesy_budget_ms_;
  std::optional<double> beside_budget_ms_;  // of prompts no better than decodes that may rest
  double decodes_ms_ = 0.0;                 // of the first pass
  bool has_courteous_rows_ = false;
  // The best priority that was added in this period of kCourtesySteps and in the one before.
  std::int32_t best_priority_ = std::numeric_limits<std::int32_t>::max();
  std::int32_t best_priority_before_ = std::numeric_limits<std::int32_t>::max();
  std::uint32_t prompt_steps_ = 0;
  std::vector<Sequence*> running_;  // both in order
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> chunked_;  // scratch of plan_prompts(), in order
  std::vector<Sequence*> patient_;  // scratch of plan(): decodes that may rest
  double turn_ms_ = 0.0;            // of whoever was first in turn; never falls
  std::size_t listed_ = 0;  // sequences that may have to wait at the same time, unborn ones too
};

}  // namespace turnstile::engine
