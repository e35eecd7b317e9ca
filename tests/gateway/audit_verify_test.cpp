#include "gateway/records/audit_verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gateway/records/audit.h"
#include "gateway/records/audit_folder.h"
#include "gateway/records/audit_line.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_lines.h"
#include "tests/support/one_of_many.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

using Lines = std::vector<std::string>;  // without line feeds

Lines good_lines(std::size_t count, policy::Duration apart = {}) {
  ManualClock clock;
  MemoryLines sink;
  AuditLog audit(clock, sink, {});
  for (std::size_t i = 0; i < count; ++i, clock.advance(apart)) {
    audit.key("key-" + std::to_string(i), "lab", "added");
  }
  Lines lines = sink.lines(LineStream::Audit);
  for (std::string& line : lines) line.pop_back();
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A log of 12 records in three files.
struct Log {
  TempFolder folder;
  std::vector<Lines> files;

  Log() {
    const Lines all = good_lines(12);
    for (auto at = all.begin(); at != all.end(); at += 4) files.push_back(Lines(at, at + 4));
  }
  std::string name(std::size_t i) const {
    return "audit-00000" + std::to_string(i + 1) + ".jsonl";
  }
  AuditReport verify() {
    for (std::size_t i = 0; i < files.size(); ++i) folder.write(name(i), joined(files[i]));
    const auto report = verify_audit(folder.path());
    EXPECT_TRUE(report);
    return report.value_or(AuditReport{});
  }
};

// Makes the line consistent with itself again, as somebody who knows the format would.
void reseal(std::string& line) {
  std::string open(take_apart(line)->hashed);
  Sha256 sha256;
  seal(open, sha256);
  open.pop_back();
  line = open;
}

TEST(AuditVerify, AWholeLogHasNoProblems) {
  Log log;
  const AuditReport report = log.verify();
  EXPECT_TRUE(report.problems.empty()) << to_string(report.problems.front());
  EXPECT_TRUE(report.notes.empty());
  EXPECT_EQ(report.records, 12U);
  EXPECT_EQ(report.files, 3U);
  EXPECT_EQ(report.first_seq, 1U);
  EXPECT_EQ(report.last_seq, 12U);
  EXPECT_EQ(report.head, std::string(take_apart(log.files[2][3])->hash));
}

struct Tampering {
  const char* what;
  std::function<void(Log&)> act;
  std::string first_problem;  // the name of the file and the line, then part of the sentence
  std::size_t problems = 1;
};

TEST(AuditVerify, EachKindOfTamperingIsFoundWhereItHappened) {
  const std::vector<Tampering> table{
      {"a character changed",
       [](Log& log) { log.files[1][1].replace(log.files[1][1].find("lab"), 3, "lob"); },
       "audit-000002.jsonl:2: record 6 was changed"},
      {"the hash changed",
       [](Log& log) { log.files[1][1][log.files[1][1].size() - 3] ^= 1; },
       "audit-000002.jsonl:2: record 6 was changed"},
      {"changed and sealed again",
       [](Log& log) {
         log.files[1][1].replace(log.files[1][1].find("lab"), 3, "lob");
         reseal(log.files[1][1]);
       },
       "audit-000002.jsonl:3: record 7 does not continue"},
      {"the last record of a file changed and sealed again",
       [](Log& log) {
         log.files[0][3].replace(log.files[0][3].find("lab"), 3, "lob");
         reseal(log.files[0][3]);
       },
       "audit-000002.jsonl:1: record 5 does not continue"},
      {"a line removed", [](Log& log) { log.files[1].erase(log.files[1].begin() + 1); },
       "audit-000002.jsonl:2: record 7 where 6 should be"},
      {"two lines swapped", [](Log& log) { std::swap(log.files[1][1], log.files[1][2]); },
       "audit-000002.jsonl:2: record 7 where 6 should be", 3},
      {"a line twice",
       [](Log& log) { log.files[1].insert(log.files[1].begin(), log.files[1][0]); },
       "audit-000002.jsonl:2: record 5 where 6 should be"},
      {"the first line removed", [](Log& log) { log.files[0].erase(log.files[0].begin()); },
       "audit-000001.jsonl:1: record 2 where 1 should be"},
      {"the end of a middle file cut", [](Log& log) { log.files[1].pop_back(); },
       "audit-000003.jsonl:1: record 9 where 8 should be"},
      {"half a line in the middle", [](Log& log) { log.files[1][1].resize(40); },
       "audit-000002.jsonl:2: not an audit record"},
      {"an empty line", [](Log& log) { log.files[1].insert(log.files[1].begin(), ""); },
       "audit-000002.jsonl:1: not an audit record"},
      {"text after a record", [](Log& log) { log.files[1][1] += " "; },
       "audit-000002.jsonl:2: not an audit record"},
      {"a forged record at the end",
       [](Log& log) {
         std::string line = log.files[2][3];
         line.replace(7, 2, "13");
         reseal(line);
         log.files[2].push_back(line);
       },
       "audit-000003.jsonl:5: record 13 does not continue"},
      {"a middle file gone",
       [](Log& log) {
         log.files[1].clear();
         log.folder.write(log.name(1), "");
       },
       "audit-000003.jsonl:1: record 9 where 5 should be"},
  };
  for (const Tampering& tampering : table) {
    Log log;
    tampering.act(log);
    const AuditReport report = log.verify();
    ASSERT_EQ(report.problems.size(), tampering.problems) << tampering.what;
    const std::string first = to_string(report.problems.front());
    EXPECT_NE(first.find(tampering.first_problem), std::string::npos)
        << tampering.what << " gave " << first;
  }
}

TEST(AuditVerify, MissingFilesAreFound) {
  Log log;
  log.verify();
  fs::remove(log.folder / log.name(1));
  auto report = verify_audit(log.folder.path());
  ASSERT_TRUE(report);
  ASSERT_FALSE(report->problems.empty());
  EXPECT_NE(report->problems[0].what.find("missing before it: audit file 2."), std::string::npos);
  fs::remove(log.folder / log.name(0));
  report = verify_audit(log.folder.path());
  EXPECT_NE(report->problems[0].what.find("audit file 1 to 2."), std::string::npos);
}

TEST(AuditVerify, ATornLastLineIsNotedAndNotDamage) {
  Log log;
  log.verify();
  const std::string whole = log.folder.read(log.name(2));
  // Every length that a crash can leave, the line feed alone missing included.
  for (std::size_t cut = 1; cut < log.files[2][3].size() + 1; cut += 7) {
    log.folder.write(log.name(2), whole.substr(0, whole.size() - cut));
    const auto report = verify_audit(log.folder.path());
    EXPECT_TRUE(report->problems.empty()) << cut;
    ASSERT_EQ(report->notes.size(), 1U) << cut;
    EXPECT_EQ(report->records, 11U);
  }
}

TEST(AuditVerify, AStateDirIsAsGoodAsTheAuditFolder) {
  TempFolder folder;
  fs::create_directory(folder / "audit");
  folder.write("audit/audit-000001.jsonl", joined(good_lines(3)));
  EXPECT_EQ(verify_audit(folder.path())->records, 3U);
  EXPECT_EQ(verify_audit(folder / "audit")->records, 3U);
  EXPECT_FALSE(verify_audit(folder / "nowhere"));
}

// 400 random single changes of a log: byte changed, lines removed, swapped, repeated. Each that
// changes anything must be found, and the verifier must survive it.
TEST(AuditVerify, RandomMutationsAreFound) {
  Log log;
  log.verify();
  Lines all;
  for (const Lines& file : log.files) all.insert(all.end(), file.begin(), file.end());
  const std::string whole = joined(all);
  TempFolder folder;
  std::mt19937 random(20'260'801);
  for (int round = 0; round < 400; ++round) {
    std::string text = whole;
    const auto at = random() % text.size();
    switch (random() % 4) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 + random() % 255)); break;
      case 1: text.erase(at, 1 + random() % 3); break;
      case 2: text.insert(at, 1, static_cast<char>(random() % 256)); break;
      default: {
        Lines lines = all;
        const auto i = random() % lines.size();
        const auto j = random() % lines.size();
        std::swap(lines[i], lines[j]);
        text = joined(lines);
      }
    }
    if (text == whole) continue;
    folder.write("audit-000001.jsonl", text);
    const auto report = verify_audit(folder.path());
    ASSERT_TRUE(report);
    // A change of the very end can look like what a crash leaves; that is reported too.
    EXPECT_FALSE(report->problems.empty() && report->notes.empty()) << "round " << round;
  }
}

