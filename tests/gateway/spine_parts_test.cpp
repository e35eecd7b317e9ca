// The small pure parts of the spine: drain, body budget, time limits, header lines, chunk framing,
// cache salts and the ring between two threads.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "gateway/api/answer_lines.h"
#include "gateway/http/body_budget.h"
#include "gateway/cache_salt.h"
#include "gateway/drain.h"
#include "gateway/api/generation_limits.h"
#include "gateway/http/http_date.h"
#include "gateway/http/response_head.h"
#include "gateway/served_model.h"
#include "gateway/spsc_chain.h"
#include "gateway/spsc_ring.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;

policy::Instant at(policy::Duration duration) { return policy::Instant{} + duration; }

TEST(Drain, ServesDuringTheDelayThenRefusesThenEnds) {
  Drain drain(5s, 60s);
  EXPECT_EQ(drain.advance(at(100s), true), ServePhase::Serving);
  drain.begin(at(100s));
  EXPECT_TRUE(drain.accepts_requests());
  EXPECT_EQ(drain.advance(at(104s), true), ServePhase::Delay) << "idle, but balancers still send";
  EXPECT_EQ(drain.next_deadline(), at(105s));
  EXPECT_EQ(drain.advance(at(105s), false), ServePhase::Refusing);
  EXPECT_FALSE(drain.accepts_requests());
  drain.begin(at(110s));
  EXPECT_EQ(drain.next_deadline(), at(165s)) << "the first signal counts";
  EXPECT_EQ(drain.advance(at(164s), false), ServePhase::Refusing);
  EXPECT_EQ(drain.advance(at(165s), false), ServePhase::Ending);
}

TEST(Drain, EndsAsSoonAsItIsIdle) {
  Drain drain(5s, 60s);
  drain.begin(at(0s));
  EXPECT_EQ(drain.advance(at(6s), true), ServePhase::Ending);
}

TEST(BodyBudget, BoundsTheTeamAndAllTogether) {
  BodyBudget budget(100, 60);
  auto first = budget.try_charge("lab", 50);
  ASSERT_TRUE(first);
  EXPECT_FALSE(budget.try_charge("lab", 11));
  EXPECT_TRUE(budget.try_charge("lab", 10)) << "and given back at once";
  const auto other = budget.try_charge("course", 50);
  ASSERT_TRUE(other);
  EXPECT_FALSE(budget.try_charge("third", 1));
  const BodyCharge moved = std::move(*first);
  first.reset();
  EXPECT_EQ(budget.held_bytes(), 100U) << "a charge that was moved is given back once";
}

