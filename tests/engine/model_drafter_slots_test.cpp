// A draft model's slots and blocks: who has them, and who gives them up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "engine/limits.h"
#include "tests/support/engine_run.h"
#include "tests/support/speculation_run.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_requests.h"

namespace turnstile::tests {
namespace {

using engine::Limits;
using engine::Request;

TEST(ModelDrafter, SlotsAndBlocksThatRunShortCostGuessesAndNothingElse) {
  for (const std::size_t blocks : {1U, 3U, 8U, 40U}) {
    Limits limits = drafting();
    limits.max_num_seqs = 4;
    limits.speculation.draft_kv_blocks = blocks;
    EngineRun run(toy_engine_with_draft(limits, decided(), decided()));
    for (std::uint32_t id = 1; id <= 6; ++id) run.add(long_request(id, 90 + 10 * id));
    const Sums sums = run_through(run);
    EXPECT_EQ(sums.accepted, sums.draft_tokens);
    if (blocks >= 8) {
      EXPECT_GT(sums.accepted, 50U) << blocks;
    }
    for (engine::RequestId id = 1; id <= 6; ++id) {
      const Request request = long_request(id, 90 + 10 * static_cast<std::uint32_t>(id));
      EXPECT_EQ(run.result(id).choices[0].text, run_alone(request, decided()).choices[0].text);
    }
  }
}

TEST(ModelDrafter, TextsThatOutgrowTheBlocksAreNotReadOverAndOver) {
  for (const std::size_t blocks : {8U, 13U, 20U, 28U}) {
    for (const std::uint32_t streams : {1U, 2U, 4U}) {
      Limits limits = drafting();
      limits.speculation.draft_kv_blocks = blocks;
      ToyModelLog draft_log;
      EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
      for (std::uint32_t id = 1; id <= streams; ++id) run.add(long_request(id, 450));
      const Sums sums = run_through(run);
      EXPECT_GT(sums.accepted, 50U);
      EXPECT_LT(draft_log.rows, 3 * 450 * streams) << blocks << " blocks, streams " << streams;
    }
  }
}

// Of 121 tokens, the first that the answer is long enough for, seven and a draft of four more must
// find room.
TEST(ModelDrafter, ATextThatLeavesTheBlocksNoRoomForGuessesThatPayIsNotRead) {
  for (const std::size_t blocks : {7U, 8U, 9U}) {
    Limits limits = drafting();
    limits.speculation.draft_kv_blocks = blocks;
    ToyModelLog draft_log;
    EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
    Request request = greedy_request(1, letters(113), 100);
    request.stop.ignore_eos = true;
    run.add(request);
    run.run();
    EXPECT_EQ(draft_log.rows > 0, blocks == 9) << blocks << ": " << draft_log.rows;
  }
}

// On a machine whose rows and passes cost next to nothing.
TEST(ModelDrafter, NoMoreSequencesAreGuessedForAtOneTimeThanThereAreSlots) {
  Limits limits = drafting(1);
  limits.max_num_seqs = 20;
  limits.kv_cache_blocks = 600;
  ToyModelLog draft_log;
  EngineRun run(toy_engine_with_draft(limits, decided(), decided(), nullptr, &draft_log));
  run.add(long_request(1, 400));
  std::size_t most = 0;
  while (run.has_work()) {
    run.step();
    run.observe_step(100.0 + 0.01 * run.output().stats.rows);
    if (run.steps() == 20) {
      for (engine::RequestId id = 2; id <= 20; ++id) run.add(long_request(id, 100));
    }
    if (run.output().stats.running_sequences == 20) {
      most = std::max(most, draft_log.slice_rows.size());
    }
  }
  EXPECT_EQ(most, std::size_t{engine::kMaxDraftSequences});
}

// Two models that draw at random do not agree for long, so the first is not asked for any more when
// the second comes, which needs all four blocks.
TEST(ModelDrafter, WhoeverIsNotGuessedForGivesUpItsBlocksToANewcomer) {
  Limits limits = drafting();
  limits.speculation.draft_kv_blocks = 4;
  ToyModelLog draft_log;
  EngineRun run(toy_engine_with_draft(limits, decided(1), decided(2), nullptr, &draft_log));
  Request at_random = long_request(1, 300);
  at_random.sampling.temperature = 4.0F;
  run.add(at_random);
  for (int i = 0; i < 24; ++i) run.step();
  ASSERT_GT(draft_log.rows, 22U) << "the first was read";
  Request newcomer = greedy_request(2, letters(40), 30);
  newcomer.stop.ignore_eos = true;
  run.add(newcomer);
  const std::size_t calls = draft_log.forward_calls;
  run.step();
  EXPECT_EQ(draft_log.forward_calls, calls) << "and is not asked for any more";
  std::uint32_t accepted = 0;
  while (!run.result(2).done) {
    run.step();
    accepted += run.output().stats.accepted_tokens;
  }
  EXPECT_GE(accepted, 8U);
}

// The first text has more tokens than there are places for when the second comes.
TEST(ModelDrafter, ATextThatOutgrewTheBlocksLeavesThemToOthers) {
  Limits limits = drafting();
  limits.speculation.draft_kv_blocks = 4;
  EngineRun run(toy_engine_with_draft(limits, decided(), decided()));
  run.add(long_request(1, 400));
  while (run.result(1).choices.empty() || run.result(1).choices[0].tokens.size() < 60) run.step();
  run.step();
  EXPECT_EQ(run.output().stats.draft_tokens, 0U);
  run.add(long_request(2, 100));
  std::uint32_t accepted = 0;
  while (!run.result(2).done) {
    run.step();
    accepted += run.output().stats.accepted_tokens;
  }
  EXPECT_GE(accepted, 10U);
}

TEST(ModelDrafter, APausedSequenceGivesItsPlaceBackAndIsReadAgain) {
  ToyModelLog draft_log;
  EngineRun run(toy_engine_with_draft(drafting(), decided(), decided(), nullptr, &draft_log));
  run.add(long_request());
  for (int i = 0; i < 12; ++i) run.step();
  ASSERT_GT(draft_log.forward_calls, 0U);
  run.pause(1);
  run.step();  // checks that the draft model holds nothing for it
  run.resume(1);
  const Sums sums = run_through(run);
  EXPECT_GT(sums.accepted, 50U);
  EXPECT_EQ(sums.accepted, sums.draft_tokens);
  EXPECT_EQ(run.result(1).choices[0].text, run_alone(long_request(), decided()).choices[0].text);
}

}  // namespace
}  // namespace turnstile::tests
