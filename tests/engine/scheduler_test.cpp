#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace turnstile::engine {
namespace {

constexpr std::uint32_t kBlock = kernels::kKvBlockTokens;

Limits roomy() {
  Limits limits;
  limits.max_model_len = 256;
  limits.max_num_seqs = 4;
  limits.max_num_batched_tokens = 32;
  limits.kv_cache_blocks = 64;
  return limits;
}

// Sequences with numbers for tokens, and an engine's loop without model and sampler.
class SchedulerBench {
 public:
  explicit SchedulerBench(const Limits& limits) : scheduler(limits) {}

  Sequence& add(std::uint32_t prompt, std::uint32_t max_tokens, std::int32_t priority = 0,
                TokenId first_token = 0) {
    auto& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
    sequence.order = {.priority = priority, .deadline = 0, .arrival = sequences.size()};
    sequence.prompt_tokens = prompt;
    sequence.final_tokens = prompt + max_tokens;
    sequence.tokens.reserve(sequence.final_tokens);
    for (std::uint32_t i = 0; i < prompt; ++i) sequence.tokens.push_back(first_token + i);
    scheduler.add(sequence, 1);
    return sequence;
  }

  // The model's time is told after each step, as a machine of this cost would take.
  void tell_durations(double base_ms, double row_ms) {
    tells_durations = true;
    cost_base_ms = base_ms;
    cost_row_ms = row_ms;
  }
  double duration_ms() const { return cost_base_ms + cost_row_ms * plan.rows; }

  // One step; "2*" is a slice of two rows that wants logits. Finished sequences leave.
  std::string step() {
    scheduler.plan(plan);
    std::string text;
    for (const PlannedSlice& slice : plan.slices) {
      text += (text.empty() ? "" : " ") + name(*slice.sequence) + ":" +
              std::to_string(slice.rows) + (slice.wants_logits ? "*" : "");
    }
    for (const Sequence* paused : plan.paused) text += " -" + name(*paused);
    if (tells_durations) scheduler.observe(plan, duration_ms());
    for (const PlannedSlice& slice : plan.slices) {
      scheduler.on_computed(*slice.sequence, slice.rows);
      if (!slice.wants_logits) continue;
      slice.sequence->tokens.push_back(1000 + static_cast<TokenId>(slice.sequence->order.arrival));
      if (slice.sequence->tokens.size() == slice.sequence->final_tokens) {
        scheduler.finish(*slice.sequence);
      }
    }
    scheduler.check_invariants();
    return text;
  }

  static std::string name(const Sequence& sequence) {
    return std::string(1, static_cast<char>('A' + sequence.order.arrival - 1));
  }

