#include "gateway/whole_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr off_t kMaxBytes = 16 << 20;

std::string name_of(const fs::path& path) { return policy::plain_text(path.string()); }

tl::unexpected<std::string> file_failure(const fs::path& path, std::string_view what) {
  return tl::unexpected(name_of(path) + ": " + std::string(what) + ": " + std::strerror(errno) +
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
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path path = at->path();
    const std::string name = path.filename().string();
    struct stat status {};
    const bool is_stale = name.starts_with(prefix) && ::lstat(path.c_str(), &status) == 0 &&
                          S_ISREG(status.st_mode) &&
                          status.st_mtime + kStaleSeconds < made.st_mtime;
    if (is_stale) ::unlink(path.c_str());
  }
}

// The access list of an old file, as the kernel has it; a mode alone is none.
bool copy_access_list(const fs::path& old, int descriptor) {
  constexpr char kName[] = "system.posix_acl_access";
  const ssize_t size = ::getxattr(old.c_str(), kName, nullptr, 0);
  if (size <= 0) {
    // Then the folder may have given the new file one, which would let others in.
    const bool has_none = size == 0 || errno == ENODATA || errno == ENOTSUP;
    return has_none &&
           (::fremovexattr(descriptor, kName) == 0 || errno == ENODATA || errno == ENOTSUP);
  }
  std::string list(static_cast<std::size_t>(size), '\0');
  const ssize_t got = ::getxattr(old.c_str(), kName, list.data(), list.size());
  return got > 0 &&
         ::fsetxattr(descriptor, kName, list.data(), static_cast<std::size_t>(got), 0) == 0;
}

// Who could read the old file can read the new one, and nobody else.
bool take_over_rights(const fs::path& path, const struct stat& old, int descriptor) {
  struct stat made {};
  if (::fstat(descriptor, &made) != 0) return false;
  const uid_t user = old.st_uid == made.st_uid ? static_cast<uid_t>(-1) : old.st_uid;
  const gid_t group = old.st_gid == made.st_gid ? static_cast<gid_t>(-1) : old.st_gid;
  const bool is_theirs = old.st_uid == made.st_uid && old.st_gid == made.st_gid;
  return (is_theirs || ::fchown(descriptor, user, group) == 0) &&
         copy_access_list(path, descriptor) && ::fchmod(descriptor, old.st_mode & 07777U) == 0;
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
    return tl::unexpected(name_of(path) + ": is not a regular file of at most 16 MiB.");
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

fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

tl::expected<Replacement, std::string> Replacement::prepare(const fs::path& path,
                                                            std::string_view text, unsigned mode) {
  Replacement replacement;
  replacement.path_ = real_path(path);
  const fs::path& target = replacement.path_;
  const fs::path folder = folder_of(target);
  const std::string prefix = "." + target.filename().string() + ".new-";
  std::string temporary = (folder / (prefix + "XXXXXX")).string();
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return file_failure(target, "no file can be made beside it");
  replacement.temporary_ = temporary;
  struct stat status {};
  if (::fstat(descriptor, &status) == 0) sweep_stale(folder, prefix, status);
  const bool is_new = ::stat(target.c_str(), &status) != 0;
  if (is_new ? ::fchmod(descriptor, mode) != 0 : !take_over_rights(target, status, descriptor)) {
    const std::string owner = is_new ? ""
                                     : " of user " + std::to_string(status.st_uid) + " and group " +
                                           std::to_string(status.st_gid);
    auto failure = file_failure(target, "a new file cannot have the rights" + owner);
    ::close(descriptor);
    failure.value() += " Nothing was changed: run this as that user or as root.";
    return failure;
  }
  if (!write_and_sync(descriptor, text)) return file_failure(target, "the file cannot be replaced");
  return replacement;
}

tl::expected<void, std::string> Replacement::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return file_failure(path_, "the file cannot be replaced");
  }
  temporary_.clear();
  sync_folder(folder_of(path_));
  return {};
}

Replacement::~Replacement() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

tl::expected<void, std::string> replace_file(const fs::path& path, std::string_view text,
                                             unsigned mode) {
  auto replacement = Replacement::prepare(path, text, mode);
  if (!replacement) return tl::unexpected(replacement.error());
  return replacement->commit();
}

tl::expected<void, std::string> create_file(const fs::path& path, std::string_view text,
                                            unsigned mode) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) return file_failure(path, "the file cannot be made");
  ::fchmod(descriptor, mode);
  if (!write_and_sync(descriptor, text)) {
    auto failure = file_failure(path, "the file cannot be written");
    ::unlink(path.c_str());
    return failure;
  }
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

tl::expected<FolderLock, std::string> FolderLock::take(const fs::path& folder) {
  FolderLock lock;
  lock.descriptor_ = open_folder(folder);
  if (lock.descriptor_ < 0) return file_failure(folder, "the folder cannot be opened");
  while (::flock(lock.descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
  return lock;
}

tl::expected<std::optional<FolderLock>, std::string> FolderLock::try_take(const fs::path& folder) {
  FolderLock lock;
  lock.descriptor_ = open_folder(folder);
  if (lock.descriptor_ < 0) return file_failure(folder, "the folder cannot be opened");
  const bool is_taken = ::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_taken) return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace turnstile::gateway
