#include "engine/tokenizer/detokenizer.h"

#include <cassert>

namespace turnstile::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

void Detokenizer::append(std::string_view token_bytes, std::string& out) {
  for (const char c : token_bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (needed_ != 0) {
      if (byte >= lowest_ && byte <= highest_) {
        lowest_ = 0x80;
        highest_ = 0xBF;
        if (--needed_ == 0) {
          out.append(pending_.data(), pending_count_);
          out.push_back(c);
          pending_count_ = 0;
        } else {
          assert(pending_count_ < pending_.size() && "the last byte of a character is not kept");
          pending_[pending_count_++] = c;
        }
        continue;
      }
      // What is pending can no longer become a character; `c` may begin the next one.
      flush(out);
    }
    // First bytes and the range of the byte that follows: Unicode table 3-7.
    if (byte < 0x80) {
      out.push_back(c);
      continue;
    }
    if (byte < 0xC2 || byte > 0xF4) {
      out.append(kReplacement);
      continue;
    }
    needed_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    lowest_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    highest_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    pending_[0] = c;
    pending_count_ = 1;
  }
}

void Detokenizer::flush(std::string& out) {
  if (needed_ == 0) return;
  out.append(kReplacement);
  pending_count_ = 0;
  needed_ = 0;
  lowest_ = 0x80;
  highest_ = 0xBF;
}

}  // namespace turnstile::engine
