#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/rng.h"
#include "tests/support/repeats.h"

namespace turnstile::engine {
namespace {

struct Draw {
  SamplingParams params;
  TokenCounts counts;
  std::vector<TokenId> masked;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;

  std::optional<SampledToken> operator()(Sampler& sampler, const std::vector<float>& row,
                                         std::vector<TopLogprob>* top = nullptr) const {
    std::vector<TopLogprob> unused;
    return sampler.sample(row, {params, counts, masked, choice, position}, top ? *top : unused);
  }
};

Draw greedy() {
  Draw draw;
  draw.params.temperature = 0.0F;
  return draw;
}

// Probabilities after the sampler's filters, written down plainly and slowly.
std::vector<double> expected_probabilities(const std::vector<float>& row,
                                           const SamplingParams& params) {
  struct Entry {
    double p;
    std::size_t token;
  };
  const double best = *std::max_element(row.begin(), row.end());
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < row.size(); ++i) {
    entries.push_back({std::exp((row[i] - best) / params.temperature), i});
  }
  std::erase_if(entries, [&](const Entry& e) { return e.p < params.min_p; });
  std::stable_sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.p > b.p; });
  if (params.top_k > 0 && entries.size() > params.top_k) entries.resize(params.top_k);
  double sum = 0;
  for (const Entry& e : entries) sum += e.p;
  if (params.top_p < 1.0F) {
    double running = 0;
    std::size_t kept = 0;
    while (kept < entries.size() && running < static_cast<double>(params.top_p) * sum) {
      running += entries[kept++].p;
    }
    entries.resize(std::max<std::size_t>(kept, 1));
    sum = running;
  }
  std::vector<double> probabilities(row.size(), 0.0);
  for (const Entry& e : entries) probabilities[e.token] = e.p / sum;
  return probabilities;
}

// Pearson's statistic over classes with an expectation of at least 5 (the rest pooled); forbidden
// tokens must not occur at all. The bound is the mean plus six standard deviations.
void expect_distribution(const std::vector<std::uint32_t>& counts,
                         const std::vector<double>& probabilities, std::uint32_t draws) {
  double statistic = 0;
  double pooled_expected = 0;
  double pooled_count = 0;
  int classes = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected == 0.0) {
      EXPECT_EQ(counts[i], 0U) << "token " << i << " is filtered out";
    } else if (expected < 5) {
      pooled_expected += expected;
      pooled_count += counts[i];
    } else {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++classes;
    }
  }
  if (pooled_expected >= 5) {
    statistic +=
        (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
    ++classes;
  }
  const double freedom = std::max(classes - 1, 1);
  EXPECT_LT(statistic, freedom + 6 * std::sqrt(2 * freedom));
}

std::vector<float> normal_row(std::size_t size, std::uint32_t seed, float spread = 2.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(size);
  for (float& x : row) x = normal(random);
  return row;
}

