// tickets.h: the text of x-admission-ticket.
//
//   16 hexadecimal digits: the number of the refused request | 16: a keyed hash of it
//
// What a ticket is worth is remembered by policy (policy/ticket_book.h), which also binds it to its
// key. The hash only keeps others from naming a number that they were not given; its key is drawn
// when the first ticket is written and lives as long as the process, as the tickets do.
//
// Thread: I/O. Cost: one HMAC-SHA-256, below 1 us.
// Tests:  tests/gateway/tickets_test.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/ids.h"
#include "gateway/keys/key_secret.h"
#include "policy/request_id.h"

namespace turnstile::gateway {

class TicketTexts {
 public:
  std::string text(policy::RequestId ticket, RandomSource& random);

  // Zero, which is nobody's: not a text that was written here.
  policy::RequestId read(std::string_view text);

 private:
  std::optional<KeyHasher> hasher_;  // absent: none was written yet
};

}  // namespace turnstile::gateway
