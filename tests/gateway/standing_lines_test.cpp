// Every answer of a generating route after the key check says class, policy and rates: one row for
// each code with which such a request can end.
#include "gateway/standing_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "gateway/api/api_error.h"
#include "tests/support/spine_world.h"

namespace turnstile::tests {
namespace {

using namespace std::chrono_literals;
using gateway::ApiCode;

constexpr std::string_view kRoute = "/v1/completions";
constexpr std::string_view kBody = R"({"prompt":"hello there","max_tokens":4})";
constexpr std::string_view kLongBody = R"({"prompt":"hello there","max_tokens":400})";

MemoryClient send(SpineWorld& world, std::string_view bytes) {
  MemoryClient client = world.connect();
  client.send(bytes);
  world.settle();
  return client;
}

MemoryClient ask(SpineWorld& world, std::string_view body = kBody, std::string_view more = {}) {
  return send(world, world.post(kRoute, body, 0, more));
}

std::string head_of_post(const SpineWorld& world, std::string_view framing) {
  return "POST /v1/completions HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer " + world.secret() +
         "\r\n" + std::string(framing) + "\r\n\r\n";
}

// The engine was seen to need 100 ms for a step while others waited.
void show_pace(SpineWorld& world) {
  world.engine.step_time = 100ms;
  for (int i = 0; i < 8; ++i) {
    world.advance(100ms);
    world.engine.step();
    world.settle();
  }
}

void revoke_all(SpineWorld& world) {
  world.context.live.revoke_keys([](std::string_view) { return true; });
}

// Whether a request of a generating route can get the code after the key check.
bool may_end_with(ApiCode code) {
  switch (code) {
    // The key check itself, and what comes before it.
    case ApiCode::InvalidApiKey:
    case ApiCode::KeyExpired:
    case ApiCode::NotFound:
    case ApiCode::NotLocal:
    case ApiCode::UriTooLong:
    case ApiCode::ExpectationFailed:
    case ApiCode::HeadersTooLarge:
    case ApiCode::HttpVersion:
    // Nobody is there to be told.
    case ApiCode::ClientGone:
    case ApiCode::ClientSlow:
    // Names of the interface that nothing here gives.
    case ApiCode::OutsideSchedule:
    case ApiCode::PolicyChanged:
    case ApiCode::AuthThrottled: return false;
    case ApiCode::InvalidJson:
    case ApiCode::MissingRequiredParameter:
    case ApiCode::InvalidValue:
    case ApiCode::UnsupportedParameter:
    case ApiCode::ContextLengthExceeded:
    case ApiCode::InputTooLong:
    case ApiCode::ExceedsBudgetCapacity:
    case ApiCode::BadRequest:
    case ApiCode::KeyDisabled:
    case ApiCode::ModelNotAllowed:
    case ApiCode::ModelNotFound:
    case ApiCode::MethodNotAllowed:
    case ApiCode::RequestTimeout:
    case ApiCode::BodyTooLarge:
    case ApiCode::UnsupportedMediaType:
    case ApiCode::RateRequests:
    case ApiCode::BudgetTokens:
    case ApiCode::QueueFull:
    case ApiCode::Displaced:
    case ApiCode::WouldMissDeadline:
    case ApiCode::QueueDeadline:
    case ApiCode::InternalError:
    case ApiCode::Draining:
    case ApiCode::EngineNotReady:
    case ApiCode::AuditUnavailable:
    case ApiCode::Overloaded:
    case ApiCode::PrefillTimeout:
    case ApiCode::DecodeStall:
    case ApiCode::DecodeTimeout:
    case ApiCode::EngineFault: return true;
  }
  return true;
}

struct Row {
  ApiCode code;
  std::function<MemoryClient(SpineWorld&)> bring_about;
  std::string more_policy = {};  // settings of the team, then tables
  int requests_per_minute = 600;
  int tokens_per_minute = 60'000;
  std::size_t engine_takes = 64;
};

const Row kRows[] = {
    {ApiCode::InvalidJson, [](SpineWorld& world) { return ask(world, "{"); }},
    {ApiCode::MissingRequiredParameter, [](SpineWorld& world) { return ask(world, "{}"); }},
    {ApiCode::InvalidValue,
     [](SpineWorld& world) { return ask(world, R"({"prompt":"a","max_tokens":-1})"); }},
    {ApiCode::InvalidValue,
     [](SpineWorld& world) { return ask(world, kBody, "X-Turnstile-Class: royal\r\n"); }},
    {ApiCode::InvalidValue,
     [](SpineWorld& world) { return ask(world, kBody, "X-Turnstile-Deadline-Ms: soon\r\n"); }},
    {ApiCode::UnsupportedParameter,
     [](SpineWorld& world) { return ask(world, R"({"prompt":"a","echo":true})"); }},
    {ApiCode::ContextLengthExceeded,
     [](SpineWorld& world) { return ask(world, R"({"prompt":"a","max_tokens":100000})"); }},
    {ApiCode::InputTooLong, [](SpineWorld& world) { return ask(world); },
     "max_input_tokens = 2\n"},
    {.code = ApiCode::ExceedsBudgetCapacity,
     .bring_about = [](SpineWorld& world) { return ask(world, kLongBody); },
     .tokens_per_minute = 30},
    {ApiCode::BadRequest,
     [](SpineWorld& world) {
       return send(world, head_of_post(world, "Transfer-Encoding: chunked") + "3\n");
     }},
    {ApiCode::KeyDisabled, [](SpineWorld& world) { return ask(world); }, "disabled = true\n"},
    {ApiCode::InvalidJson, [](SpineWorld& world) { return ask(world, "{"); },
     "disabled = true\n"},
    {ApiCode::KeyDisabled,
     [](SpineWorld& world) {
       MemoryClient client = ask(world, kLongBody);
       revoke_all(world);
       world.settle();
       world.run_engine();
       return client;
     }},
    {ApiCode::ModelNotAllowed,
     [](SpineWorld& world) { return ask(world, R"({"prompt":"a","model":"toy"})"); },
     "models = [\"mine\"]\n[models.toy]\nserves = \"toy\"\n[models.mine]\nserves = \"toy\"\n"},
    {ApiCode::ModelNotFound,
     [](SpineWorld& world) { return ask(world, R"({"prompt":"a","model":"none"})"); }},
    {ApiCode::MethodNotAllowed,
     [](SpineWorld& world) { return send(world, world.get(kRoute)); }},
    {ApiCode::MethodNotAllowed,
     [](SpineWorld& world) { return send(world, world.get(kRoute)); }, "disabled = true\n"},
    {ApiCode::RequestTimeout,
     [](SpineWorld& world) {
       MemoryClient client = send(world, head_of_post(world, "Content-Length: 9"));
       world.advance(600s);
       return client;
     }},
    {ApiCode::BodyTooLarge,
     [](SpineWorld& world) {
       return send(world, head_of_post(world, "Content-Length: 1000000000"));
     }},
    {ApiCode::UnsupportedMediaType,
     [](SpineWorld& world) { return ask(world, kBody, "Content-Encoding: gzip\r\n"); }},
    {.code = ApiCode::RateRequests,
     .bring_about = [](SpineWorld& world) { return ask(world); },
     .requests_per_minute = 0},
    {.code = ApiCode::BudgetTokens,
     .bring_about = [](SpineWorld& world) { return ask(world); },
     .tokens_per_minute = 0},
    {ApiCode::QueueFull,
     [](SpineWorld& world) {
       const MemoryClient running = ask(world, kLongBody);
       return ask(world);
     },
     "inflight = 1\nqueue_requests = 0\n"},
    {ApiCode::Displaced,
     [](SpineWorld& world) {
       const MemoryClient running = ask(world, kLongBody);
       MemoryClient waiting = ask(world);
       const MemoryClient higher = ask(world, kBody, "X-Turnstile-Class: demo\r\n");
       return waiting;
     },
     "inflight = 1\nqueue_requests = 1\n"},
    {ApiCode::WouldMissDeadline,
     [](SpineWorld& world) {
       const MemoryClient running = ask(world, kLongBody);
       const MemoryClient waiting = ask(world);
       show_pace(world);
       return ask(world, kBody, "X-Turnstile-Deadline-Ms: 1\r\n");
     },
     "inflight = 1\n"},
    {ApiCode::QueueDeadline,
     [](SpineWorld& world) {
       const MemoryClient running = ask(world, kLongBody);
       MemoryClient waiting = ask(world);
       world.advance(3s);
       return waiting;
     },
     "inflight = 1\n[classes.standard]\nqueue_ttl = \"2s\"\n"},
    {ApiCode::InternalError,
     [](SpineWorld& world) {
       world.engine.throws_at_submit = true;
       return ask(world);
     }},
    {ApiCode::Draining,
     [](SpineWorld& world) {
       MemoryClient running = ask(world, kLongBody);
       world.context.drain.begin(world.clock.now());
       world.advance(5s);
       return ask(world);
     }},
    {ApiCode::Draining,
     [](SpineWorld& world) {
       MemoryClient running = ask(world, kLongBody);
       world.sessions->shut_down_all();
       world.settle();
       world.run_engine();
       return running;
     }},
    {ApiCode::EngineNotReady,
     [](SpineWorld& world) {
       MemoryClient client = world.connect();
       world.engine.fail("planted");
       client.send(world.post(kRoute, kBody));
       world.settle();
       return client;
     }},
    {ApiCode::AuditUnavailable,
     [](SpineWorld& world) {
       world.lines.set_writable(false);
       return ask(world);
     }},
    {.code = ApiCode::Overloaded,
     .bring_about = [](SpineWorld& world) { return ask(world); },
     .engine_takes = 0},
    {ApiCode::PrefillTimeout,
     [](SpineWorld& world) {
       MemoryClient client = ask(world);
       world.advance(40s);
       world.run_engine();
       return client;
     },
     "[classes.standard]\nprefill_timeout = { base = \"3s\" }\n"},
    {ApiCode::DecodeStall,
     [](SpineWorld& world) {
       MemoryClient client = ask(world, kLongBody);
       world.engine.step();
       world.settle();
       world.advance(2s);
       world.run_engine();
       return client;
     },
     "[classes.standard]\ndecode_timeout = { stall = \"2s\", total = \"60s\" }\n"},
    {ApiCode::DecodeTimeout,
     [](SpineWorld& world) {
       MemoryClient client = ask(world, kLongBody);
       for (int i = 0; i < 3; ++i) {
         world.engine.step();
         world.advance(1s);
       }
       world.run_engine();
       return client;
     },
     "[classes.standard]\ndecode_timeout = { stall = \"2s\", total = \"3s\" }\n"},
    {ApiCode::EngineFault,
     [](SpineWorld& world) {
       MemoryClient client = ask(world, kLongBody);
       world.engine.step();
       world.settle();
       world.engine.fail("planted");
       world.settle();
       return client;
     }},
};

// The default class of the team is not the one that the policy falls back to.
SpineWorldOptions options_of(const Row& row) {
  SpineWorldOptions options;
  options.policy = "[depts.main]\n[teams.lab]\ndept = \"main\"\ndefault_class = \"standard\"\n"
                   "requests_per_minute = " + std::to_string(row.requests_per_minute) +
                   "\ntokens_per_minute = " + std::to_string(row.tokens_per_minute) + "\n" +
                   row.more_policy;
  options.engine.max_open_requests = row.engine_takes;
  return options;
}

void expect_lines(const HttpAnswer& answer, std::string_view service_class) {
  EXPECT_EQ(answer.header("x-turnstile-class"), service_class);
  EXPECT_EQ(answer.header("x-turnstile-policy"), "r1-00000001");
  EXPECT_FALSE(answer.header("x-request-id").empty());
}

void expect_rates(const HttpAnswer& answer) {
  for (const std::string what : {"requests", "tokens"}) {
    for (const std::string which : {"limit", "remaining", "reset"}) {
      EXPECT_FALSE(answer.header("x-ratelimit-" + which + "-" + what).empty()) << which << what;
    }
  }
}

HttpAnswer answer_of(MemoryClient& client) {
  std::string bytes = client.take();
  const auto answer = take_answer(bytes, client.server_has_ended());
  EXPECT_TRUE(answer) << "no answer";
  return answer ? *answer : HttpAnswer{};
}

TEST(StandingLines, EveryErrorAfterTheKeyCheckHasThem) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(to_string(row.code));
    SpineWorld world(options_of(row));
    world.engine.plan = [](const engine::Request&) {
      FakePlan plan;
      plan.completion_tokens = 400;
      return plan;
    };
    MemoryClient client = row.bring_about(world);
    const HttpAnswer answer = answer_of(client);
    EXPECT_EQ(answer.status, http_status(row.code)) << answer.body;
    EXPECT_NE(answer.body.find('"' + std::string(to_string(row.code)) + '"'), std::string::npos)
        << answer.body;
    expect_lines(answer, "standard");
    expect_rates(answer);
  }
}

