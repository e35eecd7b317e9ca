// Decodes that sit out steps for better ones: in virtual time, with the real scheduler and a
// machine whose steps cost what they cost.
#include "engine/rest_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler.h"
#include "tests/support/repeats.h"

namespace turnstile::engine {
namespace {

constexpr std::int32_t kPeople = 1;
constexpr std::int32_t kBatch = 3;
constexpr float kBatchGapMs = 1'000.0F;

struct Machine {
  double base_ms = 4.0;
  double row_ms = 1.25;
};

class Crowd {
 public:
  explicit Crowd(Machine machine = {}) : scheduler_(limits()), machine_(machine) {
    StepPlan seen;
    for (int round = 0; round < 4; ++round) {
      for (std::uint32_t rows = 1; rows <= 128; rows *= 2) {
        seen.work = {.rows = rows, .kv_bytes = 0};
        scheduler_.observe(seen, took_ms(rows));
      }
    }
  }

  // Each has a text of its own.
  Sequence& add(std::int32_t priority, float gap_ms, std::uint32_t prompt,
                std::uint32_t max_tokens) {
    auto& life = *lives_.emplace_back(std::make_unique<Life>());
    Sequence& sequence = life.sequence;
    sequence.order = {.priority = priority, .deadline = 0, .arrival = lives_.size()};
    sequence.token_gap_ms = gap_ms;
    sequence.prompt_tokens = prompt;
    sequence.final_tokens = prompt + max_tokens;
    sequence.tokens.reserve(sequence.final_tokens);
    for (std::uint32_t i = 0; i < prompt; ++i) sequence.tokens.push_back(next_token_++);
    life.came_ms = now_ms_;
    life_of_[&sequence] = &life;
    scheduler_.add(sequence, 1);
    return sequence;
  }

  // So many that decode from now on.
  std::vector<Sequence*> add_decoding(std::size_t count, std::int32_t priority, float gap_ms,
                                      std::uint32_t max_tokens = 20'000) {
    std::vector<Sequence*> added;
    for (std::size_t i = 0; i < count; ++i) {
      added.push_back(&add(priority, gap_ms, 4, max_tokens));
    }
    while (!std::ranges::all_of(added, [](const Sequence* s) { return s->remaining() == 1; })) {
      step();
    }
    for (const auto& life : lives_) life->longest_gap_ms = 0.0;
    return added;
  }

  // One step -> how long it took.
  double step(double noise = 1.0) {
    scheduler_.plan(plan_);
    const double step_ms = noise * took_ms(plan_.rows);
    now_ms_ += step_ms;
    const Sequence* first = nullptr;
    bool first_moves = false;
    for (const auto& life : lives_) {
      const Sequence& one = life->sequence;
      if (one.phase == SequencePhase::Running && (!first || one.order < first->order)) first = &one;
    }
    for (const PlannedSlice& slice : plan_.slices) {
      first_moves = first_moves || slice.sequence == first;
      advance(slice);
    }
    EXPECT_TRUE(first == nullptr || first_moves) << "the first in the order always moves";
    scheduler_.observe(plan_, step_ms);
    return step_ms;
  }

  double took_ms(std::uint32_t rows) const { return machine_.base_ms + machine_.row_ms * rows; }
  const StepPlan& plan() const { return plan_; }
  const Scheduler& scheduler() const { return scheduler_; }
  double now_ms() const { return now_ms_; }
  double longest_gap_ms(const Sequence& sequence) const {
    return life_of_.at(&sequence)->longest_gap_ms;
  }
  std::uint32_t rows_of(const Sequence& sequence) const {
    for (const PlannedSlice& slice : plan_.slices) {
      if (slice.sequence == &sequence) return slice.rows;
    }
    return 0;
  }

 private:
  struct Life {
    Sequence sequence;
    double came_ms = 0.0;
    double last_token_ms = -1.0;
    double longest_gap_ms = 0.0;
  };

