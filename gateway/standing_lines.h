// standing_lines.h: the header lines that every answer of a generating route has after the key
// check, whoever gives it: a refusal, an invalid request, a failure of the server, a good answer.
//
//   key check --begin()--> request resolved --set()--> dispatched --keep_rates()--> answer
//
// The session appends them to the head of each answer, so no way to answer can forget them. A
// request that did not get as far as a class says the one that its key would get.
//
// Thread: I/O. Owned by the session; forgotten with the request.
// Tests:  tests/gateway/standing_lines_test.cpp (a table over all codes).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/outcome.h"

namespace turnstile::gateway {

struct SpineContext;

class StandingLines {
 public:
  // From here on the request's answers have the lines.
  void begin(std::string_view key_id);
  // What the request got.
  void set(std::string_view service_class, std::string_view policy_revision);
  // The answer tells the rates of now, whenever it is given.
  void keep_rates(const SpineContext& context);
  void end();

  // Nothing before begin().
  void append_to(std::string& out, const SpineContext& context) const;

 private:
  bool has_begun_ = false;
  std::string key_id_;
  std::string service_class_;  // empty: not known yet
  std::string policy_revision_;
  std::optional<policy::RateView> rates_;
};

}  // namespace turnstile::gateway
