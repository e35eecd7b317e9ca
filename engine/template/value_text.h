// value_text.h: values as text, as Python's str() and repr() write them.
//
// Client marks of strings inside lists and dicts are kept. Cost: O(size of the text), counted
// against the budget.
#pragma once

#include <string>

#include "engine/template/marked_text.h"
#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

// str(value): a string itself, "" for undefined, True, None, 1.5, ['a', 1], ...
void append_str(RenderContext& context, const Value& value, MarkedText& out);
MarkedText to_str(RenderContext& context, const Value& value);

// The shortest digits that read back as the same number: 1.0, 1e-05, 1e+16, inf, nan.
std::string real_to_text(double value);

}  // namespace turnstile::engine