  void advance(const PlannedSlice& slice) {
    Sequence& sequence = *slice.sequence;
    scheduler_.on_computed(sequence, slice.rows);
    if (!slice.wants_logits) return;
    Life& life = *life_of_.at(&sequence);
    if (life.last_token_ms >= 0.0) {
      life.longest_gap_ms = std::max(life.longest_gap_ms, now_ms_ - life.last_token_ms);
    }
    life.last_token_ms = now_ms_;
    sequence.tokens.push_back(next_token_++);
    if (sequence.tokens.size() == sequence.final_tokens) scheduler_.finish(sequence);
  }

  static Limits limits() {
    Limits limits;
    limits.max_model_len = 20'480;
    limits.max_num_seqs = 64;
    limits.max_num_batched_tokens = 512;
    limits.kv_cache_blocks = 64 * 1'300;
    limits.enable_prefix_caching = false;
    return limits;
  }

  Scheduler scheduler_;
  StepPlan plan_;
  std::vector<std::unique_ptr<Life>> lives_;
  std::map<const Sequence*, Life*> life_of_;
  TokenId next_token_ = 0;
  Machine machine_;
  double now_ms_ = 0.0;
};

// Thirty of batch alone take 41 ms a step.
TEST(Rest, ASmallGapIsKeptAmongBatchThatTakesTurns) {
  Crowd crowd;
  const auto batch = crowd.add_decoding(30, kBatch, kBatchGapMs);
  const Sequence& person = *crowd.add_decoding(1, kPeople, 30.0F)[0];
  std::vector<std::size_t> before;
  for (const Sequence* one : batch) before.push_back(one->tokens.size());
  for (int i = 0; i < 300; ++i) {
    const double step_ms = crowd.step();
    ASSERT_LE(step_ms, 27.0);
    ASSERT_GT(step_ms, 27.0 - 1.3) << "and as full as the gap allows";
    ASSERT_EQ(crowd.rows_of(person), 1U);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(batch[i]->tokens.size() - before[i]), 300.0 * 17 / 30, 1.0);
  }
}

TEST(Rest, StepsAreFullWhenTheHurryIsOver) {
  Crowd crowd;
  crowd.add_decoding(30, kBatch, kBatchGapMs);
  crowd.add_decoding(1, kPeople, 30.0F, 8);
  for (int i = 0; i < 7; ++i) crowd.step();
  for (int i = 0; i < 3; ++i) {
    crowd.step();
    EXPECT_EQ(crowd.plan().rows, 30U);
    EXPECT_EQ(crowd.plan().resting, 0U);
  }
}

TEST(Rest, NobodyRestsForEqualsForWorseOrForAGapLikeTheirs) {
  Crowd equals;
  equals.add_decoding(30, kBatch, kBatchGapMs);
  equals.add_decoding(1, kBatch, 30.0F);
  Crowd worse;
  worse.add_decoding(30, kPeople, kBatchGapMs);
  worse.add_decoding(1, kBatch, 30.0F);
  Crowd alike;
  alike.add_decoding(30, kBatch, 59.0F);
  alike.add_decoding(1, kPeople, 30.0F);
  for (Crowd* crowd : {&equals, &worse, &alike}) {
    crowd->step();
    EXPECT_EQ(crowd->plan().rows, 31U);
  }
}

// Forty with a gap of 120 ms need twelve rows in each step of 36 ms; people alone leave six.
TEST(Rest, WhoRestsKeepsItsOwnGap) {
  Crowd crowd;
  const auto batch = crowd.add_decoding(40, kBatch, 120.0F);
  crowd.add_decoding(16, kPeople, 40.0F);
  for (int i = 0; i < 500; ++i) crowd.step();
  for (const Sequence* one : batch) EXPECT_LE(crowd.longest_gap_ms(*one), 120.0 * 1.25);
}

TEST(Rest, OfTwoGapsTheSmallerHasItsTurnTheMoreOften) {
  Crowd crowd;
  const auto standard = crowd.add_decoding(10, 2, 250.0F);
  const auto batch = crowd.add_decoding(20, kBatch, kBatchGapMs);
  crowd.add_decoding(1, kPeople, 20.0F);
  const std::size_t standard_before = standard[0]->tokens.size();
  const std::size_t batch_before = batch[0]->tokens.size();
  for (int i = 0; i < 600; ++i) crowd.step();
  const auto got = static_cast<double>(standard[0]->tokens.size() - standard_before);
  const auto batch_got = static_cast<double>(batch[0]->tokens.size() - batch_before);
  EXPECT_NEAR(got / batch_got, 4.0, 1.0);
}

TEST(Rest, BatchRestsForAPersonsPromptAndMovesAllTheSame) {
  Crowd crowd;
  crowd.add_decoding(30, kBatch, kBatchGapMs);
  Sequence& person = crowd.add(kPeople, 40.0F, 60, 24);
  const double step_ms = crowd.step();
  EXPECT_EQ(crowd.rows_of(person), 60U);
  EXPECT_LE(step_ms, 1.2 * crowd.took_ms(60)) << "not much longer than without batch";
  EXPECT_GE(crowd.plan().slices.size(), 1U + 7U) << "an eighth of the step";
}

// Also where the person asked for no gap, and for the rest of a prompt that was begun: an eighth of
// the first step is time for all of batch, of the second for fifteen rows.
TEST(Rest, BatchRestsAsLongAsAPersonsPromptIsRead) {
  Crowd crowd;
  crowd.add_decoding(30, kBatch, kBatchGapMs);
  Sequence& person = crowd.add(kPeople, 0.0F, 600, 24);
  crowd.step();
  EXPECT_EQ(crowd.rows_of(person), 512U - 30);
  crowd.step();
  EXPECT_EQ(crowd.rows_of(person), 600U - 482);
  EXPECT_NEAR(static_cast<double>(crowd.plan().resting), 15.0, 2.0);
  crowd.step();
  EXPECT_EQ(crowd.plan().resting, 0U) << "the person is in no hurry";
}

// All slots are taken, and nobody of the plan is better than those that might rest for the person
// who waits. Nor would that help whoever reads a prompt among them.
TEST(Rest, NobodyRestsForABetterOneThatFindsNoPlace) {
  Crowd crowd;
  crowd.add_decoding(63, kBatch, 0.0F);
  Sequence& prompt = crowd.add(kBatch, 0.0F, 3'000, 10);
  crowd.step();
  Sequence& person = crowd.add(kPeople, 40.0F, 60, 24);
  for (int i = 0; i < 3; ++i) {
    crowd.step();
    EXPECT_GT(crowd.rows_of(prompt), 0U);
    EXPECT_EQ(crowd.rows_of(person), 0U);
    EXPECT_EQ(crowd.plan().resting, 0U);
  }
}

// The prompt of a person is cut by the gap of another; batch gets what it must have meanwhile.
TEST(Rest, APersonsPromptGoesBeforeBatchWithinTheGapOfAnother) {
  Crowd crowd;
  crowd.add_decoding(30, kBatch, kBatchGapMs);
  crowd.add_decoding(1, kPeople, 40.0F);
  Sequence& person = crowd.add(kPeople, 40.0F, 60, 24);
  double longest_ms = 0.0;
  int steps = 0;
  for (; person.tokens.size() == 60; ++steps) longest_ms = std::max(longest_ms, crowd.step());
  EXPECT_LE(longest_ms, 36.0);
  EXPECT_EQ(steps, 3);
}

// Prompts of batch, too, take at most half of what is left while somebody of batch rests.
TEST(Rest, PromptsOfBatchLeaveHalfToItsDecodes) {
  Crowd crowd;
  crowd.add_decoding(30, kBatch, kBatchGapMs);
  crowd.add_decoding(1, kPeople, 80.0F);
  Sequence& prompt = crowd.add(kBatch, kBatchGapMs, 400, 10);
  for (int i = 0; i < 5; ++i) {
    EXPECT_LE(crowd.step(), 72.0);
    EXPECT_NEAR(crowd.rows_of(prompt), 25.0, 2.0);
    EXPECT_NEAR(static_cast<double>(crowd.plan().rows), 54.0, 1.0);
  }
}

// A model whose weights take longer than the gap: nobody is slowed down much for what is lost.
TEST(Rest, WhereTheGapIsLostBatchGetsAQuarterOfTheTime) {
  Crowd crowd({.base_ms = 200.0, .row_ms = 10.0});
  crowd.add_decoding(30, kBatch, 10'000.0F);
  crowd.add_decoding(1, kPeople, 50.0F);
  for (int i = 0; i < 5; ++i) {
    crowd.step();
    EXPECT_EQ(crowd.plan().rows, 1U + 5U);
  }
}

TEST(Rest, AStreamOfPeoplesPromptsDoesNotStopBatch) {
  Crowd crowd;
  const auto batch = crowd.add_decoding(8, kBatch, kBatchGapMs);
  for (int i = 0; i < 100; ++i) {
    crowd.add(kPeople, 100.0F, 600, 1);
    crowd.step();
  }
  for (const Sequence* one : batch) {
    EXPECT_LE(crowd.longest_gap_ms(*one), kBatchGapMs);
    EXPECT_GE(one->tokens.size(), 4U + 40U) << "an eighth of the time is six rows a step";
  }
}

// Random machines, classes, gaps and texts.
TEST(RestProperty, StepsAreShortForTheHurriedAndNobodyIsForgotten) {
  std::uint64_t rested = 0;
  for (std::uint32_t seed = 1; seed <= tests::repeats(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](std::uint32_t below) { return random() % below; };
    const Machine machine{.base_ms = 1.0 + pick(20), .row_ms = 0.2 + 0.1 * pick(30)};
    Crowd crowd(machine);
    const std::uint32_t classes = 2 + pick(3);
    std::vector<float> gaps;
    for (std::uint32_t c = 0; c < classes; ++c) {
      gaps.push_back(pick(6) == 0 ? 0.0F : 10.0F * static_cast<float>(1 + pick(c == 0 ? 8 : 100)));
    }
    std::vector<Sequence*> all;
    for (std::uint32_t step = 0; step < 400; ++step) {
      while (pick(8) == 0) {
        const auto c = pick(classes);
        all.push_back(&crowd.add(static_cast<std::int32_t>(c), gaps[c],
                                 1 + pick(pick(4) == 0 ? 300 : 30), 1 + pick(120)));
      }
      crowd.step();
      rested += crowd.plan().resting;
      if (crowd.plan().resting == 0) continue;
      // Somebody better is in the step than all who rest.
      ASSERT_FALSE(crowd.plan().slices.empty());
      for (const Sequence* one : all) {
        const bool decodes = one->phase == SequencePhase::Running && one->remaining() == 1;
        if (!decodes || crowd.rows_of(*one) > 0) continue;
        EXPECT_TRUE(std::ranges::any_of(crowd.plan().slices, [&](const PlannedSlice& slice) {
          return slice.sequence->order.priority < one->order.priority;
        }));
      }
    }
    crowd.scheduler().check_invariants();
    // Full rounds of the worst kind bound every gap between two tokens.
    const double round_ms = machine.base_ms + machine.row_ms * (512.0 + 64.0);
    for (const Sequence* one : all) {
      ASSERT_LE(crowd.longest_gap_ms(*one), patience_ms(*one) + 2.0 * round_ms);
    }
  }
  EXPECT_GT(rested, tests::repeats(5'000)) << "otherwise nothing is shown";
}

}  // namespace
}  // namespace turnstile::engine
