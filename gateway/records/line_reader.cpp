#include "gateway/records/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gateway/records/audit_line.h"

namespace turnstile::gateway {

tl::expected<LineReader, std::string> LineReader::open(const std::filesystem::path& path) {
  // Opening a pipe that nobody writes to would wait.
  LineReader reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (reader.descriptor_ < 0) {
    return tl::unexpected(path.string() + ": the file cannot be read: " + std::strerror(errno) +
                          ".");
  }
  struct stat status {};
  if (::fstat(reader.descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return reader;
  return tl::unexpected(path.string() + ": is not a regular file; remove it or move it away.");
}

LineReader::~LineReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineReader::skip_to_last(std::uint64_t bytes) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > bytes) ::lseek(descriptor_, static_cast<off_t>(size - bytes), SEEK_SET);
}

bool LineReader::read_more() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t used = buffer_.size();
  buffer_.resize(used + kMaxAuditLineBytes);
  ssize_t got = -1;
  do {
    got = ::read(descriptor_, buffer_.data() + used, kMaxAuditLineBytes);
  } while (got < 0 && errno == EINTR);
  has_failed_ = got < 0;
  buffer_.resize(used + (got > 0 ? static_cast<std::size_t>(got) : 0));
  return got > 0;
}

LineReader::Next LineReader::next(std::string_view& line) {
  line = {};
  std::size_t searched = begin_;
  bool is_too_long = false;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = end + 1;
      if (!is_too_long && line.size() <= kMaxAuditLineBytes) return Next::Line;
      line = {};
      return Next::TooLong;
    }
    if (buffer_.size() - begin_ > kMaxAuditLineBytes) {
      is_too_long = true;
      begin_ = buffer_.size();
    }
    searched = buffer_.size() - begin_;
    if (read_more()) continue;
    if (has_failed_) return Next::Failed;
    if (is_too_long) return Next::TooLong;
    if (buffer_.empty()) return Next::End;
    line = buffer_;
    begin_ = buffer_.size();
    return Next::Torn;
  }
}

}  // namespace turnstile::gateway
