#include "engine/logits_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace turnstile::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_row(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> row(size);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(LogitsRow, WeightIsTheExponentialFunction) {
  for (float x = 0.0F; x > -87.0F; x -= 0.0137F) {
    const double exact = std::exp(static_cast<double>(x));
    // The argument of 2^t is a rounded product, so its error grows with t.
    EXPECT_NEAR(weight_of(x) / exact, 1.0, 3e-7 + 1.2e-7 * std::abs(x)) << x;
  }
  EXPECT_EQ(weight_of(0.0F), 1.0F);
  EXPECT_EQ(weight_of(-88.0F), 0.0F);
  EXPECT_EQ(weight_of(-1e30F), 0.0F);
  EXPECT_EQ(weight_of(-kInfinity), 0.0F);
}

TEST(LogitsRow, ThresholdsAnswerAsAPlainScanDoes) {
  for (const std::size_t size : {1U, 15U, 16U, 17U, 255U, 256U, 257U, 1000U}) {
    for (std::uint32_t seed = 0; seed < 10; ++seed) {
      auto values = random_row(size, seed);
      if (seed % 2 == 0) {
        for (float& x : values) x = std::round(x);  // many equal values, zeros of both signs
      }
      LogitsRow row(size);
      row.scan(values);
      row.weigh(1.0F);
      for (const float least : {-4.0F, -0.5F, 0.0F, 2.0F}) {
        double weight = 0.0;
        std::size_t count = 0;
        std::vector<TokenId> between;
        for (std::size_t i = 0; i < size; ++i) {
          if (values[i] < least) continue;
          weight += static_cast<double>(row.weight(static_cast<TokenId>(i)));
          ++count;
          if (values[i] < 1.0F) between.push_back(static_cast<TokenId>(i));
        }
        const LogitsRow::Reach reach = row.reach(least);
        EXPECT_EQ(reach.count, count);
        EXPECT_NEAR(reach.weight, weight, 1e-5 * weight);
        if (least > 1.0F) continue;
        std::vector<Candidate> candidates;
        row.gather_between(least, 1.0F, candidates);
        ASSERT_EQ(candidates.size(), between.size());
        for (std::size_t i = 0; i < between.size(); ++i) {
          EXPECT_EQ(candidates[i].token, between[i]);
          EXPECT_EQ(candidates[i].logit, values[between[i]]);
          EXPECT_EQ(candidates[i].weight, row.weight(between[i]));
        }
      }
      const auto token = static_cast<TokenId>(seed * 31 % size);
      const Candidate last{.logit = values[token], .weight = 0.0F, .token = token};
      double kept = 0.0;
      for (std::size_t i = 0; i < size; ++i) {
        const Candidate each{.logit = values[i], .weight = 0.0F, .token = static_cast<TokenId>(i)};
        if (!is_better(last, each)) kept += static_cast<double>(row.weight(each.token));
      }
      EXPECT_NEAR(row.keep_through(last), kept, 1e-5 * kept);
      for (std::size_t i = 0; i < size; ++i) {
        const Candidate each{.logit = values[i], .weight = 0.0F, .token = static_cast<TokenId>(i)};
        if (is_better(last, each)) {
          EXPECT_EQ(row.weight(each.token), 0.0F);
        }
      }
    }
  }
}

