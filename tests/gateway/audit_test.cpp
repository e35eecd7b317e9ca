#include "gateway/records/audit.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "gateway/records/audit_line.h"
#include "gateway/records/coalesce.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_lines.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

RequestRecord refused_record(const ManualClock& clock, const std::string& key,
                             std::string_view code = "rate_requests") {
  RequestRecord record;
  record.request_id = "0123456789abcdef0123456789abcdef";
  record.route = "/v1/chat/completions";
  record.department = "main";
  record.team = "lab";
  record.key_id = key;
  record.service_class = "interactive";
  record.requested_class = "demo";
  record.clamped_by = "team/lab";
  record.model = "chat";
  record.serves = "smollm2";
  record.policy_revision = "r1-0a1b2c3d";
  record.arrived_wall = clock.wall();
  record.arrived = clock.now();
  record.ended = clock.now();
  record.prompt_tokens = 12;
  record.outcome = RequestOutcome::Refused;
  record.code = code;
  record.status = 429;
  policy::Refusal refusal;
  refusal.code = policy::RefusalCode::RateRequests;
  refusal.meter = "requests_per_minute/team/lab";
  refusal.scope = "team/lab";
  refusal.limit = 60;
  refusal.committed = 15;
  refusal.asked = 1;
  refusal.retry_after = 1500ms;
  record.refusal = refusal;
  return record;
}

RequestRecord running_record(ManualClock& clock) {
  RequestRecord record = refused_record(clock, "anna");
  record.refusal.reset();
  record.outcome = RequestOutcome::Completed;
  record.code = {};
  record.status = 200;
  record.finish_reason = "stop";
  record.queued = policy::Queued{64, 5, 20, false, 3, 700};
  clock.advance(10ms);
  record.dispatched = clock.now();
  policy::Dispatch dispatch;
  dispatch.pick = {"interactive", 42, 40};
  dispatch.kv = {.need_blocks = 5, .free_blocks = 90, .capacity_blocks = 100};
  dispatch.checks = {{"queue/team/lab", 64, 3, 1}};
  record.dispatch = dispatch;
  record.max_tokens = 64;
  return record;
}

void finish(RequestRecord& record, ManualClock& clock) {
  clock.advance(20ms);
  record.first_token = clock.now();
  clock.advance(30ms);
  record.last_token = clock.now();
  record.ended = clock.now();
  record.completion_tokens = 7;
  record.cached_tokens = 4;
  record.settlement = policy::Settlement{{{"tokens_per_minute/team/lab", 32, 19}}, 26};
}

struct Fixture {
  ManualClock clock;
  MemoryLines lines;
  AuditLog audit{clock, lines, {}};

  const std::vector<std::string>& written() const { return lines.lines(LineStream::Audit); }
  json::object object(std::size_t i) const { return json::parse(written()[i]).as_object(); }
  std::uint64_t sum_of_counts(LineStream stream) const {
    std::uint64_t sum = 0;
    for (const std::string& line : lines.lines(stream)) {
      const json::object one = json::parse(line).as_object();
      if (const auto* kind = one.if_contains("kind");
          kind != nullptr && kind->as_string() != "refused" && kind->as_string() != "stranger") {
        continue;
      }
      const auto* count = one.if_contains("count");
      sum += count == nullptr ? 1 : json::value_to<std::uint64_t>(*count);
    }
    return sum;
  }
};

TEST(AuditLog, LinesAreSealedAndChained) {
  Fixture f;
  RequestRecord record = running_record(f.clock);
  EXPECT_EQ(f.audit.admitted(record), 1U);
  finish(record, f.clock);
  f.audit.ended(record);
  f.audit.refused(refused_record(f.clock, "bert"));

  std::string prev(64, '0');
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& line = f.written()[i];
    ASSERT_EQ(line.back(), '\n');
    const auto parts = take_apart(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->seq, i + 1);
    EXPECT_EQ(parts->prev, prev);
    EXPECT_EQ(hex_text(Sha256().digest(parts->hashed)), parts->hash);
    EXPECT_EQ(line, std::string(parts->hashed) + ",\"hash\":\"" + std::string(parts->hash) +
                        "\"}\n");
    prev = parts->hash;
  }
  EXPECT_EQ(f.audit.head().seq, 3U);
  EXPECT_EQ(f.audit.head().hash, prev);
  EXPECT_TRUE(f.audit.durable(3));
  EXPECT_FALSE(f.audit.durable(4));
}

