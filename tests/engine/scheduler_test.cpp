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
    sequence.order = {priority, sequences.size(), 0};
    sequence.prompt_tokens = prompt;
    sequence.final_tokens = prompt + max_tokens;
    sequence.tokens.reserve(sequence.final_tokens);
    for (std::uint32_t i = 0; i < prompt; ++i) sequence.tokens.push_back(first_token + i);
    scheduler.add(sequence, 1);
    return sequence;
  }

  // One step; "2*" is a slice of two rows that wants logits. Finished sequences leave.
  std::string step() {
    scheduler.plan(plan);
    std::string text;
    for (const PlannedSlice& slice : plan.slices) {
      text += (text.empty() ? "" : " ") + name(*slice.sequence) + ":" +
              std::to_string(slice.rows) + (slice.wants_logits ? "*" : "");
    }
    for (const Sequence* paused : plan.paused) text += " -" + name(*paused);
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
