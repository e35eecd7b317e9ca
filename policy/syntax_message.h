// syntax_message.h: what is said of a text that is no TOML.
//
// The library names the place and what it expected there, but of two definitions only the second;
// its sentence says neither where the first one is nor, in simple words, that a quote is missing.
//
// Pure; one pass over the text. Tests: tests/policy/policy_message_test.cpp
#pragma once

#include <string>
#include <string_view>

#include "policy/policy_document.h"

namespace turnstile::policy {

// `description`: the library's sentence about the place `at` of `text`. Without a final full stop.
std::string syntax_message(std::string_view text, std::string_view description, Position at);

// Of a text at which the library gave up without a place (toml_library.h): the first header without
// a name, which may be a line of an array above the one that was meant.
SyntaxError error_of_unread_text(std::string_view text);

}  // namespace turnstile::policy