  Scheduler scheduler;
  StepPlan plan;
  std::vector<std::unique_ptr<Sequence>> sequences;
  bool tells_durations = false;
  double cost_base_ms = 0.0;
  double cost_row_ms = 0.0;
};

TEST(Scheduler, DecodesComeFirstAndChunksFillTheStep) {
  SchedulerBench bench(roomy());
  bench.add(10, 5, 0, 0);
  bench.add(50, 5, 0, 100);
  bench.add(40, 5, 0, 200);
  EXPECT_EQ(bench.step(), "A:10* B:22");
  EXPECT_EQ(bench.step(), "A:1* B:28* C:3");
  EXPECT_EQ(bench.step(), "A:1* B:1* C:30");
  EXPECT_EQ(bench.step(), "A:1* B:1* C:7*");
  EXPECT_EQ(bench.step(), "A:1* B:1* C:1*");
  EXPECT_EQ(bench.step(), "B:1* C:1*");
}

TEST(Scheduler, SequencesWithoutASlotWaitInOrder) {
  Limits limits = roomy();
  limits.max_num_seqs = 2;
  SchedulerBench bench(limits);
  bench.add(2, 2, 0, 0);
  bench.add(2, 3, 1, 10);
  bench.add(2, 2, 1, 20);
  bench.add(2, 2, 0, 30);
  EXPECT_EQ(bench.step(), "A:2* D:2*");
  EXPECT_EQ(bench.step(), "A:1* D:1*");
  EXPECT_EQ(bench.step(), "B:2* C:2*");
}

TEST(Scheduler, WithoutChunkingAPromptEntersWholeOrWaits) {
  Limits limits = roomy();
  limits.enable_chunked_prefill = false;
  limits.max_model_len = 32;
  SchedulerBench bench(limits);
  bench.add(20, 3, 0, 0);
  bench.add(20, 3, 0, 100);
  bench.add(2, 3, 0, 200);
  EXPECT_EQ(bench.step(), "A:20*") << "nothing overtakes the prompt that waits";
  EXPECT_EQ(bench.step(), "A:1* B:20* C:2*");
}

TEST(Scheduler, TheNewestOfTheLargestPriorityNumberIsPaused) {
  Limits limits = roomy();
  limits.max_model_len = 3 * kBlock;
  limits.kv_cache_blocks = 3;
  limits.enable_prefix_caching = false;
  SchedulerBench bench(limits);
  Sequence& low = bench.add(kBlock - 1, kBlock, 5, 0);
  bench.add(kBlock - 1, kBlock, 1, 100);  // newer, but before it in the order
  EXPECT_EQ(bench.step(), "B:15* A:15*");
  EXPECT_EQ(bench.step(), "B:1* A:1*");
  EXPECT_EQ(bench.step(), "B:1* -A") << "both need a second block, and one is left";
  EXPECT_EQ(low.phase, SequencePhase::Waiting);
  EXPECT_EQ(low.computed, 0U);
}

TEST(Scheduler, APausedSequenceComesBackInItsPlaceAndComputesItsTokensAgain) {
  Limits limits = roomy();
  limits.max_model_len = 3 * kBlock;
  limits.kv_cache_blocks = 3;
  limits.max_num_seqs = 2;
  limits.max_num_batched_tokens = 48;
  limits.enable_prefix_caching = false;
  SchedulerBench bench(limits);
  bench.add(kBlock, 8, 0, 0);
  Sequence& second = bench.add(kBlock - 1, 10, 0, 100);
  bench.add(3, 2, 0, 200);
  EXPECT_EQ(bench.step(), "A:16* B:15*");
  EXPECT_EQ(bench.step(), "A:1* B:1*");
  EXPECT_EQ(bench.step(), "A:1* -B") << "B's 17th token needs a second block";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bench.step(), "A:1*") << "C does not overtake B";
  EXPECT_EQ(bench.step(), "B:17* C:3*");
  EXPECT_EQ(second.computed_once, 17U);
}

// Each running sequence may soon need one more block; a newcomer must leave that many.
TEST(Scheduler, ANewcomerIsNotAdmittedIntoTheBlocksThatOthersWillNeed) {
  Limits limits = roomy();
  limits.max_model_len = 3 * kBlock;
  limits.kv_cache_blocks = 3;
  SchedulerBench bench(limits);
  bench.add(kBlock - 2, 10, 0, 0);           // one block now, two in the end
  bench.add(kBlock + 1, 10, 0, 100);         // two blocks
  EXPECT_EQ(bench.step(), "A:14*");
  for (int i = 0; i < 9; ++i) EXPECT_EQ(bench.step(), "A:1*");
  EXPECT_EQ(bench.step(), "B:17*");
}

TEST(Scheduler, RequestsThatShareAPrefixComputeItOnceEvenAtTheSameTime) {
  Limits limits = roomy();
  limits.max_num_seqs = 8;
  limits.max_num_batched_tokens = 64;
  SchedulerBench bench(limits);
  for (int i = 0; i < 8; ++i) {
    Sequence& sequence = bench.add(6 * kBlock + 4, 2);
    for (std::size_t t = 6 * kBlock; t < sequence.tokens.size(); ++t) {
      sequence.tokens[t] = 500 + static_cast<TokenId>(i);
    }
  }
  EXPECT_EQ(bench.step(), "A:64");
  EXPECT_EQ(bench.step(), "A:36*");
  EXPECT_EQ(bench.step(), "A:1* B:4* C:4* D:4* E:4* F:4* G:4* H:4*");
}

TEST(Scheduler, ASequenceThatWaitsForABlockInFlightLetsOthersPass) {
  SchedulerBench bench(roomy());
  bench.add(3 * kBlock + 1, 2);
  bench.add(3 * kBlock + 2, 2);         // the same prefix
  bench.add(5, 2, 0, 100);              // another one
  EXPECT_EQ(bench.step(), "A:32");
  EXPECT_EQ(bench.step(), "A:17* C:5*");
  EXPECT_EQ(bench.step(), "A:1* C:1* B:2*");
}

