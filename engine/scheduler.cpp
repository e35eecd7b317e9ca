#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/rest_rule.h"

namespace turnstile::engine {
namespace {

bool comes_before(const Sequence* a, const Sequence* b) { return a->order < b->order; }

void insert_in_order(std::vector<Sequence*>& list, Sequence& sequence) {
  list.insert(std::upper_bound(list.begin(), list.end(), &sequence, comes_before), &sequence);
}

void erase_in_order(std::vector<Sequence*>& list, const Sequence& sequence) {
  const auto place = std::lower_bound(list.begin(), list.end(), &sequence, comes_before);
  assert(place != list.end() && *place == &sequence && "a sequence is in the list of its phase");
  list.erase(place);
}

}  // namespace

Scheduler::Scheduler(const Limits& limits, std::uint64_t kv_position_bytes)
    : limits_(limits),
      kv_position_bytes_(kv_position_bytes),
      kv_(limits.kv_cache_blocks, limits.enable_prefix_caching) {
  running_.reserve(limits.max_num_seqs);
  chunked_.reserve(limits.max_num_seqs);
  patient_.reserve(limits.max_num_seqs);
}

void Scheduler::add(Sequence& sequence, std::size_t choices) {
  assert(sequence.phase == SequencePhase::Unborn && "a sequence is added once");
  assert(sequence.final_tokens <= limits_.max_model_len && "the request was checked");
  listed_ += choices;
  // Grows by halves: a reserve of the exact size would copy the list at every arrival.
  if (waiting_.capacity() < listed_) waiting_.reserve(listed_ + listed_ / 2);
  sequence.phase = SequencePhase::Waiting;
  best_priority_ = std::min(best_priority_, sequence.order.priority);
  insert_in_order(waiting_, sequence);
}

void Scheduler::plan(StepPlan& plan) {
  plan.clear();
  plan_decodes(plan);
  open_prompt_budgets(plan);
  plan_prompts(plan);
  plan_patient(plan);
  remember_priorities(plan);
}

// Those that will rest get their block as well: nobody is paused once prompts are planned.
void Scheduler::plan_decodes(StepPlan& plan) {
  patient_.clear();
  RestRule rule(best_prompt_priority());
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.remaining() != 1) continue;
    while (sequence.table.blocks.size() < blocks_for(sequence.tokens.size()) &&
           kv_.available() == 0 && sequence.phase == SequencePhase::Running) {
      // The last one is this one or comes later, so it is not in the plan yet.
      pause(*running_.back(), plan);
    }
    if (sequence.phase != SequencePhase::Running) break;
    kv_.extend(sequence.table, sequence.tokens.size());
    if (rule.may_rest(sequence) && limits_.enable_chunked_prefill && cost_.is_known()) {
      patient_.push_back(&sequence);
    } else {
      add_slice(sequence, 1, plan);
    }
  }
  plan.decodes = static_cast<std::uint32_t>(plan.slices.size());
  plan.decode_work = plan.work;
}

void Scheduler::open_prompt_budgets(const StepPlan& plan) {
  prompt_budget_ms_.reset();
  courtesy_budget_ms_.reset();
  beside_budget_ms_.reset();
  has_courteous_rows_ = false;
  if (!limits_.enable_chunked_prefill || !cost_.is_known()) return;
  courtesy_budget_ms_ = std::max(kCourtesyMs, kCourtesyBases * cost_.terms().base_ms);
  decodes_ms_ = cost_.predict_ms(plan.work);
  SmallestGap gap;
  for (const PlannedSlice& slice : plan.slices) gap.add(*slice.sequence);
  for (const Sequence* sequence : patient_) gap.add(*sequence);
  if (!gap.is_known()) return;
  const double step_ms = step_limit_ms(gap.ms());
  const double room_ms = step_ms - decodes_ms_;
  prompt_budget_ms_ = room_ms;
  if (patient_.empty()) return;
  const double patient_ms = patient_cost_ms();
  const double least_ms = patient_ms * static_cast<double>(least_patient(step_ms)) /
                          static_cast<double>(patient_.size());
  prompt_budget_ms_ = std::max(0.0, room_ms - least_ms);
  beside_budget_ms_ = std::max(kBesideShare * *prompt_budget_ms_, room_ms - patient_ms);
}

double Scheduler::step_limit_ms(double gap_ms) const {
  const double allowed_ms = kGapShare * gap_ms;
  return decodes_ms_ < allowed_ms ? allowed_ms : (1.0 + kLostGapShare) * decodes_ms_;
}

