#include <gtest/gtest.h>

#include "kernels/kernel_table.h"
#include "tests/kernels/tested_tables.h"

namespace turnstile::kernels {
namespace {

TEST(Level, NamesSurviveTheWayThroughText) {
  for (const Level level : kLevels) {
    EXPECT_EQ(parse_level(to_string(level)), level);
  }
  for (const char* wrong : {"", "AVX2", "avx512", "avx2 "}) {
    EXPECT_EQ(parse_level(wrong), std::nullopt) << wrong;
  }
}

TEST(Level, TheBestOneIsSupportedAndEveryTableSaysWhatItIs) {
  EXPECT_TRUE(level_supported(Level::Scalar));
  EXPECT_TRUE(level_supported(best_level()));
  for (const Level level : kLevels) {
    if (!level_supported(level)) continue;
    EXPECT_EQ(kernel_table(level, Numerics::Int8).level, level);
    EXPECT_EQ(kernel_table(level, Numerics::Int8).numerics, Numerics::Int8);
  }
  for (const Numerics numerics : {Numerics::Bf16, Numerics::Float32}) {
    EXPECT_EQ(kernel_table(Level::Scalar, numerics).numerics, numerics);
    EXPECT_FALSE(has_numerics(Level::Avx2, numerics));
    EXPECT_FALSE(has_numerics(Level::Avx512Vnni, numerics));
  }
}

TEST(Level, OfAnEmulatedCpuIsTheOneThatItsInstructionsAllow) {
  const char* expected = level_of_emulated_cpu();
  if (expected == nullptr) GTEST_SKIP() << "no emulated CPU: tests/emulated_cpu sets its level";
  EXPECT_EQ(to_string(best_level()), expected);
}

TEST(LevelDeathTest, Float32AtAFasterLevelIsOurBug) {
  if (best_level() == Level::Scalar) GTEST_SKIP() << "this CPU has only the scalar level";
  EXPECT_DEATH(kernel_table(best_level(), Numerics::Float32), "the level has these numerics");
}

}  // namespace
}  // namespace turnstile::kernels
