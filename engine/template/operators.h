// operators.h: arithmetic, comparison, membership, look-up and slices, with Python's meaning.
//
// Integers have 64 bits; what would overflow fails instead.
#pragma once

#include <string>
#include <string_view>

#include "engine/template/ast.h"
#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

Value add(RenderContext& context, const Value& left, const Value& right);
Value apply_binary(RenderContext& context, Operator op, const Value& left, const Value& right);
Value negate(RenderContext& context, const Value& value);

// ==, !=, <, <=, >, >=, in, not in.
bool compare(RenderContext& context, Operator op, const Value& left, const Value& right);
// For two numbers, texts or lists; fails for anything else.
bool is_less(RenderContext& context, const Value& left, const Value& right);
bool contains(RenderContext& context, const Value& container, const Value& item);

// object.name: a method of the object's type before a key of a dict. `name` lives as long as the
// template.
Value attribute_of(RenderContext& context, const Value& object, const std::string& name);
// object[key]: a key or index before a method.
Value item_of(RenderContext& context, const Value& object, const Value& key);
// object[start:stop:step]; undefined or None stand for an absent part.
Value slice_of(RenderContext& context, const Value& object, const Value& start, const Value& stop,
               const Value& step);

}  // namespace turnstile::engine
