// exchange.h: one request and its answer: from bytes and their times to a record.
//
// Sees no socket and no clock, so every figure can be checked with made-up times.
//
// Times are nanoseconds since the start of the run. `scheduled` is the intended time (in a closed
// loop the time the stream became free); latencies are counted from it, and from `sent` beside it.
// The first token is the first non-empty piece of text: a role chunk or an empty delta does not
// stop the clock. All events of one read have the time of that read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/answer_event.h"
#include "bench/load/http_reader.h"
#include "bench/load/sse_reader.h"

namespace turnstile::load {

using Time = std::chrono::nanoseconds;

inline double to_ms(Time time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

enum class Outcome {
  Unsent,       // the run ended first
  Completed,    // 200, and an end of generation
  Rejected,     // 429 or 503: the server says no, which is an answer
  HttpError,    // any other status but 200
  StreamError,  // an error event inside the stream
  Truncated,    // the connection or the stream ended early, or was not HTTP
  Timeout,
  Left,         // the client gave up, as it was told to
};
inline constexpr int kOutcomeCount = 8;
std::string_view name_of(Outcome outcome);

struct Record {
  std::uint64_t sequence = 0;
  Time scheduled{};
  Time noticed{};  // when the client's loop saw that it is due: lateness is the client's own
  Time sent{};
  std::optional<Time> headers;
  std::optional<Time> first_token;
  std::optional<Time> last_token;
  Time ended{};
  Outcome outcome = Outcome::Unsent;
  int status = 0;
  std::string code;  // of an error or refusal
  std::uint64_t text_events = 0;
  std::vector<float> gaps_ms;  // between events with text
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::string finish_reason;
  std::optional<double> retry_after_s;
  std::optional<double> queue_ms;  // what the server says of itself, see AnswerEvent
  std::optional<double> server_ttft_ms;
  std::optional<std::uint64_t> pauses;
  std::string end_code;
  std::uint64_t text_hash = 0xcbf29ce484222325u;  // FNV-1a over the text: equal texts, equal hashes

  // (last - first token) / (tokens - 1); nothing below two tokens.
  std::optional<double> tpot_ms() const;
};

class Exchange {
 public:
  explicit Exchange(AnswerReader& reader) : reader_(&reader) {}

  // Forgets the previous exchange. The record's times until `sent` are the caller's.
  void start(Record record);

  void on_bytes(Time now, std::string_view bytes);
  void on_close(Time now);
  void on_timeout(Time now);
  void on_leave(Time now);

  bool finished() const { return finished_; }
  // After finished(): whether the connection can carry the next request.
  bool keeps_connection() const;
  // Nothing of an answer arrived: a kept connection that the server had closed; safe to send again.
  bool is_untouched() const { return !any_bytes_; }
  Record& record() { return record_; }

 private:
  void on_event(Time now, std::string_view data);
  void on_answer(Time now, const AnswerEvent& event);
  void conclude(Time now);
  void finish(Time now, Outcome outcome);

  AnswerReader* reader_;
  HttpReader http_;
  SseReader sse_;
  std::string body_;
  Record record_;
  bool any_bytes_ = false;
  bool saw_end_ = false;
  bool saw_error_ = false;
  bool finished_ = true;
};

}  // namespace turnstile::load