TEST(Scheduler, AMoreImportantNewcomerIsServedBeforeTheRestOfAPrompt) {
  SchedulerBench bench(roomy());
  bench.add(100, 2, 5, 0);
  EXPECT_EQ(bench.step(), "A:32");
  bench.add(40, 2, 1, 500);
  EXPECT_EQ(bench.step(), "B:32");
  EXPECT_EQ(bench.step(), "B:8* A:24");
  bench.add(10, 2, 5, 700);
  EXPECT_EQ(bench.step(), "B:1* A:31") << "C is no more important than A";
}

// The important C needs what the unimportant A computes, so A goes before B.
TEST(Scheduler, WhoeverComputesWhatAMoreImportantSequenceWaitsForIsServedInItsPlace) {
  Limits limits = roomy();
  limits.max_num_seqs = 8;
  SchedulerBench bench(limits);
  bench.add(6 * kBlock + 1, 2, 5, 0);
  EXPECT_EQ(bench.step(), "A:32");
  bench.add(6 * kBlock + 1, 2, 1, 500);
  EXPECT_EQ(bench.step(), "B:32") << "the more important prompt goes first";
  bench.add(6 * kBlock + 1, 2, 0, 0);
  EXPECT_EQ(bench.step(), "A:32");
  EXPECT_EQ(bench.step(), "A:32") << "until all that C needs is there";
  EXPECT_EQ(bench.step(), "A:1* C:1* B:30");
}

TEST(Scheduler, IfWhoeverComputesThePrefixEndsTheNextOneComputesIt) {
  SchedulerBench bench(roomy());
  Sequence& first = bench.add(6 * kBlock + 1, 2);
  bench.add(6 * kBlock + 2, 2);
  bench.add(6 * kBlock + 3, 2);
  EXPECT_EQ(bench.step(), "A:32");
  EXPECT_EQ(bench.step(), "A:32");
  bench.scheduler.finish(first);
  EXPECT_EQ(bench.step(), "B:32") << "from where A was";
  EXPECT_EQ(bench.step(), "B:2* C:3*");
}

TEST(Scheduler, WithinAPriorityTheEarlierDeadlineIsServedFirst) {
  Limits limits = roomy();
  limits.max_num_seqs = 1;
  SchedulerBench bench(limits);
  bench.add(4, 2, 0, 0);
  EXPECT_EQ(bench.step(), "A:4*");
  auto& late = bench.add(4, 1, 0, 100);
  auto& soon = bench.add(4, 1, 0, 200);
  bench.scheduler.finish(late);
  bench.scheduler.finish(soon);
  for (const auto& [sequence, deadline] : {std::pair(&late, 90), std::pair(&soon, 50)}) {
    sequence->phase = SequencePhase::Unborn;
    sequence->order.deadline = static_cast<std::uint64_t>(deadline);
    bench.scheduler.add(*sequence, 1);
  }
  EXPECT_EQ(bench.step(), "A:1*");
  EXPECT_EQ(bench.step(), "C:4*");
  EXPECT_EQ(bench.step(), "B:4*");
}

TEST(Scheduler, PromptsAreCutSoThatStepsStayWithinTheSmallestTokenGap) {
  Limits limits = roomy();
  limits.max_model_len = 2'048;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 600;
  SchedulerBench bench(limits);
  bench.tell_durations(4.0, 0.5);
  bench.add(8, 200, 0, 0).token_gap_ms = 60.0F;
  bench.add(8, 200, 0, 100).token_gap_ms = 40.0F;
  for (int i = 0; i < 10; ++i) bench.step();
  bench.add(1'900, 10, 0, 1'000);
  int chunks = 0;
  double longest_ms = 0.0;
  while (bench.sequences[2]->tokens.size() == 1'900) {
    bench.step();
    ++chunks;
    // The first chunk is the first thing that tells rows from steps.
    if (chunks > 2) longest_ms = std::max(longest_ms, bench.duration_ms());
  }
  EXPECT_LE(longest_ms, 40.0);
  EXPECT_GT(longest_ms, 30.0) << "but as large as the gap allows";
  EXPECT_LE(chunks, 35);
}

TEST(Scheduler, WithoutATokenGapPromptsFillTheStep) {
  SchedulerBench bench(roomy());
  bench.tell_durations(4.0, 50.0);
  bench.add(4, 40, 0, 0);
  bench.step();
  bench.add(100, 5, 0, 500);
  EXPECT_EQ(bench.step(), "A:1* B:31");
}

