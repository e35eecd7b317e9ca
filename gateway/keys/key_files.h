// key_files.h: keys.toml, the pepper and the admin key, from the disk.
//
// Thread: any; reading ten thousand keys takes 0.1 s of a core.
// Errors: a sentence that does not begin with the file's name, with the system's reason.
// Tests:  tests/gateway/keys_test.cpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "gateway/file_version.h"
#include "gateway/keys/keys_file.h"

namespace turnstile::gateway {

struct KeyFileReading {
  std::optional<FileVersion> version;  // of the file, taken before its text; absent: none is there
  std::string failure;                 // not empty: its text could not be had
  KeysReading keys;
};
KeyFileReading read_key_file(const std::filesystem::path& file);

// A file that holds one secret, such as the pepper: its text, without a line feed. `what` is what
// people call it.
tl::expected<std::string, std::string> read_secret_file(const std::filesystem::path& file,
                                                        std::string_view what);

}  // namespace turnstile::gateway
