// spine_client.h: one client of the simulated spine: what it sends, and what it makes of the
// answer.
//
// It knows what a correct server may answer to its request and says so in one sentence when the
// server does not: a broken frame, a text with a hole, two ends, an error followed by more text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/http_answer.h"
#include "tests/support/memory_connection.h"

namespace turnstile::tests {

enum class AskKind : std::uint8_t { Valid, BadJson, NoKey, WrongTarget, Models, Tokenize };

struct SpineAsk {
  AskKind kind = AskKind::Valid;
  bool stream = false;
  bool is_chat = true;
  bool wants_usage = false;
  std::uint32_t choices = 1;  // over all prompts
  std::string bytes;          // the whole HTTP request
};

class SpineClient {
 public:
  SpineClient(MemoryClient end, SpineAsk ask) : end_(std::move(end)), ask_(std::move(ask)) {}

  bool has_more_to_send() const { return sent_ < ask_.bytes.size(); }
  void send(std::size_t bytes);
  void set_window(std::size_t bytes) { end_.set_window(bytes); }
  void take() { got_ += end_.take(); }
  void leave(bool by_reset);
  bool has_left() const { return has_left_; }
  bool has_answer() const;

  // The sentence that is broken by what has come so far. `is_over`: nothing more will come.
  std::optional<std::string> complaint(bool is_over) const;

 private:
  std::optional<std::string> check_stream(const HttpAnswer& answer, bool is_over) const;
  std::optional<std::string> check_body(const HttpAnswer& answer) const;

  MemoryClient end_;
  SpineAsk ask_;
  std::size_t sent_ = 0;
  std::string got_;
  bool has_left_ = false;
};

}  // namespace turnstile::tests
