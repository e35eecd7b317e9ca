// filters.h: the filters of templates, `value | name(arguments)`.
//
// `e`/`escape` and other filters that write HTML are absent: a prompt is not HTML. `safe` returns
// its input, where Jinja's marks it as HTML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

struct FilterFunction {
  std::string_view name;
  Value (*apply)(RenderContext& context, const Value& input, const Arguments& arguments);
};

// nullptr if there is none.
const FilterFunction* find_filter(std::string_view name);

// In sequence_filters.cpp: filters that take a list or dict apart.
std::vector<FilterFunction> sequence_filters();

// Of an argument that may be left out (nullptr).
inline bool is_given_true(const Value* value) { return value != nullptr && value->is_true(); }
inline bool is_present(const Value* value) { return value != nullptr && !value->is_none(); }

// What `attribute=` arguments mean: "a.b" or 0. Keys before methods, undefined where absent.
Value item_at_path(RenderContext& context, const Value& object, const Value& path);

}  // namespace turnstile::engine
