// What a killed server leaves open is closed by the next start, once.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/records/audit.h"
#include "gateway/records/audit_line.h"
#include "gateway/records/audit_tail.h"
#include "gateway/records/audit_verify.h"
#include "gateway/records/line_reader.h"
#include "gateway/records/recovered_record.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_lines.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

RequestRecord admitted_record(const ManualClock& clock, const std::string& id) {
  RequestRecord record;
  record.request_id = id;
  record.client_request_id = "theirs-" + id;
  record.route = "/v1/completions";
  record.address = "192.0.2.7";
  record.department = "main";
  record.team = "lab";
  record.key_id = "anna";
  record.requested_class = "demo";
  record.service_class = "batch";
  record.clamped_by = "team/lab";
  record.model = "chat";
  record.serves = "smollm2";
  record.policy_revision = "r1-0a1b2c3d";
  record.choices = 2;
  record.prompt_tokens = 12;
  record.max_tokens = 64;
  record.arrived_wall = clock.wall() - 10ms;
  record.arrived = clock.now() - 10ms;
  record.dispatched = clock.now();
  return record;
}

// Starts of a server on one folder. The end of a Run is a kill: nothing more is written.
struct Machine {
  TempFolder state;
  ManualClock clock;

  // `next_file`: a new file number, as after a rotation.
  void run(const std::function<void(AuditLog&)>& live, std::uint64_t next_file = 0) {
    auto start = open_audit_folder(state.path());
    ASSERT_TRUE(start) << start.error();
    const std::uint64_t file = next_file != 0 ? next_file : start->file_number;
    MemoryLines lines;
    {
      AuditLog audit(clock, lines, *std::move(start));
      live(audit);
    }
    fs::create_directories(state / "audit");
    append(state / "audit" / fs::path("audit-00000" + std::to_string(file) + ".jsonl"),
           lines.text(LineStream::Audit));
    append(state / "requests.jsonl", lines.text(LineStream::Requests));
  }
  static void append(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::app) << text;
  }
  std::uint64_t open() const {
    const auto report = verify_audit(state.path());
    EXPECT_TRUE(report && report->problems.empty());
    return report ? report->open : 0;
  }
  std::vector<json::object> read(const std::string& file) const {
    std::vector<json::object> objects;
    std::istringstream text(state.read(file));
    for (std::string line; std::getline(text, line);) {
      objects.push_back(json::parse(line).as_object());
    }
    return objects;
  }
};

TEST(AuditRecovery, ARequestThatAKilledServerHadGetsItsEndAtTheNextStart) {
  Machine machine;
  machine.run([&](AuditLog& audit) {
    const RequestRecord done = admitted_record(machine.clock, "done");
    RequestRecord ended = done;
    ended.ended = machine.clock.now();
    audit.admitted(done);
    audit.admitted(admitted_record(machine.clock, "open-1"));
    audit.ended(ended);
    audit.admitted(admitted_record(machine.clock, "open-2"));
  });
  EXPECT_EQ(machine.open(), 2U) << "audit verify counts them";
  machine.clock.advance(1h);
  machine.run([](AuditLog&) {});
  EXPECT_EQ(machine.open(), 0U);
  machine.run([](AuditLog&) {});

  const auto audit = machine.read("audit/audit-000001.jsonl");
  ASSERT_EQ(audit.size(), 6U) << "once, whatever starts follow";
  for (std::size_t i = 0; i < 2; ++i) {
    json::object line = audit[4 + i];
    const json::object& admitted = audit[i == 0 ? 1 : 3];
    for (const char* same : {"request_id", "client_request_id", "route", "address", "path", "class",
                             "model", "policy", "choices"}) {
      EXPECT_EQ(line[same], admitted.at(same)) << same;
    }
    EXPECT_EQ(line["kind"].as_string(), "ended");
    EXPECT_EQ(line["outcome"].as_string(), "fault");
    EXPECT_EQ(line["code"].as_string(), "internal_error");
    EXPECT_TRUE(line["recovered"].as_bool());
    EXPECT_EQ(line["tokens"], json::parse(R"({"prompt":12,"max":64})")) << "no count is invented";
    for (const char* unknown : {"e2e_ms", "prefill_ms", "ledger", "service_units"}) {
      EXPECT_FALSE(line.contains(unknown)) << unknown;
    }
  }
  const auto requests = machine.read("requests.jsonl");
  ASSERT_EQ(requests.size(), 3U);
  json::object line = requests[1];
  EXPECT_EQ(line["request_id"].as_string(), "open-1");
  EXPECT_EQ(line["outcome"].as_string(), "fault");
  EXPECT_EQ(line["ts"].as_string(), "2025-12-31T23:59:59.990000Z") << "when it arrived";
  EXPECT_TRUE(line["recovered"].as_bool());
  for (const char* there : {"team", "key_id", "class", "code", "status", "prompt_tokens"}) {
    EXPECT_TRUE(line.contains(there)) << there;
  }
  for (const char* unknown : {"completion_tokens", "cached_tokens", "cache_hit", "e2e_ms"}) {
    EXPECT_FALSE(line.contains(unknown)) << unknown;
  }
}

