#include "gateway/records/json_members.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/json/parse.hpp>

namespace turnstile::gateway {
namespace {

namespace json = boost::json;

// Longer than any that the server writes, and so short that a record of nothing but such texts,
// each character of them escaped, is far below kMaxAuditLineBytes.
constexpr std::size_t kMaxTextBytes = 256;

const json::value* member(const json::object& object, std::string_view name) {
  return object.if_contains(json::string_view(name.data(), name.size()));
}

}  // namespace

json::object parsed_object(std::string_view line) {
  json::error_code error;
  json::value value = json::parse(json::string_view(line.data(), line.size()), error);
  if (error || !value.is_object()) return {};
  return std::move(value.get_object());
}

std::optional<std::uint64_t> count_at(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->get_int64());
}

std::optional<policy::Duration> ms_at(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || !value->is_double()) return std::nullopt;
  return std::chrono::round<policy::Duration>(
      std::chrono::duration<double, std::milli>(std::clamp(value->get_double(), 0.0, 1e9)));
}

std::string text_at(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || !value->is_string()) return {};
  const json::string& text = value->get_string();
  if (text.size() > kMaxTextBytes) return {};
  return std::string(text.data(), text.size());
}

const json::object& object_at(const json::object& object, std::string_view name) {
  static const json::object kNone;
  const json::value* value = member(object, name);
  return value != nullptr && value->is_object() ? value->get_object() : kNone;
}

}  // namespace turnstile::gateway
