#include "gateway/api/answer_lines.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

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
  out += std::to_string(line.limit);
  out += "\r\n";
  begin("remaining");
  out += std::to_string(std::max<std::int64_t>(0, line.remaining));
  out += "\r\n";
  begin("reset");
  out += reset_text(line.until_full);
  out += "\r\n";
}

// The lines of draft-ietf-httpapi-ratelimit-headers-11, as structured fields: a policy
// "team-tokens" of so many a minute, and what is left of it. "tokens" is no unit that the draft
// registers; it is the honest name.
void add_structured(std::string& out, const policy::RateView& rates) {
  std::string policies;
  std::string states;
  const auto add_limit = [&](std::string_view unit, const std::optional<policy::RateLine>& line) {
    if (!line) return;
    const std::string name = '"' + line->node + '-' + std::string(unit) + '"';
    const std::string_view comma = policies.empty() ? "" : ", ";
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(line->until_full).count();
    policies += comma;
    policies += name + ";q=" + std::to_string(line->limit) + ";w=60;qu=\"";
    policies += unit;
    policies += '"';
    states += comma;
    states += name + ";r=" + std::to_string(std::max<std::int64_t>(0, line->remaining)) +
              ";t=" + std::to_string(seconds);
  };
  add_limit("requests", rates.requests);
  add_limit("tokens", rates.tokens);
  if (policies.empty()) return;
  add(out, "RateLimit-Policy", policies);
  add(out, "RateLimit", states);
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

std::string answer_lines(std::string_view service_class, std::string_view policy_revision,
                         const policy::RateView& rates) {
  std::string out;
  out.reserve(320);
  if (!service_class.empty()) add(out, "x-turnstile-class", service_class);
  add(out, "x-turnstile-policy", policy_revision);
  if (rates.requests) add_rate(out, "requests", *rates.requests);
  if (rates.tokens) add_rate(out, "tokens", *rates.tokens);
  add_structured(out, rates);
  return out;
}

}  // namespace turnstile::gateway
