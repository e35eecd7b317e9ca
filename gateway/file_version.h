// file_version.h: what tells one version of a file from the next, for who reads files again.
//
// A change of owner or rights is another version too: it may make a file readable that was not.
//
// Thread: any. Cost: one stat(). Links are followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace turnstile::gateway {

struct FileVersion {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // the text
  std::int64_t changed_ns = 0;   // the text, the owner or the rights
  bool operator==(const FileVersion&) const = default;
};

// Absent: there is no such file.
std::optional<FileVersion> version_of(const std::filesystem::path& path);

}  // namespace turnstile::gateway
