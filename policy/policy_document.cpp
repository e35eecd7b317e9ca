#include "policy/policy_document.h"

#include <algorithm>

#include "policy/long_key.h"
#include "policy/syntax_message.h"
#include "policy/toml_library.h"

namespace turnstile::policy {
namespace {

Position position(const toml::source_region& region) {
  return {static_cast<std::int64_t>(region.begin.line),
          static_cast<std::int64_t>(region.begin.column)};
}

DocumentValue convert(const toml::node& node) {
  DocumentValue value;
  value.at = position(node.source());
  switch (node.type()) {
    case toml::node_type::table:
      value.kind = DocumentValue::Kind::Table;
      for (const auto& [key, child] : *node.as_table()) {
        value.members.push_back(
            {std::string(key.str()), position(key.source()), convert(child)});
      }
      std::ranges::stable_sort(value.members, {}, &DocumentValue::Member::at);
      return value;
    case toml::node_type::array:
      value.kind = DocumentValue::Kind::Array;
      for (const toml::node& child : *node.as_array()) value.elements.push_back(convert(child));
      return value;
    case toml::node_type::string:
      value.kind = DocumentValue::Kind::Text;
      value.text = node.as_string()->get();
      return value;
    case toml::node_type::integer:
      value.kind = DocumentValue::Kind::Integer;
      value.integer = node.as_integer()->get();
      return value;
    case toml::node_type::floating_point:
      value.kind = DocumentValue::Kind::Real;
      value.real = node.as_floating_point()->get();
      return value;
    case toml::node_type::boolean:
      value.kind = DocumentValue::Kind::Boolean;
      value.boolean = node.as_boolean()->get();
      return value;
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      value.kind = DocumentValue::Kind::DateTime;
      return value;
  }
  return value;
}

}  // namespace

const DocumentValue::Member* DocumentValue::find(std::string_view name) const {
  const auto it = std::ranges::find(members, name, &Member::name);
  return it == members.end() ? nullptr : &*it;
}

tl::expected<DocumentValue, SyntaxError> parse_document(std::string_view text) {
  if (const auto line = find_long_key(text)) {
    return tl::unexpected(
        SyntaxError{{*line, 1}, "a key has more than 16 parts; none that exists has"});
  }
  try {
    return convert(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const Position at = position(error.source());
    return tl::unexpected(SyntaxError{at, syntax_message(text, error.description(), at)});
  } catch (const UnreadText&) {
    return tl::unexpected(error_of_unread_text(text));
  }
}

}  // namespace turnstile::policy
