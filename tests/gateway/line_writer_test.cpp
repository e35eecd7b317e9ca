#include "gateway/records/line_writer.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "gateway/records/audit.h"
#include "gateway/records/audit_verify.h"
#include "gateway/records/line_file.h"
#include "tests/support/manual_clock.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/temp_folder.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

TEST(LineWriter, LinesReachTheirFilesInOrder) {
  TempFolder state;
  std::string audit;
  std::string requests;
  {
    auto writer = LineWriter::open({state.path()});
    ASSERT_TRUE(writer) << writer.error();
    for (int i = 0; i < 20'000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      (*writer)->write(i % 3 == 0 ? LineStream::Requests : LineStream::Audit, line);
      (i % 3 == 0 ? requests : audit) += line;
    }
    (*writer)->write(LineStream::Events, "event\n");
    EXPECT_TRUE((*writer)->flush());
    EXPECT_EQ(state.read("audit/audit-000001.jsonl"), audit);
    EXPECT_TRUE((*writer)->is_writable());
    (*writer)->write(LineStream::Audit, "last\n");
  }
  EXPECT_EQ(state.read("audit/audit-000001.jsonl"), audit + "last\n") << "closing flushes";
  EXPECT_EQ(state.read("requests.jsonl"), requests);
  EXPECT_EQ(state.read("events.jsonl"), "event\n");
}

TEST(LineWriter, FilesAreForTheOwnerAlone) {
  TempFolder state;
  const fs::path folder = state / "new";
  { const auto writer = LineWriter::open({folder}); }
  const fs::perms others = fs::perms::group_all | fs::perms::others_all;
  for (const fs::path& path :
       {folder, folder / "audit", folder / "requests.jsonl", folder / "audit/audit-000001.jsonl"}) {
    EXPECT_EQ(fs::status(path).permissions() & others, fs::perms::none) << path;
  }
}

TEST(LineWriter, AFolderThatCannotBeMadeIsASentence) {
  TempFolder state;
  state.write("file", "");
  const auto writer = LineWriter::open({state / "file"});
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().find((state / "file").string()), std::string::npos);
}

TEST(LineFile, RotatesBetweenLinesAndLosesNone) {
  TempFolder folder;
  std::string expected;
  {
    LineFile file;
    ASSERT_TRUE(file.open({folder.path(), "audit", 3, 100}));
    for (int i = 0; i < 200; ++i) {
      std::string lines = "record " + std::to_string(i) + "\n";
      if (i % 5 == 0) lines += std::string(static_cast<std::size_t>(i), 'x') + "\n";
      expected += lines;
      ASSERT_TRUE(file.write(lines));
      EXPECT_TRUE(lines.empty());
    }
  }
  std::string all;
  std::uint64_t number = 3;
  for (; fs::exists(folder / numbered_name("audit", number)); ++number) {
    const std::string text = folder.read(numbered_name("audit", number));
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    all += text;
  }
  EXPECT_EQ(all, expected);
  EXPECT_GT(number, 20U);
}

// The writer rotates while records keep coming, and a second run goes on in the last file: the
// chain holds over all files and every record is there.
TEST(LineWriter, RotatesUnderLoadAndLosesNothing) {
  constexpr int kRecords = 3'000;
  TempFolder state;
  for (int run = 1; run <= 2; ++run) {
    auto start = open_audit_folder(state.path());
    ASSERT_TRUE(start) << start.error();
    auto writer = LineWriter::open({state.path(), start->file_number, 16 << 10});
    ASSERT_TRUE(writer) << writer.error();
    ManualClock clock;
    AuditLog audit(clock, **writer, std::move(*start));
    for (int i = 0; i < kRecords; ++i) {
      audit.key("key-" + std::to_string(i), "lab", "added");
      (*writer)->write(LineStream::Requests, "request " + std::to_string(i) + "\n");
    }
    audit.close();
    EXPECT_TRUE((*writer)->flush());
  }
  const auto report = verify_audit(state / "audit");
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(report->problems.empty()) << to_string(report->problems.front());
  EXPECT_GE(report->records, 2U * kRecords);
  EXPECT_GT(report->files, 10U);
  std::size_t files = 0;
  std::size_t requests = 0;
  for (const auto& entry : fs::directory_iterator(state.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("requests")) continue;
    ++files;
    const std::string text = state.read(name);
    EXPECT_LT(text.size(), 17U << 10) << name;
    requests += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  EXPECT_EQ(requests, 2U * kRecords);
  EXPECT_GT(files, 3U);
}

TEST(LineFile, AnUnnumberedFileIsRenamedWhenItIsFullAndGoesOnAfterARestart) {
  TempFolder folder;
  for (int start = 0; start < 2; ++start) {
    LineFile file;
    ASSERT_TRUE(file.open({folder.path(), "requests", std::nullopt, 20}));
    for (int i = 0; i < 3; ++i) {
      std::string line = "0123456789012345678 " + std::to_string(i) + "\n";
      ASSERT_TRUE(file.write(line));
    }
  }
  EXPECT_EQ(folder.read("requests-000001.jsonl"), "0123456789012345678 0\n");
  EXPECT_EQ(folder.read("requests-000005.jsonl"), "0123456789012345678 1\n");
  EXPECT_EQ(folder.read("requests.jsonl"), "0123456789012345678 2\n");
}

// /dev/full refuses every write, as a full disk does.
TEST(LineFile, AFullDiskKeepsTheLinesForLater) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  TempFolder folder;
  fs::create_symlink("/dev/full", folder / "requests.jsonl");
  LineFile file;
  ASSERT_TRUE(file.open({folder.path(), "requests", std::nullopt, 1 << 20}));
  std::string lines = "a\nb\n";
  const auto written = file.write(lines);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().find("requests.jsonl"), std::string::npos);
  EXPECT_EQ(lines, "a\nb\n");
}

