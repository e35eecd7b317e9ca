#include "gateway/records/audit_folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "gateway/records/audit.h"
#include "gateway/records/audit_line.h"
#include "gateway/records/audit_tail.h"
#include "gateway/records/line_file.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

tl::unexpected<std::string> failure(const fs::path& path, std::string_view what) {
  return tl::unexpected(path.string() + ": " + std::string(what));
}

// The last bytes of the file, enough for the last whole line and a torn one after it.
std::string read_tail(const fs::path& path, std::uint64_t size) {
  const std::uint64_t wanted = std::min<std::uint64_t>(size, 2 * kMaxAuditLineBytes);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(size - wanted));
  std::string tail(wanted, '\0');
  file.read(tail.data(), static_cast<std::streamsize>(wanted));
  tail.resize(static_cast<std::size_t>(file.gcount()));
  return tail;
}

// Moves what follows the last line feed to a file of its own.
tl::expected<std::string, std::string> set_aside(const fs::path& path, std::uint64_t size,
                                                 std::string_view torn) {
  fs::path aside;
  for (int i = 1; aside.empty() || fs::exists(aside); ++i) {
    aside = path;
    aside.replace_extension(".torn-" + std::to_string(i));
  }
  std::ofstream file(aside, std::ios::binary);
  file << torn;
  file.close();
  std::error_code error;
  if (file) fs::permissions(aside, fs::perms::owner_read | fs::perms::owner_write, error);
  if (file) fs::resize_file(path, size - torn.size(), error);
  if (!file || error) {
    // Each start on a full disk would leave another one.
    fs::remove(aside, error);
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
  if (lock) return *std::move(lock);
  return failure(folder, "another server writes its audit log here; stop it, or give this one a "
                         "state_dir of its own.");
}

std::vector<AuditFileName> list_audit_files(const fs::path& audit_folder) {
  std::vector<AuditFileName> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(audit_folder, error)) {
    const auto number = number_of(entry.path().filename().string(), "audit");
    if (number) files.push_back({*number, entry.path()});
  }
  std::ranges::sort(files, {}, &AuditFileName::number);
  return files;
}

fs::path audit_folder_of(const fs::path& given) {
  if (list_audit_files(given).empty() && fs::is_directory(given / "audit")) return given / "audit";
  return given;
}

tl::expected<AuditStart, std::string> open_audit_folder(const fs::path& state_dir) {
  AuditStart start;
  std::vector<AuditFileName> files = list_audit_files(state_dir / "audit");
  if (files.empty()) return start;
  start.file_number = files.back().number;

  // A crash between making a file and its first line leaves an empty one: the chain goes on from
  // the file before it.
  for (; !files.empty(); files.pop_back()) {
    const fs::path& path = files.back().path;
    std::error_code error;
    const std::uint64_t size = fs::file_size(path, error);
    if (error) return failure(path, "the file cannot be read: " + error.message() + ".");
    const std::string tail = read_tail(path, size);
    const std::size_t end = tail.rfind('\n');
    const std::string_view torn =
        std::string_view(tail).substr(end == std::string::npos ? 0 : end + 1);
    if (!torn.empty()) {
      if (torn.size() > kMaxAuditLineBytes || files.back().number != start.file_number) {
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
