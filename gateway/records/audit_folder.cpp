#include "gateway/records/audit_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "gateway/records/audit.h"
#include "gateway/records/audit_line.h"
#include "gateway/records/audit_tail.h"
#include "gateway/timestamp.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

tl::unexpected<std::string> failure(const fs::path& path, std::string_view what) {
  return tl::unexpected(path.string() + ": " + std::string(what));
}

struct FileToRead {
  explicit FileToRead(const fs::path& path)
      : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~FileToRead() {
    if (descriptor >= 0) ::close(descriptor);
  }
  FileToRead(const FileToRead&) = delete;
  FileToRead& operator=(const FileToRead&) = delete;

  const int descriptor;
};

struct Tail {
  std::string bytes;
  std::uint64_t file_bytes = 0;
};

// More than a second of records, which a power cut may leave as zeros, some of them or all.
constexpr std::uint64_t kMaxTailRead = LineWriter::kHighMarkBytes;

// The log is synced each second, and a busy disk takes its time.
constexpr std::chrono::seconds kMaxUnsynced{5};

// The last bytes of the file, enough for the last whole line and what stands after it. A file that
// cannot be read is an error: taken for an empty one, the chain would begin a second time.
tl::expected<Tail, std::string> read_tail(const fs::path& path) {
  const auto cannot_be_read = [&path] {
    return failure(path, std::string("the file cannot be read: ") + std::strerror(errno) + ".");
  };
  const FileToRead file(path);
  struct stat status {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0) return cannot_be_read();
  if (!S_ISREG(status.st_mode)) return failure(path, "is not a regular file; move it away.");
  Tail tail{{}, static_cast<std::uint64_t>(status.st_size)};
  const std::size_t wanted = std::min(tail.file_bytes, kMaxTailRead);
  tail.bytes.resize(wanted);
  std::size_t done = 0;
  while (done < wanted) {
    const ssize_t got = ::pread(file.descriptor, tail.bytes.data() + done, wanted - done,
                                static_cast<off_t>(tail.file_bytes - wanted + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_be_read();
    if (got == 0) return failure(path, "the file became shorter while it was read.");
    done += static_cast<std::size_t>(got);
  }
  return tail;
}

std::optional<WallTime> time_of(std::string_view line) {
  constexpr std::string_view kBegin = ",\"ts\":\"";
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin + kBegin.size());
  return parse_timestamp(line.substr(0, line.find('"')));
}

// Whether there are good records in it much later than the first time that can be read there. A
// power cut takes only what was not synced, so what was lost before those it did not take. Time
// counts from there and not from the last record before it, for nobody may have come for hours.
bool holds_synced_records(std::string_view torn) {
  std::optional<WallTime> first;
  Sha256 sha256;
  while (!torn.empty()) {
    const std::string_view line = torn.substr(0, torn.find('\n'));
    torn.remove_prefix(std::min(line.size() + 1, torn.size()));
    const auto time = time_of(line);
    if (!time) continue;
    if (!first) first = time;
    if (*time - *first <= kMaxUnsynced) continue;
    const auto parts = take_apart(line);
    if (parts && hex_text(sha256.digest(parts->hashed)) == parts->hash) return true;
  }
  return false;
}

// Moves what follows the last whole line to a file of its own, which is synced before the log is
// cut.
tl::expected<std::string, std::string> set_aside(const fs::path& path, std::uint64_t size,
                                                 std::string_view torn) {
  fs::path aside;
  for (int i = 1; aside.empty() || fs::exists(aside); ++i) {
    aside = path;
    aside.replace_extension(".torn-" + std::to_string(i));
  }
  const auto made = create_file(aside, torn, 0600);
  std::error_code error;
  if (made) fs::resize_file(path, size - torn.size(), error);
  if (!made || error) {
    // Each start on a full disk would leave another one.
    if (made) fs::remove(aside, error);
    return failure(path, "its incomplete last line cannot be moved aside; free space or check the "
                         "rights on the folder.");
  }
  return aside.filename().string();
}

}  // namespace

tl::expected<FolderLock, std::string> lock_audit_folder(const fs::path& state_dir) {
  const fs::path folder = state_dir / "audit";
  for (const fs::path& needed : {state_dir, folder}) {
    if (auto made = make_private_folder(needed); !made) return tl::unexpected(made.error());
  }
  auto lock = FolderLock::try_take(folder);
  if (!lock) return tl::unexpected(std::move(lock).error());
  if (*lock) return **std::move(lock);
  return failure(folder, "another server writes its audit log here; stop it, or give this one a "
                         "state_dir of its own.");
}

tl::expected<std::vector<NumberedFile>, std::string> list_audit_files(
    const fs::path& audit_folder) {
  return numbered_files(audit_folder, "audit");
}

fs::path audit_folder_of(const fs::path& given) {
  const auto files = list_audit_files(given);
  std::error_code error;
  const bool is_inside = files && files->empty() && fs::is_directory(given / "audit", error);
  return is_inside ? given / "audit" : given;
}

tl::expected<AuditStart, std::string> open_audit_folder(const fs::path& state_dir) {
  AuditStart start;
  auto listed = list_audit_files(state_dir / "audit");
  if (!listed) return tl::unexpected(std::move(listed).error());
  std::vector<NumberedFile> files = *std::move(listed);
  if (files.empty()) return start;
  start.file_number = files.back().number;

  // A crash between making a file and its first line leaves an empty one: the chain goes on from
  // the file before it.
  for (; !files.empty(); files.pop_back()) {
    const fs::path& path = files.back().path;
    auto read = read_tail(path);
    if (!read) return tl::unexpected(std::move(read).error());
    const auto& [tail, size] = *read;
    // No record holds a zero: the line of one, and all after it, is what a power cut left.
    const std::size_t zero = tail.find('\0');
    const std::size_t end = tail.rfind('\n', zero);
    const std::string_view torn =
        std::string_view(tail).substr(end == std::string::npos ? 0 : end + 1);
    if (!torn.empty()) {
      const bool is_all_there = end != std::string::npos || tail.size() == size;
      const bool is_cut = zero != std::string::npos ? is_all_there && !holds_synced_records(torn)
                                                    : torn.size() <= kMaxAuditLineBytes;
      if (!is_cut || files.back().number != start.file_number) {
        return failure(path, "does not end with a whole record; 'turnstile audit verify' tells "
                             "more. Move the audit folder away to start a new log.");
      }
      auto name = set_aside(path, size, torn);
      if (!name) return tl::unexpected(std::move(name).error());
      start.torn_tail = *std::move(name);
    }
    if (end == std::string::npos) continue;

    const std::string_view whole = std::string_view(tail).substr(0, end);
    const std::size_t begin = whole.rfind('\n');
    const std::string_view line = whole.substr(begin == std::string_view::npos ? 0 : begin + 1);
    const auto parts = take_apart(line);
    if (!parts || hex_text(Sha256().digest(parts->hashed)) != parts->hash) {
      return failure(path, "the last record is damaged; 'turnstile audit verify' tells more. Move "
                           "the audit folder away to start a new log.");
    }
    start.head = {parts->seq, std::string(parts->hash)};
    auto unended = unended_requests(files, state_dir / "requests.jsonl");
    if (!unended) return tl::unexpected(std::move(unended).error());
    start.unended = *std::move(unended);
    auto unlisted = unlisted_ends(files, state_dir);
    if (!unlisted) return tl::unexpected(std::move(unlisted).error());
    start.unlisted = *std::move(unlisted);
    return start;
  }
  return start;
}

}  // namespace turnstile::gateway