void check_draws(const std::vector<float>& row, const SamplingParams& params,
                 std::uint32_t draws = tests::repeats(20'000)) {
  Sampler sampler(row.size());
  Draw draw;
  draw.params = params;
  std::vector<std::uint32_t> counts(row.size(), 0);
  for (draw.position = 0; draw.position < draws; ++draw.position) {
    ++counts[draw(sampler, row)->token];
  }
  expect_distribution(counts, expected_probabilities(row, params), draws);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  struct Case {
    const char* name;
    float temperature;
    std::uint32_t top_k;
    float top_p;
    float min_p;
  };
  const std::vector<Case> cases = {
      {"plain", 1.0F, 0, 1.0F, 0.0F},     {"warm", 1.7F, 0, 1.0F, 0.0F},
      {"cold", 0.3F, 0, 1.0F, 0.0F},      {"top_k", 1.0F, 7, 1.0F, 0.0F},
      {"top_k 1", 1.0F, 1, 1.0F, 0.0F},   {"top_p", 1.0F, 0, 0.8F, 0.0F},
      {"top_p small", 1.0F, 0, 0.01F, 0}, {"min_p", 1.0F, 0, 1.0F, 0.1F},
      {"min_p 1", 1.0F, 0, 1.0F, 1.0F},   {"top_k and top_p", 1.3F, 20, 0.7F, 0.0F},
      {"all", 0.9F, 30, 0.9F, 0.02F},     {"top_k beyond", 1.0F, 5000, 1.0F, 0.0F},
      {"min_p and top_p", 1, 0, .9F, .1F}};
  for (const std::size_t size : {50U, 600U}) {
    const std::vector<float> row = normal_row(size, 3);
    for (const Case& c : cases) {
      for (const std::uint64_t seed : {1ULL, 77ULL}) {
        SCOPED_TRACE(std::string(c.name) + " over " + std::to_string(size));
        SamplingParams params;
        params.temperature = c.temperature;
        params.top_k = c.top_k;
        params.top_p = c.top_p;
        params.min_p = c.min_p;
        params.seed = seed;
        check_draws(row, params);
      }
    }
  }
}

// A flat row over many tiles: the nucleus is larger than the first guess.
TEST(Sampler, ALargeNucleusIsCutAtTheRightPlace) {
  SamplingParams params;
  params.top_p = 0.5F;
  params.temperature = 3.0F;
  check_draws(normal_row(30'000, 5, 0.5F), params, tests::repeats(1000));
}

// The definition, term by term: the fewest best tokens, then the inverse CDF in the order of ids.
TokenId drawn_by_definition(const std::vector<float>& row, const SamplingParams& params,
                            std::uint32_t position) {
  std::vector<std::size_t> order(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  const auto weight = [&](std::size_t i) {
    return std::exp(static_cast<double>((row[i] - row[order[0]]) / params.temperature));
  };
  double all = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) all += weight(i);
  std::vector<bool> is_kept(row.size(), false);
  double kept = 0.0;
  for (std::size_t i = 0; i < order.size() && kept < static_cast<double>(params.top_p) * all; ++i) {
    is_kept[order[i]] = true;
    kept += weight(order[i]);
  }
  const double target = uniform_draw(params.seed, 0, position) * kept;
  double sum = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (is_kept[i]) sum += weight(i);
    if (is_kept[i] && sum > target) return static_cast<TokenId>(i);
  }
  return static_cast<TokenId>(order[0]);
}

TEST(Sampler, AWideNucleusIsDrawnFromByDefinition) {
  std::uint32_t others = 0;
  // The definition sorts: under the address sanitizer each kind of row once, and fewer draws.
  const std::uint32_t rows = tests::kAddressSanitizer ? 6 : 12;
  const std::uint32_t draws = tests::kAddressSanitizer ? 2 : 8;
  for (std::uint32_t seed = 0; seed < rows; ++seed) {
    std::vector<float> row = normal_row(20'011, seed, seed % 2 == 0 ? 0.5F : 2.0F);
    if (seed % 3 == 0) {
      for (float& x : row) x = std::round(x * 4.0F) / 4.0F;  // many equal values, zeros among them
    }
    Sampler sampler(row.size());
    Draw draw;
    draw.params.temperature = seed % 2 == 0 ? 1.0F : 3.0F;
    draw.params.seed = seed;
    for (const float top_p : {0.3F, 0.9F, 0.99F, 0.999999F}) {
      draw.params.top_p = top_p;
      for (draw.position = 0; draw.position < draws; ++draw.position) {
        others += draw(sampler, row)->token == drawn_by_definition(row, draw.params, draw.position)
                      ? 0
                      : 1;
      }
    }
  }
  EXPECT_LE(others, 2U) << "of 384; only a draw at the very edge of two tokens may fall to the other";
}

TEST(Sampler, EqualLogitsAreKeptLowestIdFirst) {
  const std::vector<float> row(40, 1.0F);
  SamplingParams params;
  params.top_k = 3;
  check_draws(row, params);
  params.top_k = 0;
  params.top_p = 0.24F;  // 9.6 of 40
  check_draws(row, params);
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  Sampler sampler(100);
  std::vector<float> row(100, -1.0F);
  row[70] = row[20] = row[90] = 5.0F;
  EXPECT_EQ(greedy()(sampler, row)->token, 20U);
}

TEST(Sampler, TinyTemperaturesAreGreedyAndHugeOnesUniform) {
  const auto row = normal_row(64, 8);
  Sampler sampler(64);
  const auto best =
      static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  Draw draw;
  for (const float temperature : {1e-40F, 1e-6F, 1e-4F}) {
    draw.params.temperature = temperature;
    EXPECT_EQ(draw(sampler, row)->token, best);
  }
  draw.params.temperature = std::numeric_limits<float>::max();
  std::vector<std::uint32_t> counts(64, 0);
  for (draw.position = 0; draw.position < 20'000; ++draw.position) {
    ++counts[draw(sampler, row)->token];
  }
  expect_distribution(counts, std::vector<double>(64, 1.0 / 64), 20'000);
}

TEST(Sampler, TheSameSeedChoiceAndPositionGiveTheSameToken) {
  const auto row = normal_row(500, 4);
  Sampler one(500), other(500);
  Draw draw;
  draw.params.seed = 99;
  std::size_t equal_choices = 0;
  for (draw.position = 0; draw.position < 200; ++draw.position) {
    draw.choice = 0;
    const TokenId token = draw(one, row)->token;
    // Another history of draws, and another choice in between, change nothing.
    draw.choice = 1;
    equal_choices += draw(other, row)->token == token;
    draw.choice = 0;
    EXPECT_EQ(draw(other, row)->token, token);
  }
  EXPECT_LT(equal_choices, 100U);
}

TEST(Sampler, PenaltiesHaveTheirHandValues) {
  // Prompt 0 1 2 3, generated 2 2 3 4. Without penalties the best token is 2, then 3, 0, 4, 1, 5.
  const std::vector<float> row = {2.0F, -1.0F, 4.0F, 3.0F, 1.5F, -2.0F};
  Sampler sampler(row.size());
  const std::vector<TokenId> prompt = {0, 1, 2, 3};
  const auto best_with = [&](float repetition, float presence, float frequency) {
    Draw draw = greedy();
    draw.params.repetition_penalty = repetition;
    draw.params.presence_penalty = presence;
    draw.params.frequency_penalty = frequency;
    draw.counts = TokenCounts(draw.params, prompt, 8);
    for (const TokenId token : {2U, 2U, 3U, 4U}) draw.counts.add(token);
    return draw(sampler, row)->token;
  };
  EXPECT_EQ(best_with(1.0F, 0.0F, 0.0F), 2U);
  EXPECT_EQ(best_with(1.0F, 0.0F, 0.6F), 2U);   // 2: 4 - 1.2 = 2.8, 3: 2.4
  EXPECT_EQ(best_with(1.0F, 0.0F, 1.1F), 0U);   // 2: 1.8, 3: 1.9, 0 was not generated: 2.0
  EXPECT_EQ(best_with(1.0F, 1.5F, 0.0F), 2U);   // 2: 2.5, 3: 1.5
  EXPECT_EQ(best_with(1.0F, 2.5F, 0.0F), 0U);   // 2: 1.5, 3: 0.5, 0: 2.0
  EXPECT_EQ(best_with(4.0F, 0.0F, 0.0F), 2U);   // 2: 1.0, 3: 0.75, 0: 0.5, 4: 0.375
  EXPECT_EQ(best_with(4.0F, 0.0F, 0.3F), 0U);   // 2: 0.4, 3: 0.45, 0: 0.5, 4: 0.075
  EXPECT_EQ(best_with(100.0F, 2.0F, 0.0F), 0U); // 0: 0.02; generated ones are below 0
  EXPECT_EQ(best_with(1.0F, -5.0F, 0.0F), 2U);  // a negative penalty rewards
}

TEST(Sampler, ARepetitionPenaltyPushesNegativeLogitsDown) {
  const std::vector<float> row = {-1.0F, -1.1F, -3.0F};
  Sampler sampler(row.size());
  Draw draw = greedy();
  draw.params.repetition_penalty = 2.0F;
  draw.counts = TokenCounts(draw.params, std::vector<TokenId>{0}, 4);
  EXPECT_EQ(draw(sampler, row)->token, 1U);
}

TEST(Sampler, BiasAndMaskDecideBeforeEverythingElse) {
  const auto row = normal_row(64, 2);
  Sampler sampler(64);
  Draw draw = greedy();
  draw.params.logit_bias = {{17, 100.0F}, {18, 100.0F}};
  const TokenId first = row[17] >= row[18] ? 17 : 18;
  EXPECT_EQ(draw(sampler, row)->token, first);
  draw.masked = {first};
  EXPECT_EQ(draw(sampler, row)->token, first == 17 ? 18U : 17U);
  draw.params.logit_bias = {{17, -100.0F}, {18, -100.0F}};
  draw.params.temperature = 1.0F;
  for (draw.position = 0; draw.position < 5000; ++draw.position) {
    const TokenId token = draw(sampler, row)->token;
    EXPECT_TRUE(token != 17 && token != 18);
  }
}

TEST(Sampler, LogprobsAreRawWhateverIsDoneToTheLogits) {
  const auto row = normal_row(300, 6);
  Sampler sampler(300);
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  Draw draw;
  draw.params.temperature = 0.5F;
  draw.params.top_k = 3;
  draw.params.logit_bias = {{250, 50.0F}};
  draw.params.top_logprobs = 5;
  std::vector<TopLogprob> top;
  const auto sampled = draw(sampler, row, &top);
  EXPECT_EQ(sampled->token, 250U);
  EXPECT_NEAR(sampled->logprob, row[250] - std::log(sum), 1e-5);
  auto order = row;
  std::sort(order.begin(), order.end(), std::greater<>());
  ASSERT_EQ(top.size(), 5U);
  for (std::size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(row[top[i].token], order[i]);
    EXPECT_NEAR(top[i].logprob, order[i] - std::log(sum), 1e-5);
  }
}

TEST(Sampler, MoreAlternativesThanTokensGivesThemAll) {
  Sampler sampler(3);
  Draw draw = greedy();
  draw.params.top_logprobs = 20;
  std::vector<TopLogprob> top;
  EXPECT_EQ(draw(sampler, {1.0F, 3.0F, 2.0F}, &top)->token, 1U);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].token, 1U);
  EXPECT_EQ(top[2].token, 0U);
}

TEST(Sampler, ARowWithoutNumbersIsAFault) {
  Sampler sampler(100);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    auto row = normal_row(100, 1);
    row[99] = bad;
    EXPECT_FALSE(greedy()(sampler, row));
    EXPECT_FALSE(Draw()(sampler, row));
  }
}

TEST(Sampler, AMaskOverEveryTokenIsAFault) {
  Sampler sampler(3);
  Draw draw = greedy();
  draw.masked = {0, 1, 2};
  EXPECT_FALSE(draw(sampler, {1.0F, 2.0F, 3.0F}));
}

TEST(Sampler, ExtremeValuesStayInRange) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> row = {kMax, -kMax, 1.0F, kMax};
  Sampler sampler(4);
  Draw draw;
  draw.params.repetition_penalty = 1e-30F;
  draw.params.presence_penalty = -kMax;
  draw.params.logit_bias = {{0, kMax}, {1, -kMax}};
  draw.counts = TokenCounts(draw.params, std::vector<TokenId>{0, 1, 2, 3}, 4);
  draw.counts.add(2);
  for (const float temperature : {0.0F, 1e-5F, 1.0F, kMax}) {
    draw.params.temperature = temperature;
    const auto sampled = draw(sampler, row);
    ASSERT_TRUE(sampled);
    EXPECT_LT(sampled->token, 4U);
  }
}

TEST(TokenCounts, CountNothingUnlessAPenaltyAsksForIt) {
  SamplingParams params;
  TokenCounts counts(params, std::vector<TokenId>{1, 2}, 4);
  counts.add(1);
  EXPECT_FALSE(counts.active());
  EXPECT_TRUE(counts.tokens().empty());
  params.presence_penalty = 0.5F;
  counts = TokenCounts(params, std::vector<TokenId>{1, 2}, 4);
  EXPECT_TRUE(counts.active());
  EXPECT_TRUE(counts.tokens().empty()) << "the prompt counts for the repetition penalty alone";
}

}  // namespace
}  // namespace turnstile::engine
