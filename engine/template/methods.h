// methods.h: the methods of texts, lists and dicts that templates may call.
#pragma once

#include <string_view>

#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

// Whether `object.name` is a method. For a dict the answer is Python's full list, because a method
// hides a key of the same name.
bool has_method(const Value& object, std::string_view name);

// Fails for methods that are not supported, and for append and pop on a frozen container.
Value call_method(RenderContext& context, const Value& object, std::string_view name,
                  const Arguments& arguments);

}  // namespace turnstile::engine
