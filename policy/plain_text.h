// plain_text.h: a message that quotes a file, as a terminal may have it.
//
// Names and values of a file stand in messages as they were written. One of them may hold what a
// terminal obeys, or a line feed behind which the rest looks like another message.
//
// Pure. Tests: tests/policy/policy_message_test.cpp
#pragma once

#include <string>
#include <string_view>

namespace turnstile::policy {

// Control characters (C0, DEL and, encoded in UTF-8, C1) as "\x1b"; everything else as it is.
std::string plain_text(std::string_view text);

}  // namespace turnstile::policy