// Progress: a gap that no step can keep slows prompts down and does not stop them.
TEST(Scheduler, AnImpossibleTokenGapStillLetsPromptsThrough) {
  Limits limits = roomy();
  limits.max_num_batched_tokens = 64;
  SchedulerBench bench(limits);
  bench.tell_durations(100.0, 10.0);
  bench.add(4, 40, 0, 0).token_gap_ms = 1.0F;
  bench.step();
  bench.add(50, 5, 0, 500);
  EXPECT_EQ(bench.step(), "A:1* B:16");
  EXPECT_EQ(bench.step(), "A:1* B:16");
}

// A large model: its decode alone takes a second, and sixteen rows would be a thirteenth of it.
TEST(Scheduler, WhereDecodesAloneMissTheGapPromptsGetAQuarterOfTheirTime) {
  Limits limits = roomy();
  limits.max_model_len = 2'048;
  limits.max_num_batched_tokens = 512;
  limits.kv_cache_blocks = 600;
  SchedulerBench bench(limits);
  bench.tell_durations(1'000.0, 5.0);
  bench.add(8, 200, 0, 0).token_gap_ms = 40.0F;
  for (int i = 0; i < 10; ++i) bench.step();
  bench.add(1'000, 10, 0, 1'000);
  int chunks = 0;
  double longest_ms = 0.0;
  while (bench.sequences[1]->tokens.size() == 1'000) {
    bench.step();
    ++chunks;
    longest_ms = std::max(longest_ms, bench.duration_ms());
  }
  EXPECT_LE(longest_ms, 1.25 * 1'005.0 + 5.0);
  EXPECT_LE(chunks, 23) << "50 rows a step";
}

TEST(Scheduler, DraftsTakeFreeRowsAndBlocksAndAreGivenBack) {
  Limits limits = roomy();
  limits.max_num_batched_tokens = 4;
  limits.kv_cache_blocks = 16;
  SchedulerBench bench(limits);
  Sequence& sequence = bench.add(kBlock - 2, 30);
  for (int i = 0; i < 4; ++i) bench.step();
  ASSERT_EQ(sequence.tokens.size(), std::size_t{kBlock} - 1);
  bench.scheduler.plan(bench.plan);
  EXPECT_EQ(bench.scheduler.add_drafts(bench.plan.slices[0], 9, bench.plan), 3U)
      << "the step has four rows";
  EXPECT_EQ(bench.plan.rows, 4U);
  EXPECT_EQ(bench.plan.logits_rows, 4U);
  EXPECT_EQ(sequence.table.blocks.size(), 2U);
  bench.scheduler.on_computed(sequence, 1);
  sequence.tokens.push_back(1);
  bench.scheduler.drop_drafts(sequence);
  EXPECT_EQ(sequence.table.blocks.size(), 1U);
  bench.scheduler.check_invariants();
}

TEST(Scheduler, DraftsEndBeforeTheLastToken) {
  SchedulerBench bench(roomy());
  bench.add(4, 4);
  bench.step();  // one of four tokens is there; three are left, the last of which is never computed
  bench.scheduler.plan(bench.plan);
  EXPECT_EQ(bench.scheduler.add_drafts(bench.plan.slices[0], 9, bench.plan), 2U);
}

TEST(Scheduler, SlotsAreKeptForTheChoicesToCome) {
  Limits limits = roomy();
  SchedulerBench bench(limits);
  Sequence& parent = bench.add(4, 4);
  parent.slots = 4;
  bench.add(4, 4, 0, 100);
  EXPECT_EQ(bench.step(), "A:4*");
  parent.slots = 1;  // the choices ended with their first token
  EXPECT_EQ(bench.step(), "A:1* B:4*");
}

TEST(Scheduler, AnEndGivesBlocksAndSlotBackInEveryPhase) {
  Limits limits = roomy();
  limits.max_num_seqs = 1;
  SchedulerBench bench(limits);
  Sequence& running = bench.add(20, 5);
  Sequence& waiting = bench.add(20, 5, 0, 100);
  bench.step();
  bench.scheduler.finish(waiting);
  EXPECT_EQ(bench.scheduler.waiting_count(), 0U);
  bench.scheduler.finish(running);
  EXPECT_EQ(bench.scheduler.running_count(), 0U);
  EXPECT_EQ(bench.scheduler.kv().available(), bench.scheduler.kv().total());
}

}  // namespace
}  // namespace turnstile::engine
