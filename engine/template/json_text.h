// json_text.h: the filter tojson, which writes what Python's json.dumps() writes.
//
// Strings keep their client marks; escapes are the template's own bytes.
#pragma once

#include <optional>
#include <string>

#include "engine/template/marked_text.h"
#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // absent: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Fails for undefined, namespaces and functions, and for keys that JSON cannot have.
MarkedText to_json(RenderContext& context, const Value& value, const JsonStyle& style);

}  // namespace turnstile::engine
