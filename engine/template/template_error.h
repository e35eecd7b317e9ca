// template_error.h: why a chat template cannot be compiled or rendered.
#pragma once

#include <string>

namespace turnstile::engine {

struct TemplateError {
  int line = 0;         // of the template, from 1
  std::string message;  // a sentence; of raise_exception() the template's own words
  // Whether the template itself refused the messages with raise_exception(): then the client is
  // told its words; everything else is a fault between the template and the request's shape.
  bool raised_by_template = false;
};

}  // namespace turnstile::engine
