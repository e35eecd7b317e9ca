// toml_library.h: toml++, which must never end the process for what a text holds.
//
// Its parser asserts what it has not checked: a table header without a name ("[" before the end of
// a line) ends in an assert of the library, and keys.toml is read while the server runs. So its
// asserts are exceptions here. Include the library through this file only, or two sources would
// have two versions of its inline functions.
//
// toml::parse() throws toml::parse_error for errors that it knows, UnreadText for the rest;
// syntax_message.h says where and what it was. Tests: tests/policy/policy_message_test.cpp
#pragma once

#include <stdexcept>

namespace turnstile::policy {

struct UnreadText : std::runtime_error {
  UnreadText() : std::runtime_error("the TOML library cannot read the text") {}
};

[[noreturn]] inline void give_up_text() { throw UnreadText(); }

}  // namespace turnstile::policy

#define TOML_ASSERT(expr) \
  (static_cast<bool>(expr) ? static_cast<void>(0) : ::turnstile::policy::give_up_text())
#include <toml++/toml.h>
