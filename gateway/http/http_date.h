// http_date.h: the Date field of an answer (RFC 9110 section 6.6.1), formatted once a second.
//
// Thread: one. Cost: a comparison while the second lasts.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "gateway/clock.h"

namespace turnstile::gateway {

class HttpDate {
 public:
  // "Sun, 06 Nov 1994 08:49:37 GMT"; the text lives until the next call.
  std::string_view at(WallTime now);

 private:
  std::array<char, 29> text_{};
  std::chrono::sys_seconds second_ = std::chrono::sys_seconds::min();  // that text_ shows
};

}  // namespace turnstile::gateway