// A full disk may take the end in requests.jsonl and not in the log: the log gets that end, and
// requests.jsonl no second line.
TEST(AuditRecovery, AnEndThatRequestsJsonlHasIsNotWrittenThereAgain) {
  Machine machine;
  machine.run([&](AuditLog& audit) {
    RequestRecord record = admitted_record(machine.clock, "r1");
    audit.admitted(record);
    record.first_token = machine.clock.now() + 20ms;
    record.last_token = machine.clock.now() + 50ms;
    record.ended = machine.clock.now() + 60ms;
    record.outcome = RequestOutcome::TimedOut;
    record.code = "decode_timeout";
    record.finish_reason = "length";
    record.status = 504;
    record.completion_tokens = 9;
    record.cached_tokens = 4;
    record.pauses = 1;
    audit.ended(record);
  });
  const std::string text = machine.state.read("audit/audit-000001.jsonl");
  const json::object lost = machine.read("audit/audit-000001.jsonl").at(1);
  machine.state.write("audit/audit-000001.jsonl", text.substr(0, text.find('\n') + 1));
  EXPECT_EQ(machine.open(), 1U);
  machine.run([](AuditLog&) {});
  EXPECT_EQ(machine.open(), 0U);
  EXPECT_EQ(machine.read("requests.jsonl").size(), 1U);
  const json::object ended = machine.read("audit/audit-000001.jsonl").at(1);
  for (const auto& [name, value] : lost) {
    const std::string_view member(name.data(), name.size());
    if (member == "ts" || member == "mono_us" || member == "hash") continue;
    ASSERT_TRUE(ended.contains(name)) << member;
    EXPECT_EQ(ended.at(name), value) << member;
  }
  EXPECT_TRUE(ended.at("recovered").as_bool());
}

RequestRecord ended_record(const ManualClock& clock, const std::string& id) {
  RequestRecord record = admitted_record(clock, id);
  record.first_token = clock.now() + 20ms;
  record.last_token = clock.now() + 50ms;
  record.ended = clock.now() + 60ms;
  record.finish_reason = "stop";
  record.status = 200;
  record.cached_tokens = 4;
  record.completion_tokens = 18;
  record.longest_choice_tokens = 11;
  record.pauses = 1;
  return record;
}

// One end of each kind; the clock stands where the last of them ends.
void end_one_of_each(Machine& machine, AuditLog& audit, const std::string& prefix) {
  const RequestRecord completed = ended_record(machine.clock, prefix + "-completed");
  RequestRecord refused = admitted_record(machine.clock, prefix + "-refused");
  refused.dispatched.reset();
  refused.ended = machine.clock.now() + 60ms;
  refused.outcome = RequestOutcome::Refused;
  refused.code = "queue_deadline";
  refused.status = 429;
  RequestRecord gone = refused;
  gone.request_id = prefix + "-gone";
  gone.outcome = RequestOutcome::ClientGone;
  gone.code = "client_gone";
  gone.status = 499;
  audit.admitted(completed);
  machine.clock.advance(60ms);
  audit.ended(completed);
  audit.refused(refused);
  audit.ended(gone);
}

// The line of requests.jsonl is written after the record of the log, and a kill may come between.
TEST(AuditRecovery, AnEndThatOnlyTheLogHasGetsItsLineAtTheNextStart) {
  for (const int kept : {5, 3, 1}) {
    Machine machine;
    machine.run([&](AuditLog& audit) {
      end_one_of_each(machine, audit, "a");
      end_one_of_each(machine, audit, "b");
    });
    const auto lost = machine.read("requests.jsonl");
    ASSERT_EQ(lost.size(), 6U);
    const std::string text = machine.state.read("requests.jsonl");
    std::size_t end = 0;
    for (int line = 0; line < kept; ++line) end = text.find('\n', end) + 1;
    // The last line that was kept may lie in a file that was full.
    machine.state.write("requests.jsonl", kept == 3 ? "" : text.substr(0, end));
    if (kept == 3) machine.state.write("requests-000002.jsonl", text.substr(0, end));
    if (kept == 3) machine.state.write("requests-000001.jsonl", "");
    machine.clock.advance(1h);
    machine.run([](AuditLog&) {});
    machine.run([](AuditLog&) {});
    const auto lines = machine.read("requests.jsonl");
    const std::size_t first = kept == 3 ? 3 : 0;  // line of the file
    ASSERT_EQ(lines.size(), 6 - first) << "once, whatever starts follow";
    for (auto i = static_cast<std::size_t>(kept); i < 6; ++i) {
      json::object expected = lost[i];
      expected["recovered"] = true;
      EXPECT_EQ(lines[i - first], expected) << i << " of " << kept;
    }
    const auto report = verify_audit(machine.state.path());
    EXPECT_TRUE(report && report->problems.empty() && report->records == 8) << "nothing new there";
  }
}

