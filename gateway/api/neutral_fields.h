// neutral_fields.h: fields whose feature a later version brings.
//
// Clients send many of them with the value that means "not used"; that value is accepted and
// anything else is unsupported_parameter, because ignoring it would change the answer in silence.
//
// Each has the signature of a field handler (request_fields.cpp).
#pragma once

#include <string_view>

#include <tl/expected.hpp>

#include "gateway/api/request_fields.h"

namespace turnstile::gateway::neutral_field {

using Done = tl::expected<void, ApiError>;
using json_field::Element;

// Any value: it has no influence on the answer (`user`, `metadata`, `store`).
Done accepted(RequestDraft&, std::string_view name, Element value);
Done never(RequestDraft&, std::string_view name, Element value);
Done only_empty(RequestDraft&, std::string_view name, Element value);  // [] or {}
Done only_false(RequestDraft&, std::string_view name, Element value);
Done only_true(RequestDraft&, std::string_view name, Element value);
Done only_zero(RequestDraft&, std::string_view name, Element value);
Done only_one(RequestDraft&, std::string_view name, Element value);
Done only_none(RequestDraft&, std::string_view name, Element value);         // "none"
Done only_text_format(RequestDraft&, std::string_view name, Element value);  // {"type":"text"}
Done only_text_modality(RequestDraft&, std::string_view name, Element value);  // ["text"]

}  // namespace turnstile::gateway::neutral_field