// The whole text of each kind, so that a renamed or lost field shows.
TEST(AuditLog, RecordsSayWhatTheInterfacePromises) {
  Fixture f;
  f.audit.refused(refused_record(f.clock, "anna"));
  RequestRecord record = running_record(f.clock);
  f.audit.admitted(record);
  finish(record, f.clock);
  f.audit.ended(record);
  const std::string who =
      R"("request_id":"0123456789abcdef0123456789abcdef","route":"/v1/chat/completions",)"
      R"("path":{"dept":"main","team":"lab","key_id":"anna"},)"
      R"("class":{"requested":"demo","effective":"interactive","clamped_by":"team/lab"},)"
      R"("model":{"alias":"chat","resolved":"smollm2"},"policy":"r1-0a1b2c3d",)";
  const std::vector<std::string> expected{
      R"("ts":"2026-01-01T00:00:00.000000Z","mono_us":0,"kind":"refused",)" + who +
          R"("tokens":{"prompt":12},"queue_ms":0.000,"outcome":"refused","code":"rate_requests",)"
          R"("status":429,"meter":"requests_per_minute/team/lab","scope":"team/lab","limit":60,)"
          R"("committed":15,"asked":1,"retry_after_ms":1500.000)",
      R"("ts":"2026-01-01T00:00:00.010000Z","mono_us":10000,"kind":"admitted",)" + who +
          R"("tokens":{"prompt":12,"max":64,"est":20},)"
          R"("queue":{"wait_ms":10.000,"position":3,"ahead_units":700},)"
          R"("checks":[{"meter":"queue/team/lab","limit":64,"committed":3,"asked":1}],)"
          R"("pick":{"band":"interactive","v":42,"v_min":40},)"
          R"("kv":{"need":5,"free":90,"capacity":100})",
      R"("ts":"2026-01-01T00:00:00.060000Z","mono_us":60000,"kind":"ended",)" + who +
          R"("tokens":{"prompt":12,"cached":4,"output":7,"max":64},"queue_ms":10.000,)"
          R"("prefill_ms":20.000,"decode_ms":30.000,"ttft_ms":30.000,"tpot_ms":5.000,)"
          R"("e2e_ms":60.000,"outcome":"completed","status":200,"finish_reason":"stop",)"
          R"("service_units":26,)"
          R"("ledger":[{"meter":"tokens_per_minute/team/lab","reserved":32,"used":19}])"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string& line = f.written()[i];
    const std::size_t begin = line.find("\"ts\"");
    EXPECT_EQ(line.substr(begin, line.find(",\"hash\"") - begin), expected[i]);
  }
}

TEST(AuditLog, RequestLinesSayWhatTheInterfacePromises) {
  Fixture f;
  f.audit.refused(refused_record(f.clock, "anna"));
  RequestRecord record = running_record(f.clock);
  finish(record, f.clock);
  f.audit.ended(record);
  const std::string who =
      R"("request_id":"0123456789abcdef0123456789abcdef","route":"/v1/chat/completions",)"
      R"("model":"chat","dept":"main","team":"lab","key_id":"anna","class":"interactive",)";
  const auto& lines = f.lines.lines(LineStream::Requests);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], R"({"ts":"2026-01-01T00:00:00.000000Z",)" + who +
                          R"("outcome":"refused","code":"rate_requests","status":429,)"
                          R"("policy":"r1-0a1b2c3d","prompt_tokens":12,"cached_tokens":0,)"
                          R"("completion_tokens":0,"cache_hit":false,"queue_ms":0.000,)"
                          R"("e2e_ms":0.000})"
                          "\n");
  EXPECT_EQ(lines[1], R"({"ts":"2026-01-01T00:00:00.000000Z",)" + who +
                          R"("outcome":"completed","code":"","status":200,"finish_reason":"stop",)"
                          R"("policy":"r1-0a1b2c3d","prompt_tokens":12,"cached_tokens":4,)"
                          R"("completion_tokens":7,"cache_hit":true,"queue_ms":10.000,)"
                          R"("prefill_ms":20.000,"decode_ms":30.000,"ttft_ms":30.000,)"
                          R"("tpot_ms":5.000,"e2e_ms":60.000})"
                          "\n");
}