// Who moves requests.jsonl away between two starts does not want it back.
TEST(AuditRecovery, ARequestsFileThatSomebodyMovedAwayIsNotWrittenAgain) {
  Machine machine;
  machine.run([&](AuditLog& audit) { end_one_of_each(machine, audit, "a"); });
  fs::remove(machine.state / "requests.jsonl");
  machine.run([](AuditLog&) {});
  EXPECT_EQ(machine.state.read("requests.jsonl"), "");
}

TEST(AuditRecovery, AMergedRefusalKeepsItsCount) {
  ManualClock clock;
  MemoryLines lines;
  AuditLog audit(clock, lines, {});
  RequestRecord refused = admitted_record(clock, "r1");
  refused.outcome = RequestOutcome::Refused;
  refused.code = "queue_full";
  refused.ended = clock.now();
  for (int i = 0; i < 150; ++i) audit.refused(refused);
  audit.close();
  RecoveredRecord recovered;
  std::uint64_t sum = 0;
  for (const std::string& line : lines.lines(LineStream::Audit)) {
    if (recovered.read_end_record(line)) sum += recovered.count();
  }
  EXPECT_EQ(sum, 150U);
}

// Neither does what somebody else wrote there stop a start: a text that no server writes counts as
// none, however long it is in the record that it would be in.
TEST(AuditRecovery, TextsThatNoServerWroteAreLeftOut) {
  Machine machine;
  machine.run([&](AuditLog& audit) { audit.admitted(admitted_record(machine.clock, "r1")); });
  std::string escaped;
  for (int i = 0; i < 10'800; ++i) escaped += "\\u0001";
  Machine::append(machine.state / "requests.jsonl",
                  R"({"ts":"2026-01-01T00:00:00.000000Z","request_id":"r1","outcome":"fault",)"
                  R"("finish_reason":"stop","code":")" +
                      escaped + "\"}\n");
  machine.run([](AuditLog&) {});
  EXPECT_EQ(machine.open(), 0U);
  const json::object ended = machine.read("audit/audit-000001.jsonl").at(1);
  EXPECT_EQ(ended.at("outcome").as_string(), "fault");
  EXPECT_FALSE(ended.contains("code"));
}

