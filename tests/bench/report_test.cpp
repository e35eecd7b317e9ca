#include "bench/load/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace turnstile::load {
namespace {

using namespace std::chrono_literals;

Record completed(Time scheduled, Time sent, Time first, Time last, std::uint64_t tokens) {
  Record record;
  record.scheduled = record.noticed = scheduled;
  record.sent = sent;
  record.first_token = first;
  record.last_token = last;
  record.ended = last;
  record.outcome = Outcome::Completed;
  record.status = 200;
  record.prompt_tokens = 10;
  record.completion_tokens = tokens;
  return record;
}

LoadResult two_answers_and_a_refusal() {
  LoadResult result;
  result.records.push_back(completed(0ms, 5ms, 105ms, 1000ms, 50));
  result.records.push_back(completed(0ms, 1000ms, 1300ms, 2000ms, 150));
  Record refused;
  refused.ended = 3ms;
  refused.outcome = Outcome::Rejected;
  refused.status = 429;
  refused.code = "queue_full";
  result.records.push_back(refused);
  result.wall = 2s;
  return result;
}

TEST(Report, CountsTokensOverTheTimeToTheLastEnd) {
  const Report report = make_report(Options{}, two_answers_and_a_refusal());
  EXPECT_NE(report.json.find(R"("out_tok_per_s":100,)"), std::string::npos) << report.json;
  EXPECT_NE(report.json.find(R"("in_tok_per_s":10,)"), std::string::npos);
  EXPECT_TRUE(report.is_valid);
}

// The second request waited a second for a free stream: from its schedule that counts, from its
// send it does not.
TEST(Report, LatencyCountsFromTheScheduleAndFromTheSend) {
  const Report report = make_report(Options{}, two_answers_and_a_refusal());
  EXPECT_NE(report.json.find(R"("ttft_sched_ms":{"n":2,"mean":702.5,"min":105,)"),
            std::string::npos) << report.json;
  EXPECT_NE(report.json.find(R"("ttft_sent_ms":{"n":2,"mean":200,"min":100,)"), std::string::npos);
}

TEST(Report, RefusalsAreApartFromErrors) {
  const Report report = make_report(Options{}, two_answers_and_a_refusal());
  EXPECT_NE(report.json.find(R"("offered":3,"unsent":0,"completed":2,"rejected":1,"http_error":0)"),
            std::string::npos) << report.json;
  EXPECT_NE(report.json.find(R"("codes":{"queue_full":1})"), std::string::npos);
  EXPECT_NE(report.json.find(R"("time_to_reject_ms":{"n":1,"mean":3,)"), std::string::npos);
}

TEST(Report, WhatWasNotMeasuredIsAbsent) {
  LoadResult result;
  result.records.resize(2);
  const Report report = make_report(Options{}, result);
  EXPECT_EQ(report.json.find("ttft"), std::string::npos);
  EXPECT_NE(report.json.find(R"("unsent":2)"), std::string::npos);
}

TEST(RecordLines, AreOneForEachRequest) {
  const std::string lines = record_lines(two_answers_and_a_refusal());
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_NE(lines.find(R"("outcome":"rejected","http":429,"code":"queue_full")"),
            std::string::npos);
}

}  // namespace
}  // namespace turnstile::load