// The loops of this machine's vector width against the plain ones, bit by bit.
TEST(RowLoops, GiveTheSameBitsAtEveryWidth) {
  const RowLoops& plain = plain_row_loops();
  const RowLoops& fast = row_loops();
  for (const std::size_t size : {1U, 7U, 8U, 9U, 255U, 256U, 257U, 511U, 1000U}) {
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
      auto values = random_row(size, seed);
      if (seed % 2 == 0) {
        for (float& x : values) x = std::round(x);
      }
      struct Answers {
        std::vector<float> best, weights, sums, reach, kept;
        std::vector<std::uint32_t> picked;
        std::size_t count = 0;
        std::int32_t magnitude = 0;
        bool operator==(const Answers&) const = default;
      };
      const auto answers_of = [&](const RowLoops& loops) {
        Answers a;
        a.best.resize(size / kRowTile + 1);
        a.weights.resize(size);
        a.sums.resize(size / kWeightTile + 1);
        a.reach.resize(a.sums.size());
        a.picked.resize(size);
        a.magnitude = loops.scan(values, a.best.data());
        const float best = *std::max_element(values.begin(), values.end());
        loops.weigh(values, best, 0.8F, a.weights.data(), a.sums.data());
        a.count = loops.reach(values, a.weights.data(), -1.0F, a.reach.data());
        a.picked.resize(loops.pick(values, -1.0F, 2.0F, a.picked.data()));
        a.kept = a.weights;
        loops.drop(values, a.kept.data(), 1.0F, seed % 3 == 0);
        return a;
      };
      EXPECT_EQ(answers_of(fast), answers_of(plain)) << size << " values, seed " << seed;
    }
  }
}

TEST(LogitsRow, AnswersAsAPlainScanDoesForEveryRowLength) {
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 63U, 64U, 65U, 255U, 256U, 257U, 1000U}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      auto values = random_row(size, seed);
      if (seed % 2 == 0) {
        for (float& x : values) x = std::round(x);  // many equal values
      }
      LogitsRow row(size);
      row.scan(values);
      EXPECT_TRUE(row.all_finite());
      const auto best = std::max_element(values.begin(), values.end());  // the first greatest
      EXPECT_EQ(row.best_logit(), *best);
      EXPECT_EQ(row.best_token(), static_cast<TokenId>(best - values.begin()));
      double sum = 0;
      for (const float x : values) sum += std::exp((static_cast<double>(x) - *best) / 0.7);
      EXPECT_NEAR(row.weigh(1.0F / 0.7F) / sum, 1.0, 1e-5);
      auto sorted = values;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (const std::size_t k : {1U, 2U, 5U, 40U}) {
        if (k > size) continue;
        std::vector<Candidate> candidates;
        row.gather(row.top_bound(k), candidates);
        EXPECT_GE(candidates.size(), k);
        EXPECT_LE(row.top_bound(k), sorted[k - 1]) << "a lower bound of the k-th greatest";
        EXPECT_TRUE(std::is_sorted(candidates.begin(), candidates.end(),
                                   [](auto& a, auto& b) { return a.token < b.token; }));
      }
    }
  }
}

TEST(LogitsRow, SeesEveryValueThatIsNoNumber) {
  const std::size_t size = 200;
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t at = 0; at < size; ++at) {
      auto values = random_row(size, 1);
      values[at] = bad;
      LogitsRow row(size);
      row.scan(values);
      EXPECT_FALSE(row.all_finite()) << at;
    }
  }
  std::vector<float> extreme(size, std::numeric_limits<float>::max());
  extreme[3] = -std::numeric_limits<float>::max();
  LogitsRow row(size);
  row.scan(extreme);
  EXPECT_TRUE(row.all_finite());
}

// The running sum passes each token's own share, so every target belongs to exactly one token.
TEST(LogitsRow, TokenAtInvertsTheRunningSum) {
  const std::size_t size = 700;
  auto values = random_row(size, 9);
  values[0] = -1000.0F;  // no weight: never drawn, even at target 0
  LogitsRow row(size);
  row.scan(values);
  const double sum = row.weigh(1.0F);
  EXPECT_EQ(row.token_at(0.0), 1U);
  double running = 0;
  TokenId last = 0;
  for (TokenId token = 1; token < size; ++token) {
    const double weight = static_cast<double>(weight_of(values[token] - row.best_logit()));
    const TokenId middle = row.token_at(running + weight / 2);
    if (weight > 1e-4) {
      EXPECT_EQ(middle, token);
    }
    EXPECT_GE(middle, last);
    last = middle;
    running += weight;
  }
  EXPECT_EQ(row.token_at(sum), size - 1);
  EXPECT_EQ(row.token_at(2 * sum), size - 1);
}

}  // namespace
}  // namespace turnstile::engine
