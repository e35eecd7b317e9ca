#include "gateway/api/answer_lines.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "gateway/api/json_text.h"

namespace turnstile::gateway {
namespace {

void add(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

void add_rate(std::string& out, std::string_view what, const policy::RateLine& line) {
  const auto begin = [&](std::string_view which) {
    out += "x-ratelimit-";
    out += which;
    out += '-';
    out += what;
    out += ": ";
  };
  begin("limit");
  append_json_int(out, line.limit);
  out += "\r\n";
  begin("remaining");
  append_json_int(out, std::max<std::int64_t>(0, line.remaining));
  out += "\r\n";
  begin("reset");
  out += reset_text(line.until_full);
  out += "\r\n";
}

// The lines of draft-ietf-httpapi-ratelimit-headers-11, as structured fields: a policy
// "team-tokens" of so many a minute, and what is left of it. "tokens" is no unit that the draft
// registers; it is the honest name.
void add_structured(std::string& out, const policy::RateView& rates) {
  if (!rates.requests && !rates.tokens) return;
  const auto add_items = [&](std::string_view header, const auto& add_parameters) {
    out += header;
    std::string_view separator = ": ";
    const auto add_item = [&](std::string_view unit, const std::optional<policy::RateLine>& line) {
      if (!line) return;
      out += separator;
      separator = ", ";
      out += '"';
      out += line->node;
      out += '-';
      out += unit;
      out += '"';
      add_parameters(unit, *line);
    };
    add_item("requests", rates.requests);
    add_item("tokens", rates.tokens);
    out += "\r\n";
  };
  add_items("RateLimit-Policy", [&](std::string_view unit, const policy::RateLine& line) {
    out += ";q=";
    append_json_int(out, line.limit);
    out += ";w=60;qu=\"";
    out += unit;
    out += '"';
  });
  add_items("RateLimit", [&](std::string_view, const policy::RateLine& line) {
    out += ";r=";
    append_json_int(out, std::max<std::int64_t>(0, line.remaining));
    out += ";t=";
    append_json_int(out, std::chrono::ceil<std::chrono::seconds>(line.until_full).count());
  });
}

}  // namespace

std::string reset_text(policy::Duration duration) {
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (ms < 1'000) return std::to_string(ms) + "ms";
  const std::int64_t tenths = (ms + 99) / 100;
  const std::int64_t minutes = tenths / 600;
  const std::int64_t rest = tenths % 600;
  std::string text;
  if (minutes > 0) text = std::to_string(minutes) + "m";
  text += std::to_string(rest / 10);
  if (rest % 10 != 0) text += "." + std::to_string(rest % 10);
  return text + "s";
}

void append_answer_lines(std::string& out, std::string_view service_class,
                         std::string_view policy_revision, const policy::RateView& rates) {
  add(out, "x-turnstile-class", service_class);
  add(out, "x-turnstile-policy", policy_revision);
  if (rates.requests) add_rate(out, "requests", *rates.requests);
  if (rates.tokens) add_rate(out, "tokens", *rates.tokens);
  add_structured(out, rates);
}

}  // namespace turnstile::gateway
