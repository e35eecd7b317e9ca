// line_writer.h: the one thread that writes records to disk, and the seam to do without it.
//
//   I/O thread --write(stream, line)--> bounded queue --> writer thread --> state_dir/...
//
// A line is handed to the kernel at once and in order; the audit files are fdatasync'ed once a
// second and at close. Each file rotates between two lines when it passes its size:
//
//   audit/audit-000001.jsonl, audit/audit-000002.jsonl, ...      numbered from the start
//   requests.jsonl, events.jsonl      renamed to requests-000001.jsonl, ... when full
//
// Nothing is dropped, and write() never waits. When the disk refuses, or somebody moves the folder
// away (line_file.h says what comes of a single file), or the disk is so slow that the queue
// passes its high mark, is_writable() turns false: the spine then begins no request (503
// audit_unavailable) and strangers are only counted, so that what still comes is bounded by what
// had begun, three lines for each open request. The writer tries again each second.
//
// Invariant: a byte is never written twice; after a partial write the writer goes on where it
// stopped, so that files hold whole lines unless the machine stops in between.
//
// Thread:  write(), is_writable() from the I/O thread; close() and the destructor join and flush.
// Limits:  kHighMarkLines, kHighMarkBytes.
// Tests:   tests/gateway/line_writer_test.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace turnstile::gateway {

enum class LineStream : std::uint8_t { Audit, Requests, Events };
inline constexpr std::size_t kLineStreams = 3;

// Two implementations: LineWriter here, MemoryLines in tests/support/memory_lines.h.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // `line` ends with a line feed. Lines of a stream keep their order.
  virtual void write(LineStream stream, std::string_view line) = 0;
  virtual bool is_writable() const { return true; }
};

struct LineWriterSettings {
  std::filesystem::path state_dir;
  std::uint64_t audit_file_number = 1;  // the file to go on with (open_audit_folder())
  std::uint64_t rotate_bytes = std::uint64_t{64} << 20;
};

class LineWriter final : public LineSink {
 public:
  // Seconds of records at full speed: a healthy disk never lets the queue come near.
  static constexpr std::size_t kHighMarkLines = 16'384;
  static constexpr std::size_t kHighMarkBytes = std::size_t{16} << 20;

  // Lines that the writer has in hand at a time: only they can be in one file and not in another.
  static constexpr std::size_t kBatchLines = 256;

  // Makes the folders (0700) and opens the files (0600). The error is a sentence with the path.
  static tl::expected<std::unique_ptr<LineWriter>, std::string> open(
      const LineWriterSettings& settings);
  ~LineWriter() override;
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void write(LineStream stream, std::string_view line) override;
  bool is_writable() const override;

  // Waits until everything written so far is in its file and the audit log is synced. False when
  // the disk refuses. For tests.
  bool flush();

  // Tries a last time and ends the thread; nothing is written after it. Returns how many lines the
  // disk did not take: they are lost, all others are synced.
  std::size_t close();

 private:
  struct State;
  explicit LineWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