// Start, stop, start: one chain over all of it.
TEST(AuditFolder, TheChainGoesOnWhereItStopped) {
  TempFolder state;
  ManualClock clock;
  for (int start = 0; start < 3; ++start) {
    const auto found = open_audit_folder(state.path());
    ASSERT_TRUE(found) << found.error();
    EXPECT_EQ(found->head.seq, static_cast<std::uint64_t>(start) * 3);
    auto writer = LineWriter::open({state.path(), found->file_number, 300});
    ASSERT_TRUE(writer) << writer.error();
    AuditLog audit(clock, **writer, *found);
    audit.key("anna", "lab", "added");
    audit.key("bert", "lab", "added");
    audit.close();
  }
  const auto report = verify_audit(state.path());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->problems.empty()) << to_string(report->problems.front());
  EXPECT_EQ(report->records, 9U);
  EXPECT_GT(report->files, 1U) << "small files: it rotated";
}

TEST(AuditFolder, ATornTailIsMovedAsideAndRecorded) {
  TempFolder state;
  ManualClock clock;
  fs::create_directory(state / "audit");
  const std::string text = joined(good_lines(3)) + "{\"seq\":4,\"pre";
  state.write("audit/audit-000001.jsonl", text);
  const auto start = open_audit_folder(state.path());
  ASSERT_TRUE(start) << start.error();
  EXPECT_EQ(start->head.seq, 3U);
  EXPECT_EQ(start->torn_tail, "audit-000001.torn-1");
  EXPECT_EQ(state.read("audit/audit-000001.torn-1"), "{\"seq\":4,\"pre");
  {
    auto writer = LineWriter::open({state.path(), start->file_number, 1 << 20});
    AuditLog audit(clock, **writer, *start);
    audit.close();
  }
  EXPECT_NE(state.read("audit/audit-000001.jsonl").find("\"kind\":\"recovered\""),
            std::string::npos);
  const auto report = verify_audit(state.path());
  EXPECT_TRUE(report->problems.empty() && report->notes.empty());
}

