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
#include <limits>
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
  // Leaves out all but the last bytes; the rest of the line there counts as a line. Before next().
  void skip_to_last(std::uint64_t bytes);

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

// Gives `see` each line, and what next() says of it, until the file ends or `see` returns false.
template <typename See>
tl::expected<void, std::string> each_line(
    const std::filesystem::path& path, const See& see,
    std::uint64_t last_bytes = std::numeric_limits<std::uint64_t>::max()) {
  auto reader = LineReader::open(path);
  if (!reader) return tl::unexpected(std::move(reader).error());
  reader->skip_to_last(last_bytes);
  std::string_view line;
  for (;;) {
    const LineReader::Next next = reader->next(line);
    if (next == LineReader::Next::Failed) {
      return tl::unexpected(path.string() + ": the file cannot be read.");
    }
    if (next == LineReader::Next::End || !see(next, line)) return {};
  }
}

}  // namespace turnstile::gateway
