// awaited.h: what those who were told to come back will want of one meter or bucket.
//
// `told` is all of it: the next one is told to come after them. `kept` is the part that newcomers
// leave alone. Neither is committed: a refusal leaves every meter as it was (ticket_book.h).
#pragma once

#include <cstdint>

namespace turnstile::policy {

struct Awaited {
  std::int64_t told = 0;
  std::int64_t kept = 0;
};

}  // namespace turnstile::policy
