// value_tests.h: the tests of templates, `value is name(arguments)`.
#pragma once

#include <string_view>

#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

struct TestFunction {
  std::string_view name;
  bool (*holds)(RenderContext& context, const Value& input, const Arguments& arguments);
};

// nullptr if there is none.
const TestFunction* find_test(std::string_view name);

}  // namespace turnstile::engine
