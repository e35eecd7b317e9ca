#include "gateway/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>

namespace turnstile::gateway {
namespace {

// What standard error is in this test, and its other end, which is read when the test wants.
class Reader {
 public:
  Reader(int written, int read) : written_(written), read_(read), before_(::dup(STDERR_FILENO)) {
    ::fcntl(read_, F_SETFL, O_NONBLOCK);
    ::dup2(written_, STDERR_FILENO);
  }
  ~Reader() {
    ::dup2(before_, STDERR_FILENO);
    for (const int descriptor : {written_, read_, before_}) ::close(descriptor);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::string read_all() const {
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(read_, bytes, sizeof bytes)) > 0;) text.append(bytes, got);
    std::erase(text, '\r');  // of a terminal
    return text;
  }

 private:
  int written_;
  int read_;
  int before_;
};

// Each line that is there is whole, and so many are said to be missing as were not taken. Before,
// the thread that wrote the line waited for the reader.
void expect_dropped_and_counted(const Reader& reader) {
  constexpr int kLines = 3'000;
  const std::string rest(300, 'x');
  for (int i = 0; i < kLines; ++i) log_info("line " + std::to_string(i) + " " + rest);
  std::string text = reader.read_all();
  log_info("afterwards");
  text += reader.read_all();

  constexpr std::string_view kMissing = "missing here: ";
  int whole = 0;
  int missing = 0;
  std::string last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); last = line) {
    const std::size_t said = line.find(kMissing);
    if (said != std::string::npos) missing += std::stoi(line.substr(said + kMissing.size()));
    whole += line.ends_with(" " + rest) ? 1 : 0;
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(missing, 0);
  EXPECT_EQ(whole + missing, kLines);
  EXPECT_TRUE(last.ends_with("info: afterwards")) << last;
}

TEST(Log, APipeThatNobodyReadsKeepsNobody) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  expect_dropped_and_counted(Reader(ends[1], ends[0]));
}

TEST(Log, ASocketThatNobodyReadsKeepsNobody) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  expect_dropped_and_counted(Reader(ends[1], ends[0]));
}

TEST(Log, ATerminalThatNobodyReadsKeepsNobody) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    GTEST_SKIP() << "this system has no pseudo-terminals";
  }
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  expect_dropped_and_counted(Reader(terminal, master));
}

// The line that nobody could get is missed by whoever reads next.
void expect_ignored_and_counted(int written, int read) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as the program does
  const Reader gone(written, ::open("/dev/null", O_RDONLY));
  ::close(read);
  log_info("to nobody");
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Reader next(ends[1], ends[0]);
  log_info("and on");
  const std::string text = next.read_all();
  const std::size_t missing = text.find("warning: lines that nobody read are missing here: 1\n");
  EXPECT_NE(missing, std::string::npos) << text;
  EXPECT_GT(text.find("info: and on\n"), missing) << text;
  EXPECT_TRUE(text.ends_with("info: and on\n")) << text;
  std::signal(SIGPIPE, before);
}

TEST(Log, ASocketWhoseReaderIsGoneIsIgnored) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  expect_ignored_and_counted(ends[1], ends[0]);
}

TEST(Log, APipeWhoseReaderIsGoneIsIgnored) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  expect_ignored_and_counted(ends[1], ends[0]);
}

}  // namespace
}  // namespace turnstile::gateway
