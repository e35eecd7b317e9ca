// template_failure.h: how a template stops half-way. Never leaves this folder: Template::compile()
// and Template::render() turn it into a TemplateError.
#pragma once

#include <string>

#include "engine/template/template_error.h"

namespace turnstile::engine {

struct TemplateFailure {
  TemplateError error;
};

[[noreturn]] inline void fail_at(int line, std::string message) {
  throw TemplateFailure{{line, std::move(message), false}};
}

}  // namespace turnstile::engine
