// Prompts of a worse priority make room for better ones that may come: in virtual time, with the
// real scheduler and a machine whose steps cost what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/scheduler.h"

namespace turnstile::engine {
namespace {

constexpr std::int32_t kPeople = 1;
constexpr std::int32_t kBatch = 2;

class Flood {
 public:
  Flood(double base_ms, double row_ms) : scheduler_(limits()), base_ms_(base_ms), row_ms_(row_ms) {}

  // One more sequence; every one has a text of its own.
  Sequence& add(std::int32_t priority, std::uint32_t prompt, std::uint32_t max_tokens) {
    auto& sequence = *sequences_.emplace_back(std::make_unique<Sequence>());
    sequence.order = {.priority = priority, .deadline = 0, .arrival = sequences_.size()};
    sequence.prompt_tokens = prompt;
    sequence.final_tokens = prompt + max_tokens;
    sequence.tokens.reserve(sequence.final_tokens);
    for (std::uint32_t i = 0; i < prompt; ++i) sequence.tokens.push_back(next_token_++);
    scheduler_.add(sequence, 1);
    return sequence;
  }

  // One step -> how long it took.
  double step() {
    scheduler_.plan(plan_);
    const double took_ms = base_ms_ + row_ms_ * plan_.rows;
    scheduler_.observe(plan_, took_ms);
    worse_rows_ = better_rows_ = 0;
    for (const PlannedSlice& slice : plan_.slices) {
      Sequence& sequence = *slice.sequence;
      if (sequence.tokens.size() == sequence.prompt_tokens) {
        (sequence.order.priority == kBatch ? worse_rows_ : better_rows_) += slice.rows;
      }
      scheduler_.on_computed(sequence, slice.rows);
      if (!slice.wants_logits) continue;
      sequence.tokens.push_back(next_token_++);
      if (sequence.tokens.size() == sequence.final_tokens) scheduler_.finish(sequence);
    }
    scheduler_.check_invariants();
    return took_ms;
  }