// The longest of every text that a record can hold, each character escaped to six, is far below
// the line's bound: ids and names by keys_file, policy and config, the address by the system.
TEST(AuditLog, TheLongestRecordIsFarBelowTheBound) {
  Fixture f;
  const auto text = [](std::size_t chars) { return std::string(chars, '\x01'); };
  RequestRecord record = running_record(f.clock);
  record.request_id = text(32);
  record.client_request_id = text(64);
  record.address = text(108);
  record.department = record.team = record.key_id = text(64);
  record.service_class = record.requested_class = text(32);
  record.clamped_by = text(6 + 128);
  record.model = text(128);
  record.serves = text(255);  // the stem of a file's name
  record.policy_revision = text(32);
  record.ticket = text(128);
  record.dispatch->checks = {};
  while (record.dispatch->checks.size() < policy::kMostChecks) {
    record.dispatch->checks.push_back({text(32 + 128), INT64_MIN, INT64_MIN, INT64_MIN});
  }
  f.audit.admitted(record);
  finish(record, f.clock);
  record.settlement->budgets = {};
  while (record.settlement->budgets.size() < 3) {
    record.settlement->budgets.push_back({text(32 + 128), INT64_MIN, INT64_MIN});
  }
  f.audit.ended(record);
  record = refused_record(f.clock, text(64));
  record.refusal->meter = record.refusal->scope = record.refusal->param = text(32 + 128);
  f.audit.refused(record);
  f.audit.policy(text(11), text(64), text(4'096));
  for (const std::string& line : f.written()) {
    EXPECT_LE(line.size(), kMaxAuditLineBytes) << line.substr(0, 200);
  }
}

TEST(AuditLog, HostileNamesStayInsideTheirLine) {
  Fixture f;
  RequestRecord record = refused_record(f.clock, "a\"b\n\\\x01\xE2\x80\xA8");
  f.audit.refused(record);
  ASSERT_EQ(f.written().size(), 1U);
  EXPECT_EQ(f.written()[0].find('\n'), f.written()[0].size() - 1);
  EXPECT_EQ(f.object(0)["path"].as_object()["key_id"].as_string(), record.key_id);
}

TEST(AuditLog, RefusalsAboveAHundredASecondBecomeOneRecordASecond) {
  Fixture f;
  for (int i = 0; i < 25'000; ++i) {
    f.audit.refused(refused_record(f.clock, "anna"));
    f.clock.advance(40us);
  }
  f.audit.tick();
  EXPECT_EQ(f.written().size(), 101U) << "100 single records and one for the rest";
  EXPECT_EQ(f.lines.lines(LineStream::Requests).size(), 101U);
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), 25'000U);
  EXPECT_EQ(f.sum_of_counts(LineStream::Requests), 25'000U);
  EXPECT_EQ(json::value_to<int>(f.object(100)["count"]), 24'900);
}

TEST(AuditLog, CoalescingIsByKeyAndKeepsCodesApart) {
  Fixture f;
  for (int i = 0; i < 150; ++i) {
    f.audit.refused(refused_record(f.clock, "anna", i % 2 == 0 ? "queue_full" : "rate_requests"));
  }
  f.audit.refused(refused_record(f.clock, "bert"));
  EXPECT_EQ(f.written().size(), 101U) << "bert is not anna";
  f.clock.advance(1s);
  f.audit.tick();
  ASSERT_EQ(f.written().size(), 103U);
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), 151U);
}

TEST(AuditLog, AQuietSecondStartsOver) {
  Fixture f;
  for (int second = 0; second < 3; ++second) {
    for (int i = 0; i < 100; ++i) f.audit.refused(refused_record(f.clock, "anna"));
    f.clock.advance(1s);
  }
  f.audit.tick();
  EXPECT_EQ(f.written().size(), 300U);
}

TEST(AuditLog, WhatIsCoalescedComesOutAtTheDeadlineAndAtTheEnd) {
  Fixture f;
  EXPECT_FALSE(f.audit.next_deadline());
  for (int i = 0; i < 101; ++i) f.audit.refused(refused_record(f.clock, "anna"));
  EXPECT_EQ(f.audit.next_deadline(), f.clock.now() + 1s);
  f.audit.close();
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), 101U);
  EXPECT_EQ(f.object(f.written().size() - 1)["kind"].as_string(), "checkpoint");
}

TEST(AuditLog, StrangersAreOneRecordAMinuteAndAddress) {
  Fixture f;
  for (int minute = 0; minute < 3; ++minute) {
    for (int i = 0; i < 60; ++i) {
      f.audit.stranger("192.0.2.7", "invalid_api_key", 401);
      f.clock.advance(1s);
    }
  }
  f.audit.stranger("192.0.2.8", "invalid_api_key", 401);
  f.clock.advance(1min);
  f.audit.tick();
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), 181U);
  int strangers = 0;
  for (std::size_t i = 0; i < f.written().size(); ++i) {
    strangers += f.object(i)["kind"].as_string() == "stranger" ? 1 : 0;
  }
  EXPECT_EQ(strangers, 5) << "at 0, 60, 120 and 180 s for the one, one for the other";
  EXPECT_TRUE(f.lines.lines(LineStream::Requests).empty()) << "strangers did not arrive";
}