std::uint32_t Scheduler::prompt_rows_left(const Sequence& sequence, std::uint32_t position,
                                          const StepPlan& plan) const {
  const auto within = [&](double budget_ms, bool is_first, std::uint32_t least) {
    const std::uint32_t rows = cost_.rows_within(budget_ms, position, kv_position_bytes_);
    return is_first ? std::max(rows, least) : rows;
  };
  // A row for each decode that may still come.
  std::uint32_t rows_left = limits_.max_num_batched_tokens - plan.rows -
                            static_cast<std::uint32_t>(patient_.size());
  if (prompt_budget_ms_) {
    rows_left = std::min(
        rows_left, within(*prompt_budget_ms_, plan.prompt_rows == 0, kLeastPromptRows));
  }
  if (beside_budget_ms_ && sequence.order.priority >= patient_.front()->order.priority) {
    rows_left = std::min(
        rows_left, within(*beside_budget_ms_, plan.prompt_rows == 0, kLeastBesideRows));
  }
  if (courtesy_budget_ms_ && is_courteous(sequence)) {
    rows_left = std::min(
        rows_left, within(*courtesy_budget_ms_, !has_courteous_rows_, kLeastPromptRows));
  }
  return rows_left;
}

bool Scheduler::is_courteous(const Sequence& sequence) const {
  return sequence.order.priority > std::min(best_priority_, best_priority_before_);
}

// Who still runs or waits counts as if it had just come.
void Scheduler::remember_priorities(const StepPlan& plan) {
  if (plan.prompt_rows == 0 || ++prompt_steps_ < kCourtesySteps) return;
  prompt_steps_ = 0;
  best_priority_before_ = std::exchange(best_priority_, std::numeric_limits<std::int32_t>::max());
  for (const std::vector<Sequence*>* list : {&running_, &waiting_}) {
    if (!list->empty()) best_priority_ = std::min(best_priority_, list->front()->order.priority);
  }
}

void Scheduler::plan_prompts(StepPlan& plan) {
  chunked_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->remaining() > 1) chunked_.push_back(sequence);
  }
  bool admits = plan.paused.empty();
  std::size_t slots = used_slots();
  std::size_t chunk = 0;
  std::size_t waiting = 0;
  for (;;) {
    Sequence* const next_chunk = chunk < chunked_.size() ? chunked_[chunk] : nullptr;
    Sequence* const next_waiting =
        admits && waiting < waiting_.size() ? waiting_[waiting] : nullptr;
    if (next_waiting != nullptr &&
        (next_chunk == nullptr || comes_before(next_waiting, next_chunk))) {
      admits = slots + slots_of(*next_waiting) <= limits_.max_num_seqs;
      if (!admits) continue;
      const Admission verdict = try_admit(*next_waiting, plan);
      admits = verdict.admit != Admit::NoRoom;
      if (!admits) continue;
      slots += slots_of(*next_waiting);
      if (verdict.admit == Admit::InFlight) {
        serve_now(verdict.computing, chunk);
        ++waiting;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(waiting));
      insert_in_order(running_, *next_waiting);
    } else if (next_chunk != nullptr) {
      const std::uint32_t rows_left = prompt_rows_left(*next_chunk, next_chunk->computed, plan);
      if (rows_left == 0) return;
      add_chunk(*next_chunk, std::min(next_chunk->remaining(), rows_left), plan);
      ++chunk;
    } else {
      return;
    }
  }
}

// Whoever waits for what `computing` computes comes before it, so it is served in that place.
void Scheduler::serve_now(const Sequence* computing, std::size_t next_chunk) {
  const auto begin = chunked_.begin() + static_cast<std::ptrdiff_t>(next_chunk);
  const auto found = std::find(begin, chunked_.end(), computing);
  if (found != chunked_.end()) std::rotate(begin, found, found + 1);
}

Scheduler::Admission Scheduler::try_admit(Sequence& sequence, StepPlan& plan) {
  const KvCache::Prefix prefix = kv_.find_prefix(sequence.table, sequence.tokens);
  if (const Sequence* computing = find_in_flight(sequence, prefix.blocks.size())) {
    return {Admit::InFlight, computing};
  }
  const std::size_t needed = blocks_for(sequence.tokens.size()) - prefix.blocks.size();
  if (needed + prefix.idle + spare_blocks() > kv_.available()) return {Admit::NoRoom};
  const auto hit_tokens =
      static_cast<std::uint32_t>(prefix.blocks.size() * kernels::kKvBlockTokens);
  const auto rows = static_cast<std::uint32_t>(sequence.tokens.size()) - hit_tokens;
  const std::uint32_t rows_left = prompt_rows_left(sequence, hit_tokens, plan);
  if (rows_left == 0) return {Admit::NoRoom};
  if (!limits_.enable_chunked_prefill && rows > rows_left) return {Admit::NoRoom};

  kv_.adopt(sequence.table, prefix);
  kv_.extend(sequence.table, sequence.tokens.size());
  sequence.computed = hit_tokens;
  sequence.computed_once = std::max(sequence.computed_once, hit_tokens);
  plan.admitted.push_back(
      {.sequence = &sequence, .hit_tokens = hit_tokens, .resumed = sequence.has_run});
  sequence.phase = SequencePhase::Running;
  sequence.has_run = true;
  add_chunk(sequence, std::min(rows, rows_left), plan);
  return {Admit::Yes};
}

