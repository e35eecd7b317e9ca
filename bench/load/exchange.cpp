#include "bench/load/exchange.h"

#include <utility>

namespace turnstile::load {

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::Unsent: return "unsent";
    case Outcome::Completed: return "completed";
    case Outcome::Rejected: return "rejected";
    case Outcome::HttpError: return "http_error";
    case Outcome::StreamError: return "stream_error";
    case Outcome::Truncated: return "truncated";
    case Outcome::Timeout: return "timeout";
    case Outcome::Left: return "left";
  }
  return "unknown";
}

std::optional<double> Record::tpot_ms() const {
  const std::uint64_t tokens = completion_tokens.value_or(text_events);
  if (tokens < 2 || !first_token || !last_token) return std::nullopt;
  return std::chrono::duration<double, std::milli>(*last_token - *first_token).count() /
         static_cast<double>(tokens - 1);
}

void Exchange::start(Record record) {
  http_.reset();
  sse_.reset();
  body_.clear();
  record_ = std::move(record);
  any_bytes_ = saw_end_ = saw_error_ = finished_ = false;
}

void Exchange::on_bytes(Time now, std::string_view bytes) {
  if (finished_) return;
  any_bytes_ = any_bytes_ || !bytes.empty();
  http_.feed(bytes, body_);
  if (http_.head_complete() && !record_.headers) {
    record_.headers = now;
    record_.status = http_.status();
    record_.retry_after_s = http_.retry_after_s();
  }
  if (http_.is_event_stream()) {
    sse_.feed(body_, [&](std::string_view data) { on_event(now, data); });
    body_.clear();
  }
  if (http_.failed()) {
    finish(now, Outcome::Truncated);
  } else if (http_.done()) {
    conclude(now);
  }
}

void Exchange::on_close(Time now) {
  if (finished_) return;
  http_.on_close();
  if (http_.done()) {
    conclude(now);
  } else {
    finish(now, Outcome::Truncated);
  }
}

void Exchange::on_timeout(Time now) {
  if (!finished_) finish(now, Outcome::Timeout);
}

void Exchange::on_leave(Time now) {
  if (!finished_) finish(now, Outcome::Left);
}

bool Exchange::keeps_connection() const {
  return finished_ && http_.done() && http_.keeps_connection();
}

void Exchange::on_event(Time now, std::string_view data) {
  if (data == "[DONE]") {
    saw_end_ = true;
  } else if (const auto event = reader_->read(data)) {
    on_answer(now, *event);
  } else {
    saw_error_ = true;
    record_.code = "not_json";
  }
}

void Exchange::on_answer(Time now, const AnswerEvent& event) {
  if (event.error_code) {
    saw_error_ = true;
    record_.code = *event.error_code;
  }
  if (event.finish_reason) {
    saw_end_ = true;
    record_.finish_reason = *event.finish_reason;
  }
  if (event.queue_ms) record_.queue_ms = event.queue_ms;
  if (event.server_ttft_ms) record_.server_ttft_ms = event.server_ttft_ms;
  if (event.pauses) record_.pauses = event.pauses;
  if (event.end_code) record_.end_code = *event.end_code;
  if (event.prompt_tokens) record_.prompt_tokens = event.prompt_tokens;
  if (event.cached_tokens) record_.cached_tokens = event.cached_tokens;
  if (event.completion_tokens) record_.completion_tokens = event.completion_tokens;
  if (!event.has_text) return;
  for (const unsigned char c : event.text) {
    record_.text_hash = (record_.text_hash ^ c) * 0x100000001b3u;
  }
  if (record_.last_token) {
    record_.gaps_ms.push_back(static_cast<float>(to_ms(now - *record_.last_token)));
  }
  if (!record_.first_token) record_.first_token = now;
  record_.last_token = now;
  ++record_.text_events;
}

// The whole answer is here.
void Exchange::conclude(Time now) {
  if (!http_.is_event_stream()) {
    if (const auto event = reader_->read(body_)) on_answer(now, *event);
  }
  if (http_.status() == 429 || http_.status() == 503) {
    finish(now, Outcome::Rejected);
  } else if (http_.status() != 200) {
    finish(now, Outcome::HttpError);
  } else if (saw_error_) {
    finish(now, Outcome::StreamError);
  } else {
    finish(now, saw_end_ ? Outcome::Completed : Outcome::Truncated);
  }
}

void Exchange::finish(Time now, Outcome outcome) {
  record_.ended = now;
  record_.outcome = outcome;
  finished_ = true;
}

}  // namespace turnstile::load