TEST(StandingLines, TheTableHasEveryCodeOfAGeneratingRoute) {
  constexpr int kCodes = static_cast<int>(ApiCode::EngineFault) + 1;
  for (int index = 0; index < kCodes; ++index) {
    const auto code = static_cast<ApiCode>(index);
    const bool is_listed = std::ranges::any_of(
        kRows, [&](const Row& row) { return row.code == code; });
    EXPECT_EQ(is_listed, may_end_with(code)) << to_string(code);
  }
}

TEST(StandingLines, GoodAnswersHaveThemToo) {
  SpineWorld world(options_of({ApiCode::InternalError, {}}));
  for (const char* body : {R"({"prompt":"a","stream":true})", R"({"prompt":"a"})"}) {
    MemoryClient client = ask(world, body, "X-Turnstile-Class: batch\r\n");
    world.run_engine();
    const HttpAnswer answer = answer_of(client);
    EXPECT_EQ(answer.status, 200);
    expect_lines(answer, "batch");
    expect_rates(answer);
  }
}

TEST(StandingLines, TheNextRequestOfTheConnectionHasItsOwn) {
  SpineWorld world(options_of({ApiCode::InternalError, {}}));
  MemoryClient client = ask(world, kBody, "X-Turnstile-Class: batch\r\n");
  world.run_engine();
  expect_lines(answer_of(client), "batch");
  client.send(world.post(kRoute, "{"));
  world.settle();
  expect_lines(answer_of(client), "standard");
  client.send(world.get("/v1/models"));
  world.settle();
  const HttpAnswer plain = answer_of(client);
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.header("x-turnstile-class"), "");
  EXPECT_EQ(plain.header("x-ratelimit-limit-tokens"), "");
}

