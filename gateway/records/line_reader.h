// line_reader.h: a file of lines, one at a time, whatever lies under its name.
//
// Only regular files are read: a pipe or a device under the name of a record file would keep the
// reader for ever. A line longer than any record of ours is skipped and said, never kept.
//
// Thread: any; one object is for one thread. Memory: two of the longest lines.
// Errors: a sentence with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace turnstile::gateway {

class LineReader {
 public:
  static tl::expected<LineReader, std::string> open(const std::filesystem::path& path);
  ~LineReader();
  LineReader(LineReader&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), buffer_(std::move(other.buffer_)) {}
  LineReader& operator=(LineReader&&) = delete;

  enum class Next : std::uint8_t {
    Line,     // a whole line
    Torn,     // the rest of the file, which no line feed ends
    TooLong,  // more than kMaxAuditLineBytes without a line feed; `line` is empty
    End,
    Failed    // the file cannot be read on
  };
  // Goes on at this byte; the rest of the line there counts as a line. Before the first next().
  void skip_to(std::uint64_t byte);

  // `line` without its line feed; valid until the next call.
  Next next(std::string_view& line);

 private:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  bool read_more();  // false: the end, or has_failed_

  int descriptor_ = -1;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what next() has not given yet
  bool has_failed_ = false;
};

}  // namespace turnstile::gateway