// The example of RFC 9110 section 5.6.7, and what follows it.
TEST(HttpDate, IsFormattedOnceASecond) {
  HttpDate date;
  const WallTime example{784'111'777s};
  EXPECT_EQ(date.at(example), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(date.at(example + 999ms), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(date.at(example + 1s), "Sun, 06 Nov 1994 08:49:38 GMT");
  EXPECT_EQ(date.at(WallTime{1'709'251'199s}), "Thu, 29 Feb 2024 23:59:59 GMT");
  EXPECT_EQ(date.at(example), "Sun, 06 Nov 1994 08:49:37 GMT") << "wall time may go back";
}

TEST(GenerationLimits, PrefillThenStallThenTotal) {
  GenerationLimits limits{.timeouts = {.prefill_base = 3s,
                                       .prefill_per_1k_uncached = 1s,
                                       .stall = 2s,
                                       .total = 20s},
                          .request_timeout = 600s,
                          .dispatched = at(100s),
                          .prompt_tokens = 500};
  EXPECT_EQ(limits.next(std::nullopt, false).at, at(103'500ms));
  EXPECT_EQ(limits.next(std::nullopt, false).code, ApiCode::PrefillTimeout);
  EXPECT_EQ(limits.next(at(110s), false).at, at(112s));
  EXPECT_EQ(limits.next(at(110s), false).code, ApiCode::DecodeStall);
  EXPECT_EQ(limits.next(at(110s), true).at, at(120s)) << "a pause is no stall";
  EXPECT_EQ(limits.next(at(119s), false).code, ApiCode::DecodeTimeout);
  limits.request_timeout = 5s;
  EXPECT_EQ(limits.next(at(104s), false).at, at(105s));
}

TEST(AnswerLines, SayWhatIsLeft) {
  const auto answer_lines = [](const policy::RateView& shown) {
    std::string text;
    append_answer_lines(text, "demo", "r1-00000001", shown);
    return text;
  };
  policy::RateView rates;
  rates.tokens = policy::RateLine{
      .node = "team", .limit = 60'000, .remaining = -5, .until_full = 1'150ms};
  const std::string lines = answer_lines(rates);
  EXPECT_EQ(lines,
            "x-turnstile-class: demo\r\nx-turnstile-policy: r1-00000001\r\n"
            "x-ratelimit-limit-tokens: 60000\r\nx-ratelimit-remaining-tokens: 0\r\n"
            "x-ratelimit-reset-tokens: 1.2s\r\n"
            "RateLimit-Policy: \"team-tokens\";q=60000;w=60;qu=\"tokens\"\r\n"
            "RateLimit: \"team-tokens\";r=0;t=2\r\n");
  rates.requests = policy::RateLine{
      .node = "key", .limit = 120, .remaining = 29, .until_full = 500ms};
  EXPECT_NE(answer_lines(rates).find(
                "RateLimit: \"key-requests\";r=29;t=1, \"team-tokens\";r=0;t=2\r\n"),
            std::string::npos);
  EXPECT_EQ(reset_text(0ms), "0ms");
  EXPECT_EQ(reset_text(12ms), "12ms");
  EXPECT_EQ(reset_text(11'000ms), "11s");
  EXPECT_EQ(reset_text(200s), "3m20s");
}

TEST(ResponseHead, ChunksCarryTheirSize) {
  std::string out;
  const std::size_t begin = open_chunk(out);
  out += std::string(300, 'x');
  close_chunk(out, begin);
  EXPECT_EQ(out, "00012c\r\n" + std::string(300, 'x') + "\r\n");
  out.clear();
  ResponseHead(out, 429).end_with_length(7, false);
  EXPECT_EQ(out, "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 7\r\nconnection: close\r\n\r\n");
}

TEST(CacheSalt, TellsTeamsAndSaltsApart) {
  CacheSalts salts;
  EXPECT_EQ(salts.of("lab", std::nullopt), salts.of("lab", std::nullopt));
  EXPECT_NE(salts.of("lab", std::nullopt), salts.of("course", std::nullopt));
  EXPECT_NE(salts.of("lab", std::nullopt), salts.of("lab", ""));
  EXPECT_NE(salts.of("lab", "a"), salts.of("lab", "b"));
  EXPECT_NE(salts.of("lab", "x"), salts.of("labx", ""));
}

TEST(ServedModel, ContextIsWhatModelAndCacheAllow) {
  ModelConfig config;
  config.path = "models/tiny.gguf";
  config.kv_cache_memory_bytes = 100'000;
  EXPECT_EQ(model_name(config), "tiny");
  const auto limits = engine_limits(config, 1'000, 8'192);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->kv_cache_blocks, 100U);
  EXPECT_EQ(limits->max_model_len, 1'600U);
  EXPECT_EQ(engine_limits(config, 1'000, 512)->max_model_len, 512U);
}

TEST(ServedModel, AnUnwrittenCacheFollowsTheMemoryThatIsLeft) {
  ModelConfig config;
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  EXPECT_EQ(engine_limits(config, 1 << 20, 1 << 20, kGiB + kGiB / 2)->kv_cache_blocks, 512U);
  config.max_model_len = 160;  // 32 sequences of 10 blocks
  EXPECT_EQ(engine_limits(config, 1 << 20, 1 << 20, 64 * kGiB)->kv_cache_blocks, 32U * 10);
  EXPECT_FALSE(engine_limits(config, 1 << 20, 1 << 20, kGiB / 2));
}

// Whatever is paused: as many requests as connections, each of so many prompts and slots.
TEST(ServedModel, ConnectionsBoundTheEngineRequestsThatAreOpen) {
  engine::Limits engine;
  LimitsConfig limits;
  engine.max_num_seqs = 8;
  limits.max_connections = 100;
  EXPECT_EQ(most_engine_requests(engine, limits), 100U * 8 + 8);
  engine.max_num_seqs = 200;
  EXPECT_EQ(most_engine_requests(engine, limits), 100U * 32 + 200) << "prompts are at most 32";
  limits.max_connections = 0;
  EXPECT_EQ(most_engine_requests(engine, limits), std::nullopt);
}

// At every size and place of growth: all values come, once and in order.
TEST(SpscChain, GrowsAndKeepsTheOrder) {
  SpscChain<std::unique_ptr<int>> chain(2);
  int pushed = 0;
  int popped = 0;
  std::unique_ptr<int> value;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < round; ++i) chain.push(std::make_unique<int>(pushed++));
    EXPECT_EQ(chain.empty(), round == 0);
    for (const int keep = round % 3; popped + keep < pushed; ++popped) {
      ASSERT_TRUE(chain.try_pop(value));
      ASSERT_EQ(*value, popped);
    }
  }
  for (; popped < pushed; ++popped) {
    ASSERT_TRUE(chain.try_pop(value));
    ASSERT_EQ(*value, popped);
  }
  EXPECT_FALSE(chain.try_pop(value));
  EXPECT_TRUE(chain.empty());
  for (int i = 0; i < 100; ++i) chain.push(std::make_unique<int>(i));  // what is left is freed
}

TEST(SpscChain, TwoThreadsLoseNothing) {
  SpscChain<int> chain(1);
  constexpr int kValues = 20'000;
  std::jthread producer([&] {
    for (int i = 0; i < kValues; ++i) chain.push(i);
  });
  int value = 0;
  for (int expected = 0; expected < kValues;) {
    if (!chain.try_pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value, expected++);
  }
}

TEST(SpscRing, FullAndEmptyAreExact) {
  SpscRing<int> ring(3);
  ASSERT_EQ(ring.capacity(), 4U);
  int value = 0;
  EXPECT_FALSE(ring.try_pop(value));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.try_push(int{i}));
  EXPECT_FALSE(ring.try_push(9));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.try_pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_TRUE(ring.empty());
}

TEST(SpscRing, NothingIsLostBetweenTwoThreads) {
  constexpr int kValues = 50'000;
  SpscRing<std::unique_ptr<int>> ring(8);
  std::thread producer([&ring] {
    for (int i = 0; i < kValues; ++i) {
      auto value = std::make_unique<int>(i);
      while (!ring.try_push(std::move(value))) std::this_thread::yield();
    }
  });
  std::unique_ptr<int> value;
  int wrong = 0;
  for (int i = 0; i < kValues; ++i) {
    while (!ring.try_pop(value)) std::this_thread::yield();
    if (*value != i) ++wrong;
  }
  producer.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace turnstile::gateway