  // Batch that decodes, one somebody of the people, and enough steps to know what they cost.
  void begin(std::uint32_t decoding, std::int32_t somebody) {
    add(somebody, 8, 2);
    for (std::uint32_t i = 0; i < decoding; ++i) {
      add(kBatch, 8, 1'000);
      step();
    }
    add(kBatch, 40, 2);
    for (int i = 0; i < 4; ++i) step();
  }

  std::uint32_t worse_rows() const { return worse_rows_; }  // prompt rows of batch in the last step
  std::uint32_t better_rows() const { return better_rows_; }

 private:
  static Limits limits() {
    Limits limits;
    limits.max_model_len = 32'768;
    limits.max_num_seqs = 64;
    limits.max_num_batched_tokens = 512;
    limits.kv_cache_blocks = 4'000;
    return limits;
  }

  Scheduler scheduler_;
  StepPlan plan_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  TokenId next_token_ = 0;
  double base_ms_;
  double row_ms_;
  std::uint32_t worse_rows_ = 0;
  std::uint32_t better_rows_ = 0;
};

// Sixteen prompts of batch together would be a step of half a second.
TEST(Courtesy, AStepOfBatchIsShortWherePeopleHaveComeLately) {
  Flood flood(4.0, 1.0);
  flood.begin(8, kPeople);
  for (int i = 0; i < 16; ++i) flood.add(kBatch, 60, 100);
  for (int i = 0; i < 4; ++i) {
    const double step_ms = flood.step();
    EXPECT_LE(step_ms, 4.0 + 16.0 + 50.0) << "those that decode, and prompts";
    EXPECT_GE(flood.worse_rows(), 45U) << "but as many as may be";
  }
}

TEST(Courtesy, APersonsFirstTokenWaitsForTheStepInFlightAndItsOwnPrompt) {
  Flood flood(4.0, 1.0);
  flood.begin(8, kPeople);
  for (int i = 0; i < 16; ++i) flood.add(kBatch, 60, 100);
  flood.step();
  Sequence& person = flood.add(kPeople, 60, 24);
  flood.step();
  EXPECT_EQ(person.tokens.size(), 61U);
  EXPECT_EQ(flood.better_rows(), 60U);
  EXPECT_LE(flood.worse_rows(), 16U);
}

TEST(Courtesy, WhereAllAreOfOnePriorityPromptsFillTheStep) {
  Flood flood(4.0, 1.0);
  flood.begin(8, kBatch);
  for (int i = 0; i < 16; ++i) flood.add(kBatch, 60, 100);
  flood.step();
  EXPECT_EQ(flood.worse_rows(), 512U - 8U);
}

// People in every step, whose prompts alone take more than batch may: batch still moves on.
TEST(Courtesy, PromptsOfBatchAreNeverStopped) {
  Flood flood(4.0, 1.0);
  flood.begin(8, kPeople);
  flood.add(kBatch, 1'000, 100);
  for (int i = 0; i < 20; ++i) {
    flood.add(kPeople, 100, 1);
    flood.step();
    EXPECT_EQ(flood.worse_rows(), 16U);
  }
}

// A large model: smaller chunks would read its weights for a few rows each time.
TEST(Courtesy, PromptsOfALargeModelTakeTwelveTimesTheFixedCostOfAStep) {
  Flood flood(100.0, 10.0);
  flood.begin(8, kPeople);
  for (int i = 0; i < 16; ++i) flood.add(kBatch, 60, 100);
  flood.step();
  EXPECT_LE(flood.worse_rows(), 120U);
  EXPECT_GE(flood.worse_rows(), 115U);
}

// How many steps after the one with the last person's prompt are short. Each step holds prompts of
// batch, and `before` of them came ahead of that one.
std::uint32_t short_steps_after_a_person(std::uint32_t before) {
  Flood flood(4.0, 1.0);
  flood.begin(2, kBatch);
  const auto prompts_come = [&] {
    flood.add(kBatch, 100, 1);
    flood.add(kBatch, 100, 1);
    flood.step();
  };
  for (std::uint32_t i = 0; i < before; ++i) prompts_come();
  flood.add(kPeople, 8, 1);
  prompts_come();
  std::uint32_t steps = 0;
  for (; steps < 2'000; ++steps) {
    prompts_come();
    if (flood.worse_rows() > 100) break;
  }
  return steps;
}

// She may be the last of one period of 256 steps or the first of the next.
TEST(Courtesy, EndsAfter256StepsWithPromptsAtLeastAndTwiceAsManyAtMost) {
  std::uint32_t least = 2'000;
  std::uint32_t most = 0;
  for (std::uint32_t before = 240; before < 272; ++before) {
    const std::uint32_t steps = short_steps_after_a_person(before);
    least = std::min(least, steps);
    most = std::max(most, steps);
  }
  EXPECT_GE(least, 256U) << "not while one may still come";
  EXPECT_LE(most, 512U);
}

TEST(Courtesy, StepsWithoutPromptsAreNotCounted) {
  Flood flood(4.0, 1.0);
  flood.begin(2, kPeople);
  for (int i = 0; i < 600; ++i) flood.step();
  for (int i = 0; i < 16; ++i) flood.add(kBatch, 60, 1);
  flood.step();
  EXPECT_LE(flood.worse_rows(), 55U);
}

TEST(Courtesy, LastsWhileAPersonStillRuns) {
  Flood flood(4.0, 1.0);
  flood.begin(2, kBatch);
  flood.add(kPeople, 8, 2'000);
  flood.step();
  for (int i = 0; i < 700; ++i) {
    flood.add(kBatch, 100, 1);
    flood.add(kBatch, 100, 1);
    flood.step();
    EXPECT_LE(flood.worse_rows(), 55U) << i;
  }
}

// She asked for more choices than there are slots beside those that run.
TEST(Courtesy, LastsWhileAPersonStillWaits) {
  Flood flood(4.0, 1.0);
  flood.begin(2, kBatch);
  flood.add(kBatch, 32'000, 10);
  flood.step();
  Sequence& person = flood.add(kPeople, 8, 20);
  person.slots = 64;
  for (int i = 0; i < 600; ++i) {
    flood.step();
    EXPECT_GE(flood.worse_rows(), 45U) << i;
    EXPECT_LE(flood.worse_rows(), 55U) << i;
  }
  EXPECT_EQ(person.phase, SequencePhase::Waiting);
}

}  // namespace
}  // namespace turnstile::engine
