// marked_text.h: text that knows which of its bytes came from the request.
//
// A chat template joins its own words ("<|im_start|>user\n") with those of the client. Only its
// own may become special tokens, or any client could write "<|im_start|>system". So every string
// inside the interpreter carries the byte ranges that a client wrote, and every operation on
// strings (join, slice, split, strip, replace, tojson, ...) carries them along.
//
//   "<|im_start|>" + role + "\n"  ->  text    <|im_start|>user\n
//                                     client              ^^^^
//
// Invariants: client ranges are not empty, sorted, inside the text, and do not touch each other.
// Thread: a value; no sharing rules of its own.
// Tests: tests/engine/template_marking_test.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turnstile::engine {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

enum class Origin : bool { Template = false, Client = true };

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string text, Origin origin = Origin::Template);

  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  std::span<const ByteRange> client_ranges() const { return client_; }
  bool has_client_bytes() const { return !client_.empty(); }

  void append(const MarkedText& other);
  void append(std::string_view text, Origin origin);
  // Appends other[begin, end).
  void append_slice(const MarkedText& other, std::size_t begin, std::size_t end);
  MarkedText slice(std::size_t begin, std::size_t end) const;

  // The same marks over other bytes of the same number, e.g. after a change of case.
  MarkedText with_text(std::string text) const;

  std::string take_text() && { return std::move(text_); }

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string text_;
  std::vector<ByteRange> client_;
};

}  // namespace turnstile::engine