void Scheduler::pause(Sequence& sequence, StepPlan& plan) {
  kv_.release(sequence.table);
  sequence.computed = 0;
  sequence.phase = SequencePhase::Waiting;
  erase_in_order(running_, sequence);
  insert_in_order(waiting_, sequence);
  plan.paused.push_back(&sequence);
}

void Scheduler::add_slice(Sequence& sequence, std::uint32_t rows, StepPlan& plan) const {
  const bool wants_logits = rows == sequence.remaining();
  plan.slices.push_back(
      {.sequence = &sequence, .rows = rows, .drafts = 0, .wants_logits = wants_logits});
  plan.rows += rows;
  const StepWork work = work_of(rows, sequence.computed, kv_position_bytes_);
  plan.work.rows += work.rows;
  plan.work.kv_bytes += work.kv_bytes;
  plan.logits_rows += wants_logits ? 1 : 0;
  plan.work.logits_rows = plan.logits_rows;
  assert(plan.rows <= limits_.max_num_batched_tokens && "a step has at most so many rows");
}

void Scheduler::add_chunk(Sequence& sequence, std::uint32_t rows, StepPlan& plan) {
  // Without the base: the step runs anyway.
  const double cost_ms = cost_.predict_ms(work_of(rows, sequence.computed, kv_position_bytes_)) -
                         cost_.terms().base_ms;
  if (prompt_budget_ms_) *prompt_budget_ms_ -= cost_ms;
  if (beside_budget_ms_) *beside_budget_ms_ -= cost_ms;
  if (courtesy_budget_ms_) *courtesy_budget_ms_ -= cost_ms;
  has_courteous_rows_ = has_courteous_rows_ || is_courteous(sequence);
  plan.prompt_rows += rows;
  add_slice(sequence, rows, plan);
}

std::uint32_t Scheduler::add_drafts(PlannedSlice& slice, std::uint32_t wanted, StepPlan& plan) {
  Sequence& sequence = *slice.sequence;
  assert(slice.wants_logits && slice.rows == 1 && slice.drafts == 0 && "drafts follow a decode");
  const auto known = static_cast<std::uint32_t>(sequence.tokens.size());
  // The last token of a sequence is never computed, so a guess of it is worth nothing.
  std::uint32_t drafts = std::min({wanted, limits_.max_num_batched_tokens - plan.rows,
                                   sequence.final_tokens - 1 - known});
  const std::size_t needed = blocks_for(known + drafts) - sequence.table.blocks.size();
  if (needed > 0 && needed + spare_blocks() > kv_.available()) {
    const auto room =
        static_cast<std::uint32_t>(sequence.table.blocks.size() * kernels::kKvBlockTokens);
    drafts = std::min(drafts, room - known);
  }
  if (drafts == 0) return 0;
  kv_.extend(sequence.table, known + drafts);
  slice.drafts = drafts;
  plan.rows += drafts;
  plan.logits_rows += drafts;
  const StepWork work = work_of(drafts, known, kv_position_bytes_);
  plan.work.rows += work.rows;
  plan.work.kv_bytes += work.kv_bytes;
  plan.work.logits_rows = plan.logits_rows;
  return drafts;
}

void Scheduler::drop_drafts(Sequence& sequence) {
  if (sequence.phase == SequencePhase::Running) kv_.shrink(sequence.table, sequence.tokens.size());
}

void Scheduler::observe(const StepPlan& plan, double duration_ms) {
  if (plan.work.rows > 0) cost_.observe(plan.work, duration_ms);
}

const Sequence* Scheduler::find_in_flight(const Sequence& waiting, std::size_t block_index) const {
  if (!kv_.prefix_caching()) return nullptr;
  if (block_index >= (waiting.tokens.size() - 1) / kernels::kKvBlockTokens) return nullptr;
  const PrefixKey& key = waiting.table.keys[block_index];
  for (const Sequence* sequence : running_) {
    const BlockTable& table = sequence->table;
    if (table.published <= block_index && block_index < table.keys.size() && !table.collided &&
        table.keys[block_index] == key) {
      return sequence;
    }
  }
  return nullptr;
}

