#include "gateway/config/speculative_config.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <simdjson.h>

#include "gateway/config/config_values.h"

namespace turnstile::gateway {
namespace {

using engine::SpeculationMethod;
using Problem = tl::unexpected<std::string>;

constexpr std::string_view kNgram = "ngram";
constexpr std::string_view kDraftModel = "draft_model";

struct Fields {
  std::optional<SpeculationMethod> method;
  std::optional<std::uint32_t> num_speculative_tokens;
  std::optional<std::uint32_t> prompt_lookup_min;
  std::optional<std::uint32_t> prompt_lookup_max;
  std::string model;
};

tl::expected<std::uint32_t, std::string> count_of(simdjson::dom::element value,
                                                  std::string_view name, std::uint32_t most) {
  std::uint64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < 1 || number > most) {
    return Problem("needs " + std::string(name) + " to be a whole number from 1 to " +
                   std::to_string(most) + ".");
  }
  return static_cast<std::uint32_t>(number);
}

tl::expected<SpeculationMethod, std::string> method_of(simdjson::dom::element value) {
  std::string_view method;
  if (value.get(method) == simdjson::SUCCESS) {
    if (method == kNgram) return SpeculationMethod::Ngram;
    if (method == kDraftModel) return SpeculationMethod::DraftModel;
  }
  return Problem("has a method that is not available in this build: use \"ngram\" or "
                 "\"draft_model\".");
}

tl::expected<void, std::string> read_field(std::string_view key, simdjson::dom::element value,
                                           Fields& fields) {
  if (key == "method") {
    const auto method = method_of(value);
    if (!method) return Problem(method.error());
    fields.method = *method;
    return {};
  }
  if (key == "model") {
    std::string_view path;
    if (value.get(path) != simdjson::SUCCESS || path.empty() || !assign_text(path, fields.model)) {
      return Problem("needs model to be the path of a GGUF file, without control characters.");
    }
    return {};
  }
  const bool is_min = key == "prompt_lookup_min";
  const bool is_lookup = is_min || key == "prompt_lookup_max";
  if (!is_lookup && key != "num_speculative_tokens") {
    return Problem("does not know '" + std::string(key) +
                   "'; there are method, model, num_speculative_tokens, prompt_lookup_min and "
                   "prompt_lookup_max.");
  }
  const auto count = count_of(
      value, key, is_lookup ? engine::kMaxLookupTokens : engine::kMaxSpeculativeTokens);
  if (!count) return Problem(count.error());
  (is_min ? fields.prompt_lookup_min
          : is_lookup ? fields.prompt_lookup_max : fields.num_speculative_tokens) = *count;
  return {};
}

}  // namespace

std::string_view method_name(const engine::SpeculationLimits& limits) {
  if (limits.num_speculative_tokens == 0) return "none";
  return limits.method == SpeculationMethod::Ngram ? kNgram : kDraftModel;
}

tl::expected<SpeculativeConfig, std::string> parse_speculative_config(std::string_view text) {
  SpeculativeConfig config;
  if (text.empty()) return config;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(simdjson::padded_string(text)).get(object) != simdjson::SUCCESS) {
    return Problem(
        R"(must be a JSON object such as {"method":"ngram","num_speculative_tokens":5}.)");
  }
  Fields fields;
  std::vector<std::string_view> seen;
  for (const auto field : object) {
    if (std::ranges::find(seen, field.key) != seen.end()) {
      return Problem("says " + std::string(field.key) + " twice.");
    }
    seen.push_back(field.key);
    if (auto read = read_field(field.key, field.value, fields); !read) {
      return Problem(std::move(read.error()));
    }
  }
  if (!fields.method && !fields.model.empty()) fields.method = SpeculationMethod::DraftModel;
  if (!fields.method || !fields.num_speculative_tokens) {
    return Problem("needs method and num_speculative_tokens.");
  }
  config.limits.method = *fields.method;
  config.limits.num_speculative_tokens = *fields.num_speculative_tokens;
  config.model = std::move(fields.model);
  const bool has_lookup = fields.prompt_lookup_min || fields.prompt_lookup_max;
  if (config.limits.method == SpeculationMethod::DraftModel) {
    if (config.model.empty()) return Problem("needs model, the GGUF file of the draft model.");
    if (has_lookup) return Problem("has a prompt_lookup bound, which only method \"ngram\" has.");
    return config;
  }
  if (!config.model.empty()) {
    return Problem("has a model, which only method \"draft_model\" has.");
  }
  if (has_lookup) {
    config.limits.prompt_lookup_min =
        fields.prompt_lookup_min.value_or(fields.prompt_lookup_max.value_or(0));
    config.limits.prompt_lookup_max =
        fields.prompt_lookup_max.value_or(config.limits.prompt_lookup_min);
  }
  if (config.limits.prompt_lookup_min > config.limits.prompt_lookup_max) {
    return Problem("has a prompt_lookup_min above its prompt_lookup_max.");
  }
  return config;
}

}  // namespace turnstile::gateway
