#include "gateway/api/neutral_fields.h"

#include <string>

namespace turnstile::gateway::neutral_field {
namespace {

Done accept_if(bool neutral, std::string_view name) {
  if (neutral) return {};
  return tl::unexpected(make_error(ApiCode::UnsupportedParameter,
                                   std::string(name) + " is not supported by this version.",
                                   std::string(name)));
}

bool is_bool(Element value, bool expected) {
  bool set = !expected;
  return !value.get(set) && set == expected;
}

bool is_number(Element value, double expected) {
  double number = expected + 1;
  return value.is_number() && !value.get(number) && number == expected;
}

// Value: an Element, or the result of looking one up.
template <typename Value>
bool is_text(Value value, std::string_view expected) {
  std::string_view text;
  return !value.get(text) && text == expected;
}

}  // namespace

Done accepted(RequestDraft&, std::string_view, Element) { return {}; }

Done never(RequestDraft&, std::string_view name, Element) { return accept_if(false, name); }

Done only_empty(RequestDraft&, std::string_view name, Element value) {
  simdjson::dom::array array;
  simdjson::dom::object object;
  const bool empty = (!value.get(array) && array.size() == 0) ||
                     (!value.get(object) && object.size() == 0);
  return accept_if(empty, name);
}

Done only_false(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_bool(value, false), name);
}

Done only_true(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_bool(value, true), name);
}

Done only_zero(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_number(value, 0), name);
}

Done only_one(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_number(value, 1), name);
}

Done only_none(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_text(value, "none"), name);
}

Done only_text_format(RequestDraft&, std::string_view name, Element value) {
  return accept_if(is_text(value["type"], "text"), name);
}

Done only_text_modality(RequestDraft&, std::string_view name, Element value) {
  simdjson::dom::array array;
  if (value.get(array)) return accept_if(false, name);
  for (const Element item : array) {
    if (!is_text(item, "text")) return accept_if(false, name);
  }
  return {};
}

}  // namespace turnstile::gateway::neutral_field