// A file system that puts off its writes may leave zeros of any length after a power cut, also
// before a block that it wrote. A server did not start on those until somebody moved the folder.
TEST(AuditFolder, ZerosOfAPowerCutAreMovedAside) {
  const Lines lines = good_lines(5);
  const std::string whole = joined(Lines(lines.begin(), lines.begin() + 3));
  const std::string zeros(100'000, '\0');
  for (const std::string& lost :
       {std::string(1, '\0'), zeros, zeros + "\n", lines[3].substr(0, 40) + zeros,
        zeros + lines[3].substr(40) + "\n" + lines[4] + "\n", std::string(3 << 20, '\0')}) {
    TempFolder state;
    fs::create_directory(state / "audit");
    state.write("audit/audit-000001.jsonl", whole + lost);
    const auto start = open_audit_folder(state.path());
    ASSERT_TRUE(start) << start.error();
    EXPECT_EQ(start->head.seq, 3U);
    EXPECT_EQ(start->torn_tail, "audit-000001.torn-1");
    EXPECT_EQ(state.read("audit/audit-000001.torn-1"), lost);
    EXPECT_EQ(state.read("audit/audit-000001.jsonl"), whole);
  }
  TempFolder state;
  fs::create_directory(state / "audit");
  state.write("audit/audit-000001.jsonl", whole);
  state.write("audit/audit-000002.jsonl", zeros);
  const auto start = open_audit_folder(state.path());
  ASSERT_TRUE(start) << start.error();
  EXPECT_EQ(start->head.seq, 3U) << "a file of nothing but zeros: the one before it";
}

// One byte that became a zero took all later records out of the log, up to 16 MiB of them, and
// `audit verify` found it whole.
TEST(AuditFolder, ZerosBeforeRecordsThatWereSyncedAreDamage) {
  const std::string zeros(100'000, '\0');
  for (const auto& [apart, is_damage] :
       {std::pair(std::chrono::seconds(60), true), std::pair(std::chrono::seconds(1), false)}) {
    const Lines lines = good_lines(6, apart);
    const std::string whole = joined(Lines(lines.begin(), lines.begin() + 2));
    const std::string later = joined(Lines(lines.begin() + 3, lines.end()));
    std::string one_byte = lines[2];
    one_byte[one_byte.find("lab")] = '\0';
    for (const std::string& damaged : {one_byte + "\n", zeros, zeros + lines[2].substr(40) + "\n",
                                       lines[2].substr(0, 120) + zeros + "\n"}) {
      for (const bool is_second_file : {false, true}) {
        TempFolder state;
        fs::create_directory(state / "audit");
        state.write("audit/audit-000001.jsonl", whole + (is_second_file ? "" : damaged + later));
        const std::string last = is_second_file ? "audit/audit-000002" : "audit/audit-000001";
        if (is_second_file) state.write(last + ".jsonl", damaged + later);
        const std::string before = state.read(last + ".jsonl");
        const auto start = open_audit_folder(state.path());
        ASSERT_EQ(!start, is_damage);
        EXPECT_EQ(fs::exists(state / (last + ".torn-1")), !is_damage);
        if (!is_damage) continue;
        EXPECT_NE(start.error().find("turnstile audit verify"), std::string::npos);
        EXPECT_EQ(state.read(last + ".jsonl"), before);
        EXPECT_FALSE(verify_audit(state.path()).value().problems.empty());
      }
    }
  }
}

// The first records after a quiet night, and a power cut in the same second.
TEST(AuditFolder, ZerosLongAfterTheLastRecordAreMovedAside) {
  const Lines lines = good_lines(2, std::chrono::hours(8));
  const std::string whole = lines[0] + "\n";
  const std::string lost = std::string(4'096, '\0') + "\n" + lines[1] + "\n";
  TempFolder state;
  fs::create_directory(state / "audit");
  state.write("audit/audit-000001.jsonl", whole + lost);
  const auto start = open_audit_folder(state.path());
  ASSERT_TRUE(start) << start.error();
  EXPECT_EQ(start->head.seq, 1U);
  EXPECT_EQ(state.read("audit/audit-000001.torn-1"), lost);
}

TEST(AuditFolder, AnEmptyLastFileGoesOnFromTheOneBefore) {
  TempFolder state;
  fs::create_directory(state / "audit");
  state.write("audit/audit-000001.jsonl", joined(good_lines(2)));
  state.write("audit/audit-000002.jsonl", "");
  const auto start = open_audit_folder(state.path());
  ASSERT_TRUE(start) << start.error();
  EXPECT_EQ(start->head.seq, 2U);
  EXPECT_EQ(start->file_number, 2U);
}

TEST(AuditFolder, ADamagedEndIsNotContinued) {
  TempFolder state;
  fs::create_directory(state / "audit");
  Lines lines = good_lines(2);
  lines[1].replace(lines[1].find("lab"), 3, "lob");
  state.write("audit/audit-000001.jsonl", joined(lines));
  const auto start = open_audit_folder(state.path());
  ASSERT_FALSE(start);
  EXPECT_NE(start.error().find("turnstile audit verify"), std::string::npos);
}

// Each of them was taken for an empty one, and the chain began a second time, in the same file.
TEST(AuditFolder, AFolderOrFileThatCannotBeReadIsNotAnEmptyOne) {
  TempFolder state;
  fs::create_directory(state / "audit");
  const fs::path file = state.write("audit/audit-000001.jsonl", joined(good_lines(2)));
  fs::permissions(state.path(), fs::perms::all);
  const auto sentence = [&] {
    const OneOfMany rights;
    const auto start = open_audit_folder(state.path());
    return start ? std::to_string(start->head.seq) : start.error();
  };
  fs::permissions(state / "audit", fs::perms::all);
  fs::permissions(file, fs::perms::all);
  EXPECT_EQ(sentence(), "2");
  fs::permissions(file, fs::perms::owner_write);
  EXPECT_EQ(sentence(), file.string() + ": the file cannot be read: Permission denied.");
  fs::permissions(file, fs::perms::all);
  fs::permissions(state / "audit", fs::perms::owner_write | fs::perms::owner_exec |
                                       fs::perms::others_write | fs::perms::others_exec);
  EXPECT_EQ(sentence(),
            (state / "audit").string() + ": the folder cannot be listed: Permission denied.");
  {
    const OneOfMany rights;
    const auto lock = lock_audit_folder(state.path());
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error(),
              (state / "audit").string() + ": the folder cannot be opened: Permission denied.");
    const auto report = verify_audit(state / "audit");
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().find("cannot be listed"), std::string::npos);
  }
  fs::permissions(state / "audit", fs::perms::owner_all);
}

// Two servers with one state_dir each numbered their own records: the chain broke at once.
TEST(AuditFolder, ASecondServerIsKeptOutUntilTheFirstEnds) {
  TempFolder state;
  {
    const auto first = lock_audit_folder(state.path());
    ASSERT_TRUE(first) << first.error();
    const auto second = lock_audit_folder(state.path());
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().find((state / "audit").string()), std::string::npos);
    EXPECT_NE(second.error().find("state_dir"), std::string::npos);
  }
  EXPECT_TRUE(lock_audit_folder(state.path()));
}

}  // namespace
}  // namespace turnstile::gateway
