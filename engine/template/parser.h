// parser.h: statements of a template.
//
// Knows if, for, set, macro, filter blocks, break, continue and generation (which is transparent).
// Everything that reaches outside the template (include, import, extends, block) is refused.
//
// Errors: throws TemplateFailure.
#pragma once

#include <string_view>
#include <vector>

#include "engine/template/ast.h"

namespace turnstile::engine {

// Names used by the template are added to `names`.
Block parse_template(std::string_view normalized_source, NameTable& names);

}  // namespace turnstile::engine