TEST(AuditLog, StrangersBeyondTheBoundShareOneName) {
  Fixture f;
  for (std::size_t i = 0; i < StrangerCoalescer::kMaxAddresses + 10; ++i) {
    f.audit.stranger("addr-" + std::to_string(i), "invalid_api_key", 401);
  }
  f.audit.close();
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), StrangerCoalescer::kMaxAddresses + 10);
  std::size_t others = 0;
  for (std::size_t i = 0; i < f.written().size(); ++i) {
    const json::object one = f.object(i);
    const auto* address = one.if_contains("address");
    others += address != nullptr && address->as_string() == "other" ? 1 : 0;
  }
  EXPECT_EQ(others, 2U);
}

// Strangers alone must not fill the memory while the disk takes nothing.
TEST(AuditLog, WhileTheSinkIsNotWritableStrangersAreOnlyCounted) {
  Fixture f;
  f.audit.stranger("192.0.2.7", "invalid_api_key", 401);
  f.audit.admitted(running_record(f.clock));
  const std::size_t before = f.written().size();
  f.lines.set_writable(false);
  for (int minute = 0; minute < 10; ++minute) {
    for (const char* address : {"192.0.2.7", "192.0.2.8"}) {
      f.audit.stranger(address, "invalid_api_key", 401);
    }
    f.clock.advance(1min);
    f.audit.tick();
    EXPECT_FALSE(f.audit.next_deadline()) << "nothing to wake up for";
  }
  EXPECT_EQ(f.written().size(), before);
  f.lines.set_writable(true);
  ASSERT_TRUE(f.audit.next_deadline());
  f.audit.tick();
  EXPECT_EQ(f.sum_of_counts(LineStream::Audit), 21U);
}

TEST(AuditLog, CheckpointsComeEachThousandRecordsAndEachMinute) {
  Fixture f;
  for (int i = 0; i < 1'000; ++i) f.audit.key("anna", "lab", "added");
  ASSERT_EQ(f.written().size(), 1'001U);
  json::object checkpoint = f.object(1'000);
  EXPECT_EQ(checkpoint["kind"].as_string(), "checkpoint");
  EXPECT_EQ(json::value_to<int>(checkpoint["head_seq"]), 1'000);
  EXPECT_EQ(checkpoint["head_hash"].as_string(), f.object(999)["hash"].as_string());

  f.clock.advance(10min);
  f.audit.tick();
  EXPECT_EQ(f.written().size(), 1'001U) << "nothing new, nothing to say";
  f.audit.policy("r2-00000000", "00", "policies.toml");
  EXPECT_EQ(f.audit.next_deadline(), f.clock.now() + 60s);
  f.clock.advance(60s);
  f.audit.tick();
  EXPECT_EQ(f.written().size(), 1'003U);
}

TEST(RequestRecord, PhasesAddUpAndOneTokenHasNoTimePerToken) {
  ManualClock clock;
  RequestRecord record = running_record(clock);
  finish(record, clock);
  EXPECT_EQ(*record.queue_time() + *record.prefill_time() + *record.decode_time(),
            *record.last_token - record.arrived);
  EXPECT_EQ(record.time_per_output_token(), 5ms);
  record.longest_choice_tokens = 4;
  EXPECT_EQ(record.time_per_output_token(), 10ms) << "of the longest choice";
  record.longest_choice_tokens = 0;
  record.completion_tokens = 1;
  EXPECT_FALSE(record.time_per_output_token());
  record.dispatched.reset();
  EXPECT_EQ(record.queue_time(), 60ms) << "left the queue: waited until the end";
  EXPECT_FALSE(record.prefill_time());
}

TEST(EventLog, EventsAreOneLineEach) {
  ManualClock clock;
  MemoryLines lines;
  EventLog events(clock, lines);
  const std::vector<std::pair<std::string_view, std::string>> fields{{"file", "keys\n.toml"}};
  events.write("key_reload", "file", fields);
  events.write_json("start", "serve", "configuration", R"({"a":1})");
  EXPECT_EQ(lines.text(LineStream::Events),
            R"({"ts":"2026-01-01T00:00:00.000000Z","event":"key_reload","by":"file",)"
            R"("file":"keys\n.toml"})"
            "\n"
            R"({"ts":"2026-01-01T00:00:00.000000Z","event":"start","by":"serve",)"
            R"("configuration":{"a":1}})"
            "\n");
}

}  // namespace
}  // namespace turnstile::gateway
