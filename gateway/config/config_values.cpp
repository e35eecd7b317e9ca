#include "gateway/config/config_values.h"

#include <simdjson.h>

#include "gateway/config/quantity.h"
#include "policy/plain_text.h"
#include "policy/quantity.h"
#include "policy/slips.h"

namespace turnstile::gateway {
namespace {

tl::unexpected<std::string> fail(std::string sentence) {
  return tl::unexpected(std::move(sentence));
}

std::string perhaps(const std::optional<std::string>& meant) {
  return meant ? "; perhaps \"" + *meant + "\" was meant" : "";
}

bool is_in(std::uint64_t value, Range range) { return value >= range.least && value <= range.most; }

}  // namespace

Assigned assign_address(std::string_view text, ListenAddress& field) {
  std::string checked;
  if (const Assigned is_text = assign_text(text, checked); !is_text) return is_text;
  auto address = parse_listen_address(checked);
  if (!address) return fail(std::move(address).error());
  field = *std::move(address);
  return {};
}

Assigned assign_duration(std::string_view text, Milliseconds& field, Range ms) {
  const auto duration = parse_duration(text);
  if (!duration) {
    return fail("must be a duration such as \"800ms\", \"5s\", \"10m\" or \"1h\"" +
                perhaps(policy::meant_duration(text)) + ".");
  }
  if (!is_in(static_cast<std::uint64_t>(duration->count()), ms)) {
    return fail("must be between " + duration_text(Milliseconds(ms.least)) + " and " +
                duration_text(Milliseconds(ms.most)) + ".");
  }
  field = *duration;
  return {};
}

Assigned assign_size(std::string_view text, std::size_t& field, Range bytes) {
  const auto size = parse_size(text);
  if (!size) {
    return fail("must be a size such as \"64KiB\", \"4MiB\" or a number of bytes" +
                perhaps(meant_size(text)) + ".");
  }
  return assign_size(static_cast<std::int64_t>(*size), field, bytes);
}

Assigned assign_size(std::int64_t number, std::size_t& field, Range bytes) {
  if (number < 0 || !is_in(static_cast<std::uint64_t>(number), bytes)) {
    return fail("must be between " + size_text(bytes.least) + " and " + size_text(bytes.most) +
                ".");
  }
  field = static_cast<std::size_t>(number);
  return {};
}

Assigned assign_count(std::string_view text, std::uint32_t& field, Range range) {
  const auto count = policy::parse_count(text);
  if (!count) {
    return fail("must be a whole number such as 64 or \"2k\"" +
                perhaps(policy::meant_count(text)) + ".");
  }
  return assign_count(*count, field, range);
}

Assigned assign_count(std::int64_t number, std::uint32_t& field, Range range) {
  if (number < 0 || !is_in(static_cast<std::uint64_t>(number), range)) {
    return fail("must be between " + std::to_string(range.least) + " and " +
                std::to_string(range.most) + ".");
  }
  field = static_cast<std::uint32_t>(number);
  return {};
}

Assigned assign_boolean(std::string_view text, bool& field) {
  if (text != "true" && text != "false") return fail("must be true or false.");
  field = text == "true";
  return {};
}

Assigned assign_text(std::string_view text, std::string& field) {
  if (!simdjson::validate_utf8(text.data(), text.size())) return fail("must be UTF-8.");
  if (policy::plain_text(text) != text) return fail("must not hold control characters.");
  field = text;
  return {};
}

Assigned assign_audit_mode(std::string_view text, AuditMode& field) {
  if (text == "async") {
    field = AuditMode::Async;
    return {};
  }
  if (text == "group" || text == "strict") {
    return fail("\"" + std::string(text) + "\" is not available in this build: use \"async\".");
  }
  return fail("must be \"async\".");
}

}  // namespace turnstile::gateway
