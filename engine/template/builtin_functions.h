// builtin_functions.h: namespace(), range(), dict(), raise_exception(), strftime_now().
#pragma once

#include <optional>
#include <string_view>

#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

struct NamedFunction {
  std::string_view name;
  BuiltinFunction function;
};
inline constexpr NamedFunction kBuiltinFunctions[] = {
    {"namespace", BuiltinFunction::Namespace},
    {"range", BuiltinFunction::Range},
    {"dict", BuiltinFunction::Dict},
    {"raise_exception", BuiltinFunction::RaiseException},
    {"strftime_now", BuiltinFunction::StrftimeNow},
};

Value call_builtin(RenderContext& context, BuiltinFunction function, const Arguments& arguments);

// Sets an attribute of a namespace. Fails for a frozen one; a namespace as value is frozen.
void set_attribute(RenderContext& context, NamespaceValue& names, std::string_view name,
                   Value value);

}  // namespace turnstile::engine
