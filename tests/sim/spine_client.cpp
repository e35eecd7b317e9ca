#include "tests/sim/spine_client.h"

#include <algorithm>
#include <exception>

#include <boost/json.hpp>

namespace turnstile::tests {
namespace {

namespace json = boost::json;

// The fake engine's text of so many tokens.
std::string expected_text(std::size_t tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

struct ChoiceSeen {
  std::string text;
  bool has_role = false;
  bool has_ended = false;
};

std::string text_of(const json::object& choice, bool is_chat) {
  if (!is_chat) return std::string(choice.at("text").as_string());
  const json::object& delta = choice.at("delta").as_object();
  const json::value* content = delta.if_contains("content");
  return content == nullptr ? std::string() : std::string(content->as_string());
}

}  // namespace

void SpineClient::send(std::size_t bytes) {
  const std::size_t count = std::min(bytes, ask_.bytes.size() - sent_);
  end_.send(std::string_view(ask_.bytes).substr(sent_, count));
  sent_ += count;
}

void SpineClient::leave(bool by_reset) {
  take();
  has_left_ = true;
  if (by_reset) {
    end_.reset();
  } else {
    end_.close();
  }
}

bool SpineClient::has_answer() const {
  std::string bytes = got_;
  const auto answer = take_answer(bytes, end_.server_has_ended());
  return answer && answer->is_complete;
}

std::optional<std::string> SpineClient::complaint(bool is_over) const {
  try {
    std::string bytes = got_;
    const auto answer = take_answer(bytes, end_.server_has_ended());
    const bool must_be_complete = is_over && !has_left_ && !has_more_to_send();
    if (!answer) {
      // A connection may be closed without an answer only by the end of the server or a slow
      // sender.
      if (must_be_complete && !end_.server_has_closed()) return "a request without an answer";
      return std::nullopt;
    }
    if (answer->is_complete && !bytes.empty()) return "bytes after the end of the answer";
    if (must_be_complete && !answer->is_complete && !end_.server_has_closed()) {
      return "an answer that stops in the middle";
    }
    switch (ask_.kind) {
      case AskKind::NoKey:
        if (answer->status != 401 && answer->status != 408) return "a stranger was let in";
        return std::nullopt;
      case AskKind::BadJson:
        if (answer->status == 200) return "a broken body was accepted";
        return std::nullopt;
      case AskKind::WrongTarget:
        if (answer->status != 404 && answer->status != 408) return "a target that exists by mistake";
        return std::nullopt;
      case AskKind::Models:
        if (answer->status != 200 && answer->status != 408) return "models were not listed";
        return std::nullopt;
      case AskKind::Tokenize:
        if (answer->status == 200 && answer->is_complete &&
            answer->body.find("\"tokens\":[") == std::string::npos) {
          return "a text was not tokenized";
        }
        return std::nullopt;
      case AskKind::Valid: break;
    }
    if (answer->status == 200 && ask_.stream) return check_stream(*answer, is_over);
    if (answer->is_complete) return check_body(*answer);
    return std::nullopt;
  } catch (const std::exception& error) {
    return std::string("an answer that cannot be read: ") + error.what();
  }
}

std::optional<std::string> SpineClient::check_stream(const HttpAnswer& answer,
                                                     bool is_over) const {
  std::vector<ChoiceSeen> choices(ask_.choices);
  bool has_error = false;
  bool has_usage = false;
  bool is_done = false;
  for (const std::string& event : stream_events(answer.body, !answer.is_complete)) {
    if (is_done) return "an event after [DONE]";
    if (event == "[DONE]") {
      is_done = true;
      continue;
    }
    if (has_error) return "text after an error event";
    if (has_usage) return "an event after the usage chunk";
    const json::object chunk = json::parse(event).as_object();
    if (chunk.contains("error")) {
      has_error = true;
      continue;
    }
    const json::array& list = chunk.at("choices").as_array();
    if (list.empty()) {
      has_usage = true;
      continue;
    }
    const json::object& choice = list.front().as_object();
    ChoiceSeen& seen = choices.at(json::value_to<std::size_t>(choice.at("index")));
    if (seen.has_ended) return "text after the end of a choice";
    if (ask_.is_chat && !seen.has_role) {
      if (!choice.at("delta").as_object().contains("role")) return "no role chunk first";
      seen.has_role = true;
    }
    seen.text += text_of(choice, ask_.is_chat);
    if (!choice.at("finish_reason").is_null()) seen.has_ended = true;
  }
  for (const ChoiceSeen& seen : choices) {
    if (seen.text != expected_text(seen.text.size())) return "a text with a hole or a repetition";
    if (is_done && !has_error && !seen.has_ended) return "a choice without its end";
  }
  if (answer.is_complete && !is_done) return "a stream that ends without [DONE]";
  if (answer.is_complete && !has_error && has_usage != ask_.wants_usage) {
    return "a usage chunk that was not asked for, or none that was";
  }
  if (is_over && answer.is_complete && !is_done) return "a stream without an end";
  return std::nullopt;
}

std::optional<std::string> SpineClient::check_body(const HttpAnswer& answer) const {
  if (answer.body.empty()) return "an empty body";
  const json::object body = json::parse(answer.body).as_object();
  if (answer.status != 200) {
    const json::object& error = body.at("error").as_object();
    if (!error.contains("code") || !error.contains("message")) return "an error without its shape";
    return std::nullopt;
  }
  const json::array& choices = body.at("choices").as_array();
  if (choices.size() != ask_.choices) return "a body with another number of choices";
  for (const json::value& value : choices) {
    const json::object& choice = value.as_object();
    const std::string text(ask_.is_chat
                               ? choice.at("message").as_object().at("content").as_string()
                               : choice.at("text").as_string());
    if (text != expected_text(text.size())) return "a body with a hole or a repetition";
  }
  return std::nullopt;
}

}  // namespace turnstile::tests