// A stranger learns nothing, and no answer to somebody else's key says what that key has.
TEST(StandingLines, NothingIsSaidBeforeTheKeyCheck) {
  SpineWorld world(options_of({ApiCode::InternalError, {}}));
  MemoryClient client = send(
      world, "POST /v1/completions HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer x\r\n"
             "Content-Length: 0\r\n\r\n");
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.header("x-turnstile-class"), "");
  EXPECT_EQ(answer.header("x-turnstile-policy"), "");
}

// The key file is read again while the body comes in: the class is the one that policy falls back
// to, and there are no limits to show.
TEST(StandingLines, AKeyThatIsGoneMeanwhileHasTheClassOfThePolicy) {
  SpineWorld world(options_of({ApiCode::InternalError, {}}));
  const std::string request = world.post(kRoute, kBody);
  MemoryClient client = send(world, std::string_view(request).substr(0, request.size() - 5));
  world.context.admission.set_keys(world.clock.now(), {});
  client.send(std::string_view(request).substr(request.size() - 5));
  world.settle();
  const HttpAnswer answer = answer_of(client);
  EXPECT_EQ(answer.status, 403);
  expect_lines(answer, "interactive");
  EXPECT_EQ(answer.header("x-ratelimit-limit-tokens"), "");
}

}  // namespace
}  // namespace turnstile::tests
