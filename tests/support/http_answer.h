// http_answer.h: reads the answers of our own server out of the bytes a client received.
//
// Strict where the server must be exact (status line, CRLF, chunk framing) and small: what it does
// not understand is a failure of the test.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnstile::tests {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names as sent
  std::string body;                            // chunks joined
  std::size_t chunks = 0;
  bool is_complete = false;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// Takes one answer off the front of `bytes`; absent when not even its head is complete. Throws
// std::runtime_error when the bytes are no answer. `until_close`: the connection has ended.
std::optional<HttpAnswer> take_answer(std::string& bytes, bool until_close = false);

// The events of a server-sent stream: the texts after "data: ". Comments are left out. Throws when
// a frame is not well-formed or the text ends inside one, unless `may_be_cut`.
std::vector<std::string> stream_events(std::string_view body, bool may_be_cut = false);

}  // namespace turnstile::tests
