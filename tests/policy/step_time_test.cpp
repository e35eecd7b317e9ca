// The TPOT guard: nobody is started whose tokens would push the gaps of others over their target.
#include "policy/step_time.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/policy/front_desk.h"

namespace turnstile::policy {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(StepTime, FindsTheLineThroughTheSteps) {
  StepTime steps;
  EXPECT_FALSE(steps.gap_with(1));
  for (int i = 0; i < 400; ++i) {
    const int sequences = 1 + i * 7 % 12;
    steps.on_step(microseconds(4000 + 500 * sequences), sequences);
  }
  for (const int sequences : {1, 6, 16, 24}) {
    const double predicted = std::chrono::duration<double, std::micro>(
        *steps.gap_with(sequences)).count();
    EXPECT_NEAR(predicted, 4000 + 500 * sequences, 400) << sequences;
  }
}

TEST(StepTime, WithoutVarietyOneMoreCostsNothing) {
  StepTime steps;
  for (int i = 0; i < 100; ++i) steps.on_step(milliseconds(10), 4);
  EXPECT_EQ(*steps.gap_with(5), milliseconds(10));
}

// Sizes of 25 and 26 whose times jump about: the line through them may be as steep as anything.
TEST(StepTime, NoiseDoesNotMakeOneMoreCostMoreThanItsShareOfAStep) {
  for (const int phase : {0, 1, 2, 3, 4}) {
    StepTime steps;
    for (int i = 0; i < 200; ++i) {
      const int sequences = 25 + (i + phase) % 2;
      const int noise_ms = (i + phase) % 2 == 0 ? 0 : (i % 5) * 15;
      steps.on_step(milliseconds(40 + noise_ms), sequences);
      const auto here = *steps.gap_with(25);
      EXPECT_LE(*steps.gap_with(28), here * 29 / 25) << "step " << i;
    }
  }
}

// Steps of 10 ms and 10 ms a sequence; four slots.
class PacedDesk : public FrontDesk {
 public:
  explicit PacedDesk(std::string_view classes)
      : FrontDesk(std::string(kTwoTeams) + std::string(classes), small_engine(),
                  {key_of("anna", "red")}) {
    for (int round = 0; round < 60; ++round) {
      const int together = 1 + round % 3;
      const auto id = [&](int i) { return static_cast<std::uint64_t>(1000 + 10 * round + i); };
      for (int i = 0; i < together; ++i) {
        EXPECT_TRUE(admit(id(i), "anna", {.class_name = "batch"}));
        dispatch();
        admission.on_tokens(now, RequestId{id(i)}, 16, 0);
      }
      admission.on_step(now, milliseconds(30));
      for (int step = 0; step < 4; ++step) {
        advance(milliseconds(10 + 10 * together));
        for (int i = 0; i < together; ++i) admission.on_tokens(now, RequestId{id(i)}, 0, 1);
        admission.on_step(now, milliseconds(10 + 10 * together));
      }
      for (int i = 0; i < together; ++i) complete(id(i));
    }
  }
  std::size_t start(std::uint64_t id, std::string_view class_name) {
    EXPECT_TRUE(admit(id, "anna", {.class_name = class_name}));
    return dispatch().size();
  }
};

constexpr std::string_view kPace =
    "[classes.interactive]\nwatermark = 1\nlength_quantile = 1\ntpot = \"35ms\"\n"
    "[classes.standard]\nwatermark = 1\n"
    "[classes.batch]\nwatermark = 1\nlength_quantile = 1\ntpot = \"10s\"\n";

TEST(TpotGuard, NobodyIsStartedWhoWouldSlowOthersBeyondTheirTarget) {
  PacedDesk desk(kPace);
  EXPECT_EQ(desk.start(1, "interactive"), 1u);
  EXPECT_EQ(desk.start(2, "interactive"), 1u) << "30 ms for two";
  EXPECT_EQ(desk.start(3, "interactive"), 0u) << "40 ms for three";
  EXPECT_EQ(desk.start(4, "batch"), 0u) << "a lower class does not slow them either";
  desk.complete(1);
  EXPECT_EQ(desk.dispatch(), (std::vector<std::uint64_t>{3}));
}

// Two sequences take 30 ms of the 35; of three, one alone would be in a step's way.
TEST(TpotGuard, WhoSitsStepsOutForAHigherClassCountsForItsPartOfThem) {
  PacedDesk desk(kPace);
  EXPECT_EQ(desk.start(1, "interactive"), 1u);
  for (std::uint64_t id = 2; id <= 4; ++id) EXPECT_EQ(desk.start(id, "batch"), 1u) << id;
  PacedDesk alike("[classes.interactive]\nwatermark = 1\nlength_quantile = 1\ntpot = \"35ms\"\n"
                  "[classes.standard]\nwatermark = 1\n"
                  "[classes.batch]\nwatermark = 1\nlength_quantile = 1\ntpot = \"60ms\"\n");
  EXPECT_EQ(alike.start(1, "interactive"), 1u);
  EXPECT_EQ(alike.start(2, "batch"), 1u);
  EXPECT_EQ(alike.start(3, "batch"), 0u) << "the engine lets nobody rest for a gap like its own";
}

TEST(TpotGuard, HigherClassesNeverSitOut) {
  PacedDesk desk("[classes.interactive]\nwatermark = 1\nlength_quantile = 1\ntpot = \"10s\"\n"
                 "[classes.standard]\nwatermark = 1\nlength_quantile = 1\ntpot = \"45ms\"\n"
                 "[classes.batch]\nwatermark = 1\nlength_quantile = 1\ntpot = \"10s\"\n");
  EXPECT_EQ(desk.start(1, "standard"), 1u);
  EXPECT_EQ(desk.start(2, "interactive"), 1u);
  EXPECT_EQ(desk.start(3, "interactive"), 1u);
  EXPECT_EQ(desk.start(4, "standard"), 0u) << "50 ms for four";
}

TEST(TpotGuard, LowerClassesDoNotKeepAHigherOneOut) {
  PacedDesk desk("[classes.interactive]\nwatermark = 1\nlength_quantile = 1\ntpot = \"10s\"\n"
                 "[classes.standard]\nwatermark = 1\nlength_quantile = 1\ntpot = \"35ms\"\n"
                 "[classes.batch]\nwatermark = 1\nlength_quantile = 1\ntpot = \"10s\"\n");
  for (std::uint64_t id = 1; id <= 2; ++id) EXPECT_EQ(desk.start(id, "standard"), 1u);
  EXPECT_EQ(desk.start(3, "interactive"), 1u) << "although standard gets its tokens in 40 ms then";
  EXPECT_EQ(desk.start(4, "standard"), 0u);
}

TEST(TpotGuard, TargetThatEvenOneAloneMissesGuardsNothing) {
  PacedDesk desk("[classes.interactive]\nwatermark = 1\nlength_quantile = 1\ntpot = \"5ms\"\n"
                 "[classes.batch]\ntpot = \"10s\"\nwatermark = 1\nlength_quantile = 1\n"
                 "[classes.standard]\nwatermark = 1\n");
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(desk.start(id, "interactive"), 1u);
}

}  // namespace
}  // namespace turnstile::policy