TEST(LineWriter, AFullDiskIsSeenAndLinesWait) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  TempFolder state;
  fs::create_symlink("/dev/full", state / "requests.jsonl");
  auto writer = LineWriter::open({state.path()});
  ASSERT_TRUE(writer) << writer.error();
  (*writer)->write(LineStream::Requests, "a\n");
  EXPECT_FALSE((*writer)->flush());
  EXPECT_FALSE((*writer)->is_writable());
}

// No file of this process may grow beyond so many bytes, as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*old_signal_)(int);
};

// More lines than the high mark, while the disk takes none: each write() returns at once, and once
// there is room again every line is in the file, in order.
TEST(LineWriter, AFullDiskNeverMakesTheCallerWaitAndLosesNothing) {
  TempFolder state;
  std::string expected;
  {
    auto writer = LineWriter::open({state.path()});
    ASSERT_TRUE(writer) << writer.error();
    {
      const FileSizeLimit full(10'000);
      const std::string rest(200, 'x');
      for (std::size_t i = 0; i < LineWriter::kHighMarkLines + 5'000; ++i) {
        const std::string line = std::to_string(i) + rest + "\n";
        (*writer)->write(LineStream::Audit, line);
        expected += line;
      }
      EXPECT_FALSE((*writer)->flush());
      EXPECT_FALSE((*writer)->is_writable());
    }
  }
  EXPECT_EQ(state.read("audit/audit-000001.jsonl"), expected) << "closing writes what waited";
}

TEST(LineWriter, CloseSaysWhatTheDiskDidNotTake) {
  TempFolder state;
  auto writer = LineWriter::open({state.path()});
  ASSERT_TRUE(writer) << writer.error();
  (*writer)->write(LineStream::Audit, "a\n");
  ASSERT_TRUE((*writer)->flush());
  const FileSizeLimit full(2);
  for (int i = 0; i < 700; ++i) (*writer)->write(LineStream::Audit, "b\n");
  EXPECT_EQ((*writer)->close(), 700U);
  EXPECT_EQ((*writer)->close(), 700U) << "whoever asks again";
  auto healthy = LineWriter::open({state / "other"});
  ASSERT_TRUE(healthy) << healthy.error();
  EXPECT_EQ((*healthy)->close(), 0U);
}

// requests.jsonl is no chain, so nobody moves a torn line aside; the line after it must be whole.
TEST(LineFile, ALineAfterATornOneStandsAlone) {
  TempFolder folder;
  folder.write("requests.jsonl", "{\"a\":1}\n{\"b\":");
  for (int start = 0; start < 2; ++start) {
    LineFile file;
    ASSERT_TRUE(file.open({folder.path(), "requests", std::nullopt, 1'000}));
    std::string lines = "{\"c\":1}\n";
    ASSERT_TRUE(file.write(lines));
  }
  EXPECT_EQ(folder.read("requests.jsonl"), "{\"a\":1}\n{\"b\":\n{\"c\":1}\n{\"c\":1}\n");
}

// A log of four records and a checkpoint. `act`, after the second record, is what somebody does to
// the files of a running server.
AuditReport report_after(TempFolder& state, const std::function<void()>& act) {
  auto start = open_audit_folder(state.path());
  EXPECT_TRUE(start) << start.error();
  auto writer = LineWriter::open({state.path(), start->file_number});
  EXPECT_TRUE(writer) << writer.error();
  ManualClock clock;
  AuditLog audit(clock, **writer, *std::move(start));
  const auto add = [&] {
    audit.key("anna", "lab", "added");
    (*writer)->write(LineStream::Requests, "request\n");
    EXPECT_TRUE((*writer)->flush());
  };
  add();
  add();
  act();
  add();
  add();
  audit.close();
  EXPECT_EQ((*writer)->close(), 0U);
  return verify_audit(state.path()).value_or(AuditReport{});
}

// The writer went on into the file that nobody could find any more: records were lost without a
// word, and the log began anew at the next start, whole by itself.
TEST(LineWriter, AFileThatIsRemovedWhileItIsWrittenIsMissed) {
  TempFolder state;
  const AuditReport report = report_after(state, [&] {
    fs::remove(state / "audit/audit-000001.jsonl");
    fs::remove(state / "requests.jsonl");
  });
  ASSERT_EQ(report.problems.size(), 2U);
  EXPECT_NE(report.problems[0].what.find("audit file 1"), std::string::npos);
  EXPECT_NE(report.problems[1].what.find("record 3 where 1 should be"), std::string::npos);
  EXPECT_EQ(report.files, 1U);
  EXPECT_EQ(state.read("requests.jsonl"), "request\nrequest\n");
}

TEST(LineWriter, AFileThatIsMovedAwayWhileItIsWrittenCanBePutBack) {
  TempFolder state;
  report_after(state, [&] { fs::rename(state / "audit/audit-000001.jsonl", state / "aside"); });
  fs::rename(state / "aside", state / "audit/audit-000001.jsonl");
  const auto report = verify_audit(state.path());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->problems.empty()) << to_string(report->problems.front());
  EXPECT_EQ(report->files, 2U);
  EXPECT_EQ(report->last_seq, 5U);
}

bool becomes_writable(const LineWriter& writer, bool expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (writer.is_writable() != expected && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return writer.is_writable() == expected;
}

TEST(LineWriter, AFolderThatIsMovedAwayStopsWhatIsNewUntilItIsPutBack) {
  TempFolder state;
  auto writer = LineWriter::open({.state_dir = state.path()});
  ASSERT_TRUE(writer) << writer.error();
  (*writer)->write(LineStream::Audit, "a\n");
  ASSERT_TRUE((*writer)->flush());
  for (const bool has_other : {false, true}) {
    fs::rename(state / "audit", state / "moved");
    if (has_other) fs::create_directory(state / "audit");
    (*writer)->write(LineStream::Audit, "b\n");
    ASSERT_TRUE(becomes_writable(**writer, false));
    if (has_other) fs::remove(state / "audit");
    fs::rename(state / "moved", state / "audit");
    ASSERT_TRUE(becomes_writable(**writer, true));
  }
  EXPECT_EQ((*writer)->close(), 0U);
  EXPECT_EQ(state.read("audit/audit-000001.jsonl"), "a\nb\nb\n") << "what had begun is written";
}

// The files were looked at before the lines alone: a folder that was moved in between was noticed
// with the next record, and it may be long until then.
TEST(LineWriter, AFolderThatIsMovedWhileALineIsWrittenIsNoticedWithoutAnother) {
  TempFolder state;
  // The writer waits in its line while nobody reads the pipe.
  ASSERT_EQ(::mkfifo((state / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", state / "requests.jsonl");
  const int reader = ::open((state / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  auto writer = LineWriter::open({.state_dir = state.path()});
  ASSERT_TRUE(writer) << writer.error();
  (*writer)->write(LineStream::Audit, "a\n");
  ASSERT_TRUE((*writer)->flush());
  std::this_thread::sleep_for(std::chrono::milliseconds(1'100));  // so that a sync is due

  const std::string line = std::string(200'000, 'r') + "\n";
  (*writer)->write(LineStream::Requests, line);
  pollfd written{reader, POLLIN, 0};
  ASSERT_EQ(::poll(&written, 1, 60'000), 1);
  fs::rename(state / "audit", state / "moved");
  std::string piped(line.size(), '\0');
  std::size_t got = 0;
  while (got < line.size() && ::poll(&written, 1, 60'000) == 1) {
    const ssize_t count = ::read(reader, piped.data() + got, piped.size() - got);
    if (count > 0) got += static_cast<std::size_t>(count);
  }
  EXPECT_EQ(piped, line);
  EXPECT_TRUE(becomes_writable(**writer, false));
  fs::rename(state / "moved", state / "audit");
  EXPECT_TRUE(becomes_writable(**writer, true));
  EXPECT_EQ((*writer)->close(), 0U);
  ::close(reader);
}

// It was listed by its path, where nothing lay or another folder, and so got the first number.
TEST(LineFile, AFullFileOfAFolderThatWasMovedReplacesNone) {
  for (const bool has_other : {false, true}) {
    TempFolder state;
    const fs::path folder = state / "records";
    fs::create_directory(folder);
    state.write("records/requests-000001.jsonl", "old\n");
    LineFile file;
    ASSERT_TRUE(file.open({folder, "requests", std::nullopt, 4}));
    fs::rename(folder, state / "moved");
    if (has_other) fs::create_directory(folder);
    std::string lines = "full\nmore\n";
    const auto written = file.write(lines);
    EXPECT_TRUE(written) << written.error();
    EXPECT_EQ(state.read("moved/requests-000001.jsonl"), "old\n");
    EXPECT_EQ(state.read("moved/requests-000002.jsonl"), "full\n");
    EXPECT_EQ(state.read("moved/requests.jsonl"), "more\n");
  }
}

// The warning was lost with the file that could not be opened, and so was the error: the next
// follow() found nothing wrong.
TEST(LineFile, AFileThatWasTakenAwayIsToldAlsoWhenTheNextCannotBeOpened) {
  TempFolder folder;
  LineFile file;
  ASSERT_TRUE(file.open({folder.path(), "audit", 1, 1 << 20}));
  fs::remove(folder / "audit-000001.jsonl");
  fs::create_directory(folder / "audit-000002.jsonl");
  const auto told = file.follow();
  ASSERT_TRUE(told) << told.error();
  EXPECT_NE(told->find("audit-000001.jsonl: the file was removed or moved away; records go on in "
                       "audit-000002.jsonl"),
            std::string::npos)
      << *told;
  std::string lines = "a\n";
  const auto written = file.write(lines);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().find("audit-000002.jsonl: the file cannot be opened"),
            std::string::npos)
      << written.error();
  EXPECT_EQ(lines, "a\n");
  fs::remove(folder / "audit-000002.jsonl");
  EXPECT_TRUE(file.write(lines));
  EXPECT_EQ(folder.read("audit-000002.jsonl"), "a\n");
}

// /dev/full cannot be synced either.
TEST(LineFile, AFileThatWasTakenAwayAndCannotBeSyncedIsTold) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  TempFolder folder;
  fs::create_symlink("/dev/full", folder / "requests.jsonl");
  LineFile file;
  ASSERT_TRUE(file.open({folder.path(), "requests", std::nullopt, 1 << 20}));
  fs::remove(folder / "requests.jsonl");
  const auto told = file.follow();
  ASSERT_TRUE(told) << told.error();
  EXPECT_TRUE(told->ends_with("requests.jsonl: the file was removed or moved away (its last second "
                              "may be lost); a new one is begun"))
      << *told;
}

// With the first number, the records of an earlier file would have been replaced.
TEST(LineFile, AFolderThatCannotBeListedIsNotOneWithoutFiles) {
  TempFolder folder;
  folder.write("requests-000001.jsonl", "old\n");
  LineFile file;
  ASSERT_TRUE(file.open({folder.path(), "requests", std::nullopt, 4}));
  std::string lines = "full\nmore\n";
  {
    const NoDescriptors none;
    const auto listed = numbered_files(folder.path(), "requests");
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error(),
              folder.path().string() + ": the folder cannot be listed: Too many open files.");
    EXPECT_FALSE(file.write(lines));
  }
  EXPECT_TRUE(file.write(lines));
  EXPECT_EQ(folder.read("requests-000001.jsonl"), "old\n");
  EXPECT_EQ(folder.read("requests-000002.jsonl"), "full\n");
  EXPECT_EQ(folder.read("requests.jsonl"), "more\n");
  EXPECT_TRUE(numbered_files(folder / "none", "requests").value().empty());
}

TEST(LineFile, NumbersOfFileNamesAreReadStrictly) {
  EXPECT_EQ(number_of("audit-000007.jsonl", "audit"), 7U);
  EXPECT_EQ(number_of("audit-1234567.jsonl", "audit"), 1'234'567U);
  for (const char* name : {"audit-7.jsonl", "audit-000000.jsonl", "audit-000007.jsonl.bak",
                           "xaudit-000007.jsonl", "audit.jsonl", "audit-00000x.jsonl", ""}) {
    EXPECT_FALSE(number_of(name, "audit")) << name;
  }
}

}  // namespace
}  // namespace turnstile::gateway
