// answer_event.h: what one JSON object of an answer says to a load client.
//
// One reader for the three dialects that are driven: OpenAI's completions and chat completions
// (whole answers and stream chunks) and llama-server's own /completion. Fields that a dialect does
// not have stay absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace turnstile::load {

struct AnswerEvent {
  bool has_text = false;  // at least one byte of generated text; a role alone is none
  std::string text;
  std::optional<std::string> finish_reason;
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::string> error_code;
  // Turnstile's explained answer; absent elsewhere.
  std::optional<double> queue_ms;
  std::optional<double> server_ttft_ms;
  std::optional<std::uint64_t> pauses;
  std::optional<std::string> end_code;  // why policy ended the answer
};

// Owns the JSON parser's buffers, so that an event costs no allocation for them.
// Thread: one at a time.
class AnswerReader {
 public:
  AnswerReader();
  ~AnswerReader();

  // Nothing when `json` is not a JSON object.
  std::optional<AnswerEvent> read(std::string_view json);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace turnstile::load
