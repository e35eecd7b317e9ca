// whole_file.h: reads and replaces small files as a whole.
//
// A replacement is written to a new file beside the old one, synced, and renamed over it, so that a
// reader sees the old or the new text and a crash leaves one of them. The new file of one who was
// killed, .NAME.new-XXXXXX, goes with the next replacement. A link stays a link: the file that it
// leads to is replaced.
//
// Thread: any. Errors: a sentence that names the path.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace turnstile::gateway {

// Regular files up to 16 MiB.
tl::expected<std::string, std::string> read_whole_file(const std::filesystem::path& path);

// The file that a path leads to, through all links; the path itself where it leads nowhere.
std::filesystem::path real_path(const std::filesystem::path& path);

// A replacement that is written and only waits to be renamed. One that goes away before commit()
// has changed nothing.
class Replacement {
 public:
  // Keeps owner, group, mode and access list of an existing file, so that a server that may read
  // the old one may read the new one, and fails where it cannot; a new file gets `mode`.
  static tl::expected<Replacement, std::string> prepare(const std::filesystem::path& path,
                                                        std::string_view text, unsigned mode);
  tl::expected<void, std::string> commit();

  ~Replacement();
  Replacement(Replacement&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}
  Replacement& operator=(Replacement&&) = delete;

 private:
  Replacement() = default;

  std::filesystem::path path_;
  std::string temporary_;  // empty: renamed
};

// Both steps at once.
tl::expected<void, std::string> replace_file(const std::filesystem::path& path,
                                             std::string_view text, unsigned mode);

// Fails when the file exists. One that cannot be written whole is taken away again.
tl::expected<void, std::string> create_file(const std::filesystem::path& path,
                                            std::string_view text, unsigned mode);

// Makes the names in a folder survive a crash, as far as its file system can.
void sync_folder(const std::filesystem::path& folder);

// Whether group or others may read or write it.
bool is_open_to_others(const std::filesystem::path& path);

// Holds an exclusive lock on a folder for as long as it lives, so that two programs do not write
// the same files at once; the kernel takes it back when the process ends in any way. Where a folder
// cannot be locked at all (some network file systems) it is not: the rename is still atomic.
class FolderLock {
 public:
  // Waits for the one who holds it. An error when the folder cannot be opened, as below.
  static tl::expected<FolderLock, std::string> take(const std::filesystem::path& folder);

  // Absent when somebody else holds it.
  static tl::expected<std::optional<FolderLock>, std::string> try_take(
      const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  FolderLock() = default;

  int descriptor_ = -1;
};

}  // namespace turnstile::gateway
