// template.h: a compiled template and its one operation. ChatTemplate is the front for messages;
// this is the interpreter behind it, with any variables.
//
// Thread: immutable after compile(); render() may run on several threads at once.
// Errors: TemplateError. Limits: render_limits.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "engine/template/ast.h"
#include "engine/template/civil_time.h"
#include "engine/template/marked_text.h"
#include "engine/template/template_error.h"
#include "engine/template/value.h"

namespace turnstile::engine {

using Variable = std::pair<std::string_view, Value>;

class Template {
 public:
  static tl::expected<std::shared_ptr<const Template>, TemplateError> compile(
      std::string_view source);

  // Later variables of the same name win. Containers among them are frozen.
  tl::expected<MarkedText, TemplateError> render(std::span<const Variable> variables,
                                                 std::optional<CivilTime> now) const;

 private:
  Template() = default;

  NameTable names_;
  Block block_;
};

}  // namespace turnstile::engine
