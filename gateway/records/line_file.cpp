#include "gateway/records/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

#include "gateway/whole_file.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The end of the last line that starts before the file is full; at least one line.
std::size_t bytes_until_full(std::string_view lines, std::uint64_t used, std::uint64_t limit) {
  const std::uint64_t room = limit > used ? limit - used : 0;
  if (lines.size() <= room) return lines.size();
  const std::size_t end = lines.find('\n', room);
  return end == std::string_view::npos ? lines.size() : end + 1;
}

}  // namespace

std::string numbered_name(const std::string& name, std::uint64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return name + "-" + digits + ".jsonl";
}

std::optional<std::uint64_t> number_of(const std::string& file_name, const std::string& name) {
  std::uint64_t number = 0;
  const std::size_t begin = name.size() + 1;
  if (file_name.size() <= begin) return std::nullopt;
  std::from_chars(file_name.data() + begin, file_name.data() + file_name.size(), number);
  if (number == 0 || file_name != numbered_name(name, number)) return std::nullopt;
  return number;
}

tl::expected<std::vector<NumberedFile>, std::string> numbered_files(const fs::path& folder,
                                                                    const std::string& name) {
  std::vector<NumberedFile> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const auto number = number_of(at->path().filename().string(), name);
    if (number) files.push_back({*number, at->path()});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return tl::unexpected(folder.string() + ": the folder cannot be listed: " + error.message() +
                          ".");
  }
  std::ranges::sort(files, {}, &NumberedFile::number);
  return files;
}

LineFile::~LineFile() {
  leave();
  if (folder_ >= 0) ::close(folder_);
}

void LineFile::leave() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::string LineFile::file_name() const {
  return settings_.number ? numbered_name(settings_.name, *settings_.number)
                          : settings_.name + ".jsonl";
}

tl::expected<void, std::string> LineFile::failure(const char* what) const {
  return tl::unexpected(path().string() + ": " + what + ": " + std::strerror(errno) + ".");
}

tl::expected<void, std::string> make_private_folder(const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  if (!error && is_new) fs::permissions(folder, fs::perms::owner_all, error);
  if (!error) return {};
  return tl::unexpected(folder.string() + ": the folder cannot be made: " + error.message() + ".");
}

tl::expected<void, std::string> LineFile::open(const LineFileSettings& settings) {
  settings_ = settings;
  if (auto made = make_private_folder(settings_.folder); !made) return made;
  folder_ = ::open(settings_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) return failure("its folder cannot be opened");
  return open_current();
}

tl::expected<void, std::string> LineFile::open_current() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;
  descriptor_ = ::openat(folder_, file_name().c_str(), kFlags, 0600);
  if (descriptor_ < 0) return failure("the file cannot be opened for writing");
  auto found = find_end();
  if (!found) leave();
  return found;
}

tl::expected<void, std::string> LineFile::find_end() {
  struct stat status {};
  char last = '\n';
  bool is_known = ::fstat(descriptor_, &status) == 0;
  if (is_known) bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (is_known && bytes_ > 0) {
    is_known = ::pread(descriptor_, &last, 1, static_cast<off_t>(bytes_ - 1)) == 1;
  }
  if (!is_known) return failure("the end of the file cannot be read");
  ::fsync(folder_);
  // The next line begins a line of its own; the torn one stays as what a reader can see and skip.
  if (!is_in_line_ && last != '\n') {
    if (::write(descriptor_, "\n", 1) != 1) return failure("its torn last line cannot be ended");
    ++bytes_;
  }
  return {};
}

tl::expected<void, std::string> LineFile::rotate() {
  if (const auto synced = sync(); !synced) return synced;
  if (settings_.number) {
    ++*settings_.number;
  } else {
    // A number that is taken would replace the records of that file. By its path the folder may be
    // none at the moment, or another one.
    const std::string ours = "/proc/self/fd/" + std::to_string(folder_);
    const auto files = numbered_files(ours, settings_.name);
    if (!files) {
      return tl::unexpected(settings_.folder.string() + files.error().substr(ours.size()));
    }
    const std::uint64_t number = files->empty() ? 1 : files->back().number + 1;
    const std::string renamed = numbered_name(settings_.name, number);
    // Where there is no /proc, nothing was listed.
    if (::faccessat(folder_, renamed.c_str(), F_OK, 0) == 0) {
      errno = EEXIST;
      return failure("the file cannot be renamed");
    }
    if (::renameat(folder_, file_name().c_str(), folder_, renamed.c_str()) != 0) {
      return failure("the file cannot be renamed");
    }
  }
  leave();
  return open_current();
}

tl::expected<void, std::string> LineFile::write(std::string& lines) {
  std::size_t done = 0;
  tl::expected<void, std::string> result;
  while (done < lines.size() && result) {
    if (descriptor_ < 0) {
      result = open_current();
      continue;
    }
    if (bytes_ >= settings_.rotate_bytes && !is_in_line_) {
      result = rotate();
      continue;
    }
    const std::string_view rest = std::string_view(lines).substr(done);
    const std::size_t chunk = bytes_until_full(rest, bytes_, settings_.rotate_bytes);
    const ssize_t written = ::write(descriptor_, rest.data(), chunk);
    if (written < 0) {
      if (errno != EINTR) result = failure("a record cannot be written");
      continue;
    }
    done += static_cast<std::size_t>(written);
    bytes_ += static_cast<std::uint64_t>(written);
    if (written > 0) is_in_line_ = lines[done - 1] != '\n';
  }
  lines.erase(0, done);
  return result;
}

tl::expected<void, std::string> LineFile::sync() {
  if (descriptor_ >= 0 && ::fdatasync(descriptor_) != 0) return failure("records cannot be synced");
  return {};
}

tl::expected<std::string, std::string> LineFile::follow() {
  struct stat ours {};
  struct stat there {};
  if (::fstat(folder_, &ours) != 0 || ::stat(settings_.folder.c_str(), &there) != 0) {
    return tl::unexpected(settings_.folder.string() + ": the folder cannot be found: " +
                          std::strerror(errno) + "; put it back, or start the server again.");
  }
  // In another one somebody may write whom the lock on ours does not keep out.
  if (!is_same(ours, there)) {
    return tl::unexpected(settings_.folder.string() +
                          ": is another folder than the one in which this server writes its "
                          "records; put that one back, or start the server again.");
  }
  if (descriptor_ < 0) return std::string();
  const std::string name = file_name();
  if (::fstat(descriptor_, &ours) != 0) return tl::unexpected(failure("is lost").error());
  const bool is_there = ::fstatat(folder_, name.c_str(), &there, 0) == 0;
  if (!is_there && errno != ENOENT) {
    return tl::unexpected(failure("the file cannot be looked at").error());
  }
  if (is_there && is_same(ours, there)) return std::string();

  const bool is_kept = ::fdatasync(descriptor_) == 0;  // it may only have been moved
  leave();
  std::string told = path().string() + ": the file was removed or moved away";
  told += is_kept ? "; " : " (its last second may be lost); ";
  if (settings_.number) ++*settings_.number;
  told += settings_.number ? "records go on in " + file_name() + "; put the file back: without it "
                                 "'turnstile audit verify' finds records missing"
                           : std::string("a new one is begun");
  return told;
}

}  // namespace turnstile::gateway
