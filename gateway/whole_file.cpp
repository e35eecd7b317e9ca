#include "gateway/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr off_t kMaxBytes = 16 << 20;

tl::unexpected<std::string> file_failure(const fs::path& path, std::string_view what) {
  return tl::unexpected(path.string() + ": " + std::string(what) + ": " + std::strerror(errno) +
                        ".");
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Closes the descriptor in any case.
bool write_and_sync(int descriptor, std::string_view text) {
  bool ok = true;
  while (ok && !text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    ok = written > 0;
    if (ok) text.remove_prefix(static_cast<std::size_t>(written));
  }
  ok = ok && ::fsync(descriptor) == 0;
  const int saved = errno;
  ::close(descriptor);
  errno = saved;
  return ok;
}

// What no writer takes, who writes and renames at once.
constexpr std::time_t kStaleSeconds = 60;

// Removes what killed writers left, which is older than the new file `made`. Links are left alone,
// and so is a new file of somebody who holds no lock.
void sweep_stale(const fs::path& folder, std::string_view prefix, const struct stat& made) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    struct stat status {};
    const bool is_stale = name.starts_with(prefix) &&
                          ::lstat(entry.path().c_str(), &status) == 0 &&
                          S_ISREG(status.st_mode) &&
                          status.st_mtime + kStaleSeconds < made.st_mtime;
    if (is_stale) ::unlink(entry.path().c_str());
  }
}

int open_folder(const fs::path& folder) {
  return ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

tl::expected<std::string, std::string> read_whole_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return file_failure(path, "the file cannot be opened");
  struct stat status {};
  std::string text;
  const bool is_readable = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                           status.st_size <= kMaxBytes;
  if (!is_readable) {
    ::close(descriptor);
    return tl::unexpected(path.string() + ": is not a regular file of at most 16 MiB.");
  }
  std::size_t used = 0;
  ssize_t got = 1;
  while (got > 0 && used <= static_cast<std::size_t>(kMaxBytes)) {
    text.resize(used + 64 * 1024);
    got = ::read(descriptor, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) got = 1;
    else if (got > 0) used += static_cast<std::size_t>(got);
  }
  const int saved = errno;
  ::close(descriptor);
  errno = saved;
  if (got < 0) return file_failure(path, "the file cannot be read");
  text.resize(used);
  return text;
}

tl::expected<void, std::string> replace_file(const fs::path& path, std::string_view text,
                                             unsigned mode) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) mode = status.st_mode & 07777U;
  const fs::path folder = folder_of(path);
  const std::string prefix = "." + path.filename().string() + ".new-";
  std::string temporary = (folder / (prefix + "XXXXXX")).string();
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return file_failure(path, "no file can be made beside it");
  ::fchmod(descriptor, mode);
  if (::fstat(descriptor, &status) == 0) sweep_stale(folder, prefix, status);
  if (!write_and_sync(descriptor, text) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    errno = saved;
    return file_failure(path, "the file cannot be replaced");
  }
  sync_folder(folder);
  return {};
}

tl::expected<void, std::string> create_file(const fs::path& path, std::string_view text,
                                            unsigned mode) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) return file_failure(path, "the file cannot be made");
  ::fchmod(descriptor, mode);
  if (!write_and_sync(descriptor, text)) return file_failure(path, "the file cannot be written");
  sync_folder(folder_of(path));
  return {};
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open_folder(folder);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

bool is_open_to_others(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & 077U) != 0;
}

FolderLock::FolderLock(const fs::path& folder) : descriptor_(open_folder(folder)) {
  if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX);
}

std::optional<FolderLock> FolderLock::try_take(const fs::path& folder) {
  FolderLock lock;
  lock.descriptor_ = open_folder(folder);
  const bool is_taken = lock.descriptor_ >= 0 &&
                        ::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_taken) return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace turnstile::gateway
