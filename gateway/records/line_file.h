// line_file.h: one growing file of lines that rotates between two lines.
//
//   numbered      FOLDER/NAME-000001.jsonl, the next one when it is full
//   not numbered  FOLDER/NAME.jsonl, renamed to NAME-000001.jsonl when it is full
//
// The files lie in the folder that open() found, wherever others move it. follow() sees what they
// did: a file that was removed or moved away is followed by the next one, with the next number if
// it is numbered, so that the one that is put back stands where it stood.
//
// write() takes lines off the front of a buffer as the kernel accepts them; after a failure the
// buffer begins with what is still to be written, possibly in the middle of a line, and the next
// write() goes on there. open() ends a line that a crash tore, so that the next one stands alone.
//
// Thread: the line writer's. Errors: a sentence with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace turnstile::gateway {

struct LineFileSettings {
  std::filesystem::path folder;
  std::string name;
  std::optional<std::uint64_t> number;  // set: numbered, starting with this one
  std::uint64_t rotate_bytes = 0;
};

// "audit-000001.jsonl"
std::string numbered_name(const std::string& name, std::uint64_t number);

// The number of "NAME-000001.jsonl" in that form, absent for other names.
std::optional<std::uint64_t> number_of(const std::string& file_name, const std::string& name);

struct NumberedFile {
  std::uint64_t number = 0;
  std::filesystem::path path;
};

// NAME-000001.jsonl, ... in the folder, sorted by number; none when there is no folder. A folder
// that cannot be listed is an error, never one without files.
tl::expected<std::vector<NumberedFile>, std::string> numbered_files(
    const std::filesystem::path& folder, const std::string& name);

// Makes the folder for the owner alone (0700); an existing one is left as it is.
tl::expected<void, std::string> make_private_folder(const std::filesystem::path& folder);

class LineFile {
 public:
  LineFile() = default;
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  tl::expected<void, std::string> open(const LineFileSettings& settings);
  tl::expected<void, std::string> write(std::string& lines);
  tl::expected<void, std::string> sync();

  // What is to be told of a file that somebody took away; empty: nothing. Fails when the folder is
  // not where it was; write() still works there.
  tl::expected<std::string, std::string> follow();

 private:
  std::string file_name() const;
  std::filesystem::path path() const { return settings_.folder / file_name(); }
  tl::expected<void, std::string> open_current();
  tl::expected<void, std::string> find_end();
  void leave();
  tl::expected<void, std::string> rotate();
  tl::expected<void, std::string> failure(const char* what) const;

  LineFileSettings settings_;
  int folder_ = -1;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  bool is_in_line_ = false;  // the last byte written was not a line feed
};

}  // namespace turnstile::gateway
