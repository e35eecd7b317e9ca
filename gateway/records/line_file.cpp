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

// Whether the file's last byte is something else than a line feed: a crash or a full disk left part
// of a line.
bool ends_in_a_line(int descriptor, std::uint64_t bytes) {
  char last = '\n';
  const bool is_read = bytes > 0 && ::pread(descriptor, &last, 1,
                                            static_cast<off_t>(bytes - 1)) == 1;
  return is_read && last != '\n';
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

std::uint64_t last_number(const fs::path& folder, const std::string& name) {
  std::uint64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto number = number_of(entry.path().filename().string(), name);
    if (number) last = std::max(last, *number);
  }
  return last;
}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

fs::path LineFile::path() const {
  return settings_.folder / (settings_.number ? numbered_name(settings_.name, *settings_.number)
                                              : settings_.name + ".jsonl");
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
  return open_current();
}

tl::expected<void, std::string> LineFile::open_current() {
  descriptor_ = ::open(path().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return failure("the file cannot be opened for writing");
  struct stat status {};
  bytes_ = ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  sync_folder(settings_.folder);
  // The next line begins a line of its own; the torn one stays as what a reader can see and skip.
  if (!is_in_line_ && ends_in_a_line(descriptor_, bytes_)) {
    if (::write(descriptor_, "\n", 1) != 1) return failure("its torn last line cannot be ended");
    ++bytes_;
  }
  return {};
}

tl::expected<void, std::string> LineFile::rotate() {
  if (const auto synced = sync(); !synced) return synced;
  const fs::path full = path();
  if (settings_.number) {
    ++*settings_.number;
  } else {
    const std::uint64_t number = last_number(settings_.folder, settings_.name) + 1;
    const fs::path renamed = settings_.folder / numbered_name(settings_.name, number);
    if (::rename(full.c_str(), renamed.c_str()) != 0) return failure("the file cannot be renamed");
  }
  ::close(descriptor_);
  descriptor_ = -1;
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

}  // namespace turnstile::gateway