// Checkpoints say where to begin, so a start does not read all that was ever written, and what has
// been open since before many checkpoints is found all the same.
TEST(AuditRecovery, CheckpointsSayHowFarBackToRead) {
  Machine machine;
  const auto busy = [&](AuditLog& audit) {
    for (int i = 0; i < 2'500; ++i) audit.key("k", "lab", "added");
  };
  machine.run([&](AuditLog& audit) {
    audit.admitted(admitted_record(machine.clock, "old"));
    busy(audit);
  });
  const auto found = [&] {
    const auto files = list_audit_files(machine.state / "audit").value();
    return unended_requests(files, machine.state / "requests.jsonl").value().size();
  };
  EXPECT_EQ(found(), 1U);
  const auto lines = machine.read("audit/audit-000001.jsonl");
  EXPECT_EQ(lines.at(1'000).at("open").as_int64(), 1);
  EXPECT_EQ(lines.at(1'000).at("open_from").as_int64(), 1);

  machine.run([&](AuditLog& audit) { busy(audit); }, 2);
  const auto after = machine.read("audit/audit-000002.jsonl");
  EXPECT_EQ(after.at(0).at("request_id").as_string(), "old") << "closed by this start";
  EXPECT_EQ(after.at(1'000).at("open").as_int64(), 0);
  EXPECT_FALSE(after.at(1'000).contains("open_from"));
  machine.state.write("audit/audit-000002.jsonl", "");
  EXPECT_EQ(found(), 1U) << "an empty last file: the one before it is read";
}

TEST(AuditRecovery, AtMostTheLastFilesAreRead) {
  Machine machine;
  machine.run([&](AuditLog& audit) { audit.admitted(admitted_record(machine.clock, "lost")); });
  const auto found = [&] {
    const auto files = list_audit_files(machine.state / "audit").value();
    return unended_requests(files, machine.state / "requests.jsonl").value().size();
  };
  for (std::size_t i = 2; i <= kMaxTailFiles + 1; ++i) {
    EXPECT_EQ(found(), 1U) << i;
    machine.state.write("audit/audit-00000" + std::to_string(i) + ".jsonl", "");
  }
  EXPECT_EQ(found(), 0U);
  EXPECT_EQ(machine.open(), 1U) << "audit verify says so";
}

// A start that is killed while it writes the ends leaves the rest to the next one, also when a
// checkpoint came in between.
TEST(AuditRecovery, AStartThatIsKilledLeavesTheRestToTheNext) {
  Machine machine;
  constexpr int kOpen = 1'500;
  machine.run([&](AuditLog& audit) {
    for (int i = 0; i < kOpen; ++i) {
      audit.admitted(admitted_record(machine.clock, "r" + std::to_string(i)));
    }
  });
  machine.run([](AuditLog&) {});
  std::string text = machine.state.read("audit/audit-000001.jsonl");
  std::size_t end = 0;
  for (int line = 0; line < kOpen + 1 + 1'100; ++line) end = text.find('\n', end) + 1;
  machine.state.write("audit/audit-000001.jsonl", text.substr(0, end));
  const std::uint64_t left = machine.open();
  EXPECT_GT(left, 300U);
  EXPECT_LT(left, 500U);
  machine.run([](AuditLog&) {});
  EXPECT_EQ(machine.open(), 0U);
}

TEST(AuditVerify, WhatIsNoRegularFileIsASentenceAndNoWait) {
  for (const bool is_pipe : {true, false}) {
    Machine machine;
    machine.run([](AuditLog& audit) { audit.key("k", "lab", "added"); });
    const fs::path odd = machine.state / "audit" / fs::path("audit-000002.jsonl");
    if (is_pipe) {
      ASSERT_EQ(::mkfifo(odd.c_str(), 0600), 0);
    } else {
      fs::create_symlink("/dev/zero", odd);
    }
    const auto report = verify_audit(machine.state.path());
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().find("audit-000002.jsonl: is not a regular file"), std::string::npos)
        << report.error();
    EXPECT_FALSE(open_audit_folder(machine.state.path()));
  }
}

TEST(AuditVerify, FilesThatOnlyLookLikeOnesOfTheLogAreSaid) {
  Machine machine;
  machine.run([](AuditLog& audit) { audit.key("k", "lab", "added"); });
  for (const char* name : {"audit-0000001.jsonl", "audit-000000.jsonl", "audit-x.jsonl"}) {
    machine.state.write("audit/" + std::string(name), "");
  }
  machine.state.write("audit/audit-000001.torn-1", "");
  const auto report = verify_audit(machine.state.path());
  ASSERT_TRUE(report && report->problems.empty());
  EXPECT_EQ(report->notes.size(), 3U);
}

TEST(LineReader, LinesOfAllSizesComeWholeAndTooLongOnesAreSkipped) {
  TempFolder folder;
  const std::string longest(kMaxAuditLineBytes, 'l');
  const fs::path path =
      folder.write("f", "a\n\n" + longest + "\n" + longest + "x\n" +
                            std::string(3 * kMaxAuditLineBytes + 5, 'y') + "\nb\ntorn");
  auto reader = LineReader::open(path);
  ASSERT_TRUE(reader) << reader.error();
  using Next = LineReader::Next;
  const std::vector<std::pair<Next, std::string>> expected{
      {Next::Line, "a"},   {Next::Line, ""},    {Next::Line, longest}, {Next::TooLong, ""},
      {Next::TooLong, ""}, {Next::Line, "b"}, {Next::Torn, "torn"},  {Next::End, ""}};
  for (const auto& [next, text] : expected) {
    std::string_view line;
    EXPECT_EQ(reader->next(line), next);
    EXPECT_EQ(line, text);
  }
  EXPECT_FALSE(LineReader::open(folder / "none"));

  std::string last;
  const auto keep = [&last](Next, std::string_view line) { return last = line, line != "b"; };
  EXPECT_TRUE(each_line(path, keep));
  EXPECT_EQ(last, "b") << "no further than asked";
  EXPECT_TRUE(each_line(path, keep, 3));
  EXPECT_EQ(last, "orn");
  // Its first page is never there.
  const auto unreadable = each_line("/proc/self/mem", keep);
  ASSERT_FALSE(unreadable);
  EXPECT_EQ(unreadable.error(), "/proc/self/mem: the file cannot be read.");
}

}  // namespace
}  // namespace turnstile::gateway
