#include "gateway/config/speculative_config.h"

#include <optional>

#include <simdjson.h>

namespace turnstile::gateway {
namespace {

using Problem = tl::unexpected<std::string>;

tl::expected<std::uint32_t, std::string> count_of(simdjson::dom::element value,
                                                  std::string_view name, std::uint32_t most) {
  std::uint64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < 1 || number > most) {
    return Problem("needs " + std::string(name) + " to be a whole number from 1 to " +
                   std::to_string(most) + ".");
  }
  return static_cast<std::uint32_t>(number);
}

}  // namespace

tl::expected<engine::SpeculationLimits, std::string> parse_speculative_config(
    std::string_view text) {
  engine::SpeculationLimits limits;
  if (text.empty()) return limits;
  simdjson::dom::parser parser;
  simdjson::dom::object fields;
  if (parser.parse(simdjson::padded_string(text)).get(fields) != simdjson::SUCCESS) {
    return Problem(
        R"(must be a JSON object such as {"method":"ngram","num_speculative_tokens":5}.)");
  }
  std::optional<std::uint32_t> lookup_min;
  std::optional<std::uint32_t> lookup_max;
  bool has_method = false;
  for (const auto field : fields) {
    if (field.key == "method") {
      std::string_view method;
      if (field.value.get(method) != simdjson::SUCCESS || method != "ngram") {
        return Problem("has a method that is not available in this build: use \"ngram\".");
      }
      has_method = true;
      continue;
    }
    if (field.key == "model") {
      return Problem("names a draft model, which is not available in this build: use method "
                     "\"ngram\".");
    }
    const bool is_min = field.key == "prompt_lookup_min";
    if (!is_min && field.key != "prompt_lookup_max" && field.key != "num_speculative_tokens") {
      return Problem("does not know '" + std::string(field.key) +
                     "'; there are method, num_speculative_tokens, prompt_lookup_min and "
                     "prompt_lookup_max.");
    }
    const bool is_lookup = field.key != "num_speculative_tokens";
    const auto count =
        count_of(field.value, field.key,
                 is_lookup ? engine::kMaxLookupTokens : engine::kMaxSpeculativeTokens);
    if (!count) return Problem(count.error());
    if (!is_lookup) {
      limits.num_speculative_tokens = *count;
    } else {
      (is_min ? lookup_min : lookup_max) = *count;
    }
  }
  if (!has_method || limits.num_speculative_tokens == 0) {
    return Problem("needs method and num_speculative_tokens.");
  }
  if (lookup_min || lookup_max) {
    limits.prompt_lookup_min = lookup_min.value_or(lookup_max.value_or(0));
    limits.prompt_lookup_max = lookup_max.value_or(limits.prompt_lookup_min);
  }
  if (limits.prompt_lookup_min > limits.prompt_lookup_max) {
    return Problem("has a prompt_lookup_min above its prompt_lookup_max.");
  }
  return limits;
}

}  // namespace turnstile::gateway