std::size_t Scheduler::spare_blocks() const {
  return static_cast<std::size_t>(
      std::count_if(running_.begin(), running_.end(), [](const Sequence* sequence) {
        // The last token of a sequence is never computed, so it needs no place.
        return sequence->table.blocks.size() < blocks_for(sequence->final_tokens - 1);
      }));
}

std::size_t Scheduler::slots_of(const Sequence& sequence) const {
  return std::min<std::size_t>(sequence.slots, limits_.max_num_seqs);
}

std::size_t Scheduler::used_slots() const {
  std::size_t slots = 0;
  for (const Sequence* sequence : running_) slots += slots_of(*sequence);
  return slots;
}

void Scheduler::on_computed(Sequence& sequence, std::uint32_t rows) {
  sequence.computed += rows;
  sequence.computed_once = std::max(sequence.computed_once, sequence.computed);
  kv_.publish(sequence.table, sequence.tokens, sequence.computed);
}

std::optional<std::pair<kernels::BlockId, kernels::BlockId>> Scheduler::fork(Sequence& parent,
                                                                             Sequence& born) {
  assert(parent.phase == SequencePhase::Running && parent.computed == parent.prompt_tokens &&
         "choices part where the prompt ends");
  assert(born.phase == SequencePhase::Unborn && "a choice is born once");
  born.has_run = true;
  born.computed_once = parent.computed;
  const bool needs_copy = parent.computed % kernels::kKvBlockTokens != 0;
  if (running_.size() >= limits_.max_num_seqs || (needs_copy && kv_.available() == 0)) {
    born.phase = SequencePhase::Waiting;
    insert_in_order(waiting_, born);
    return std::nullopt;
  }
  born.phase = SequencePhase::Running;
  born.computed = parent.computed;
  insert_in_order(running_, born);
  return kv_.fork(parent.table, born.table, parent.computed);
}

void Scheduler::set_aside(Sequence& sequence) {
  if (sequence.phase == SequencePhase::Running) {
    kv_.release(sequence.table);
    sequence.computed = 0;
    erase_in_order(running_, sequence);
  } else {
    assert(sequence.phase == SequencePhase::Waiting && "only what waits or runs is set aside");
    erase_in_order(waiting_, sequence);
  }
  sequence.phase = SequencePhase::Aside;
}

void Scheduler::put_back(Sequence& sequence) {
  assert(sequence.phase == SequencePhase::Aside && "only what was set aside comes back");
  sequence.phase = SequencePhase::Waiting;
  insert_in_order(waiting_, sequence);
}

void Scheduler::finish(Sequence& sequence) {
  switch (sequence.phase) {
    case SequencePhase::Running:
      kv_.release(sequence.table);
      erase_in_order(running_, sequence);
      break;
    case SequencePhase::Waiting:
      erase_in_order(waiting_, sequence);
      break;
    case SequencePhase::Unborn:
    case SequencePhase::Aside:
      break;
    case SequencePhase::Finished:
      assert(false && "a sequence ends once");
  }
  sequence.phase = SequencePhase::Finished;
  --listed_;
}

void Scheduler::check_invariants() const {
  kv_.check_invariants();
  std::vector<std::uint32_t> holders(kv_.total(), 0);
  for (const Sequence* sequence : running_) {
    assert(sequence->phase == SequencePhase::Running && "running sequences run");
    const BlockTable& table = sequence->table;
    assert(table.blocks.size() >= blocks_for(sequence->computed) && "what is computed has a place");
    assert(table.blocks.size() <= blocks_for(sequence->tokens.size()) &&
           "nothing is held for guesses");
    assert(table.published <= sequence->computed / kernels::kKvBlockTokens &&
           "only written blocks are published");
    for (const kernels::BlockId block : table.blocks) ++holders[block];
  }
  for (const Sequence* sequence : waiting_) {
    assert(sequence->phase == SequencePhase::Waiting && "waiting sequences wait");
    assert(sequence->table.blocks.empty() && sequence->computed == 0 && "and hold nothing");
  }
  for (kernels::BlockId block = 0; block < holders.size(); ++block) {
    assert(holders[block] == kv_.holders(block) && "each table entry is one holder");
  }
  assert(std::is_sorted(running_.begin(), running_.end(), comes_before) && "running in order");
  assert(std::is_sorted(waiting_.begin(), waiting_.end(), comes_before) && "waiting in order");
  assert(running_.size() <= limits_.max_num_seqs && "a slot for each running sequence");
}

}  // namespace turnstile::engine
