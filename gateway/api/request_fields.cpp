#include "gateway/api/request_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>

#include "engine/limits.h"
#include "gateway/api/neutral_fields.h"

namespace turnstile::gateway {
namespace {

using json_field::Element;
using json_field::invalid;
using Done = tl::expected<void, ApiError>;
using Handler = Done (*)(RequestDraft&, std::string_view, Element);

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMinInt64 = std::numeric_limits<std::int64_t>::min();

// Reads with a json_field getter and stores through `store`.
template <typename Value, typename Store>
Done store_value(tl::expected<Value, ApiError> value, Store store) {
  if (!value) return tl::unexpected(value.error());
  store(*value);
  return {};
}

template <bool GenerationRequest::* member>
Done flag(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::boolean(value, name),
                     [&](bool set) { draft.request.*member = set; });
}

Done include_stop_string(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::boolean(value, name),
                     [&](bool set) { draft.request.stop.include_stop_string = set; });
}

Done ignore_eos(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::boolean(value, name),
                     [&](bool set) { draft.request.stop.ignore_eos = set; });
}

struct NumberRange {
  double smallest;
  double largest;
  bool open_below;
};

template <float engine::SamplingParams::* member>
Done sampling_number(RequestDraft& draft, std::string_view name, Element value, NumberRange range) {
  return store_value(
      json_field::number(value, name, range.smallest, range.largest, range.open_below),
      [&](double number) {
        // A number above zero may be zero as a float; the least float stands for it.
        float value_as_float = static_cast<float>(number);
        if (range.open_below) {
          value_as_float = std::max(value_as_float, std::numeric_limits<float>::min());
        }
        draft.request.sampling.*member = value_as_float;
      });
}

Done temperature(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::temperature>(draft, name, value,
                                                               {0.0, 2.0, false});
}

Done top_p(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::top_p>(draft, name, value, {0.0, 1.0, true});
}

Done min_p(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::min_p>(draft, name, value, {0.0, 1.0, false});
}

Done presence_penalty(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::presence_penalty>(draft, name, value,
                                                                    {-2.0, 2.0, false});
}

Done frequency_penalty(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::frequency_penalty>(draft, name, value,
                                                                     {-2.0, 2.0, false});
}

Done repetition_penalty(RequestDraft& draft, std::string_view name, Element value) {
  return sampling_number<&engine::SamplingParams::repetition_penalty>(draft, name, value,
                                                                      {0.0, 10.0, true});
}

Done top_k(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::integer(value, name, -1, kMaxInt64), [&](std::int64_t count) {
    // More than the vocabulary is the whole vocabulary.
    const auto vocab = static_cast<std::int64_t>(draft.facts.vocab_size);
    draft.request.sampling.top_k =
        count < 0 || count >= vocab ? 0U : static_cast<std::uint32_t>(count);
  });
}

Done choices(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(
      json_field::integer(value, name, 1, static_cast<std::int64_t>(engine::kMaxChoices)),
      [&](std::int64_t count) { draft.request.choices = static_cast<std::uint32_t>(count); });
}

Done seed(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::integer(value, name, kMinInt64, kMaxInt64),
                     [&](std::int64_t number) {
                       draft.request.has_seed = number != -1;
                       draft.request.sampling.seed = static_cast<std::uint64_t>(number);
                     });
}

Done max_tokens(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::integer(value, name, 1, kMaxInt64),
                     [&](std::int64_t count) { draft.max_tokens = count; });
}

Done max_completion_tokens(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::integer(value, name, 1, kMaxInt64),
                     [&](std::int64_t count) { draft.max_completion_tokens = count; });
}

Done min_tokens(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(
      json_field::integer(value, name, 0,
                          static_cast<std::int64_t>(draft.facts.max_model_len)),
      [&](std::int64_t count) {
        draft.request.stop.min_tokens = static_cast<std::uint32_t>(count);
      });
}

Done chat_logprobs(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::boolean(value, name),
                     [&](bool set) { draft.request.logprobs = set; });
}

Done completion_logprobs(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(
      json_field::integer(value, name, 0, static_cast<std::int64_t>(engine::kMaxTopLogprobs)),
      [&](std::int64_t count) { draft.completion_logprobs = count; });
}

Done top_logprobs(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(
      json_field::integer(value, name, 0, static_cast<std::int64_t>(engine::kMaxTopLogprobs)),
      [&](std::int64_t count) { draft.top_logprobs = count; });
}

Done stop(RequestDraft& draft, std::string_view name, Element value) {
  auto add = [&](Element item) -> Done {
    auto text = json_field::string(item, name);
    if (!text) return tl::unexpected(text.error());
    if (text->empty() || text->size() > engine::kMaxStopStringBytes) {
      return invalid(name, "must hold strings of 1 to " +
                               std::to_string(engine::kMaxStopStringBytes) + " bytes");
    }
    draft.request.stop.strings.emplace_back(*text);
    return {};
  };
  if (value.is_string()) return add(value);
  simdjson::dom::array array;
  if (value.get(array)) return invalid(name, "must be a string or an array of strings");
  if (array.size() > engine::kMaxStopStrings) {
    return invalid(name,
                   "must hold at most " + std::to_string(engine::kMaxStopStrings) + " strings");
  }
  for (const Element item : array) {
    if (auto added = add(item); !added) return added;
  }
  return {};
}

Done stop_token_ids(RequestDraft& draft, std::string_view name, Element value) {
  auto ids = read_token_ids(value, name, draft.facts);
  if (!ids) return tl::unexpected(ids.error());
  if (ids->size() > kMaxStopTokenIds) {
    return invalid(name, "must hold at most " + std::to_string(kMaxStopTokenIds) + " ids");
  }
  draft.request.stop.token_ids = std::move(*ids);
  return {};
}

Done logit_bias(RequestDraft& draft, std::string_view name, Element value) {
  auto object = json_field::object(value, name);
  if (!object) return tl::unexpected(object.error());
  if (object->size() > engine::kMaxLogitBias) {
    return invalid(name,
                   "must hold at most " + std::to_string(engine::kMaxLogitBias) + " entries");
  }
  for (const auto field : *object) {
    engine::TokenId id = 0;
    const char* end = field.key.data() + field.key.size();
    const auto parsed = std::from_chars(field.key.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end || id >= draft.facts.vocab_size) {
      return invalid(name, "must have token ids from 0 to " +
                               std::to_string(draft.facts.vocab_size - 1) + " as keys");
    }
    auto bias = json_field::number(field.value, name, -100.0, 100.0);
    if (!bias) return tl::unexpected(bias.error());
    draft.request.sampling.logit_bias.emplace_back(id, static_cast<float>(*bias));
  }
  return {};
}

Done stream_options(RequestDraft& draft, std::string_view name, Element value) {
  auto object = json_field::object(value, name);
  if (!object) return tl::unexpected(object.error());
  draft.has_stream_options = true;
  for (const auto field : *object) {
    if (field.value.is_null()) continue;
    bool* target = field.key == "include_usage" ? &draft.request.include_usage
                   : field.key == "continuous_usage_stats"
                       ? &draft.request.continuous_usage_stats
                       : nullptr;
    if (target == nullptr) continue;
    auto set = json_field::boolean(field.value, "stream_options." + std::string(field.key));
    if (!set) return tl::unexpected(set.error());
    *target = *set;
  }
  return {};
}

Done model(RequestDraft& draft, std::string_view name, Element value) {
  return store_value(json_field::string(value, name),
                     [&](std::string_view text) { draft.request.model = text; });
}

Done salt_of_cache(RequestDraft& draft, std::string_view name, Element value) {
  auto text = json_field::string(value, name);
  if (!text) return tl::unexpected(text.error());
  if (text->empty() || text->size() > kMaxCacheSaltBytes) {
    return invalid(name,
                   "must have 1 to " + std::to_string(kMaxCacheSaltBytes) + " bytes");
  }
  draft.request.cache_salt = std::string(*text);
  return {};
}

Done service_tier(RequestDraft& draft, std::string_view name, Element value) {
  auto text = json_field::string(value, name);
  if (!text) return tl::unexpected(text.error());
  if (*text == "auto") return {};
  if (*text != "priority" && *text != "default" && *text != "flex") {
    return invalid(name, "must be auto, priority, default or flex");
  }
  draft.request.service_tier = std::string(*text);
  return {};
}

Done messages(RequestDraft& draft, std::string_view, Element value) {
  auto list = read_messages(value, draft.limits);
  if (!list) return tl::unexpected(list.error());
  draft.request.messages = std::move(*list);
  draft.has_messages = true;
  return {};
}

Done add_prompt(RequestDraft& draft, Element value) {
  if (draft.request.prompts.size() == kMaxPrompts) {
    return invalid("prompt", "must hold at most " + std::to_string(kMaxPrompts) + " prompts");
  }
  std::string_view text;
  if (!value.get(text)) {
    if (text.empty()) return invalid("prompt", "must not be empty");
    draft.prompt_bytes += text.size();
    if (draft.prompt_bytes > draft.limits.max_prompt_bytes) {
      return tl::unexpected(make_error(
          ApiCode::ContextLengthExceeded,
          "prompt is longer than " + std::to_string(draft.limits.max_prompt_bytes) +
              " bytes; shorten it.",
          "prompt"));
    }
    draft.request.prompts.emplace_back(std::string(text));
    return {};
  }
  auto ids = read_token_ids(value, "prompt", draft.facts);
  if (!ids) return tl::unexpected(ids.error());
  if (ids->empty()) return invalid("prompt", "must not be empty");
  draft.request.prompts.emplace_back(std::move(*ids));
  return {};
}

Done prompt(RequestDraft& draft, std::string_view name, Element value) {
  draft.has_prompt = true;
  if (value.is_string()) return add_prompt(draft, value);
  simdjson::dom::array array;
  if (value.get(array)) {
    return invalid(name, "must be a string, an array of strings or token ids");
  }
  if (array.size() == 0) return invalid(name, "must not be empty");
  if ((*array.begin()).is_number()) return add_prompt(draft, value);
  for (const Element item : array) {
    if (!item.is_string() && !item.is_array()) {
      return invalid(name, "must hold strings or arrays of token ids");
    }
    if (auto added = add_prompt(draft, item); !added) return added;
  }
  return {};
}

struct Field {
  std::string_view name;
  Handler chat;         // nullptr: unknown to this route
  Handler completions;
};

constexpr std::array kFields = {
    Field{"add_generation_prompt", flag<&GenerationRequest::add_generation_prompt>, nullptr},
    Field{"add_special_tokens", neutral_field::only_false, neutral_field::accepted},
    Field{"allowed_token_ids", neutral_field::only_empty, neutral_field::only_empty},
    Field{"audio", neutral_field::never, nullptr},
    Field{"bad_words", neutral_field::only_empty, neutral_field::only_empty},
    Field{"best_of", neutral_field::only_one, neutral_field::only_one},
    Field{"cache_salt", salt_of_cache, salt_of_cache},
    Field{"chat_template", neutral_field::never, neutral_field::never},
    Field{"chat_template_kwargs", neutral_field::only_empty, neutral_field::only_empty},
    Field{"continue_final_message", neutral_field::only_false, nullptr},
    Field{"documents", neutral_field::only_empty, nullptr},
    Field{"echo", neutral_field::only_false, neutral_field::only_false},
    Field{"frequency_penalty", frequency_penalty, frequency_penalty},
    Field{"function_call", neutral_field::only_none, nullptr},
    Field{"functions", neutral_field::only_empty, nullptr},
    Field{"guided_choice", neutral_field::never, neutral_field::never},
    Field{"guided_grammar", neutral_field::never, neutral_field::never},
    Field{"guided_json", neutral_field::never, neutral_field::never},
    Field{"guided_regex", neutral_field::never, neutral_field::never},
    Field{"ignore_eos", ignore_eos, ignore_eos},
    Field{"include_reasoning", neutral_field::accepted, nullptr},
    Field{"include_stop_str_in_output", include_stop_string, include_stop_string},
    Field{"kv_transfer_params", neutral_field::only_empty, neutral_field::only_empty},
    Field{"length_penalty", neutral_field::only_one, neutral_field::only_one},
    Field{"logit_bias", logit_bias, logit_bias},
    Field{"logprobs", chat_logprobs, completion_logprobs},
    Field{"max_completion_tokens", max_completion_tokens, nullptr},
    Field{"max_tokens", max_tokens, max_tokens},
    Field{"messages", messages, nullptr},
    Field{"metadata", neutral_field::accepted, neutral_field::accepted},
    Field{"min_p", min_p, min_p},
    Field{"min_tokens", min_tokens, min_tokens},
    Field{"mm_processor_kwargs", neutral_field::only_empty, nullptr},
    Field{"modalities", neutral_field::only_text_modality, nullptr},
    Field{"model", model, model},
    Field{"n", choices, choices},
    Field{"parallel_tool_calls", neutral_field::accepted, nullptr},
    Field{"prediction", neutral_field::never, nullptr},
    Field{"presence_penalty", presence_penalty, presence_penalty},
    Field{"priority", neutral_field::only_zero, neutral_field::only_zero},
    Field{"prompt", nullptr, prompt},
    Field{"prompt_embeds", nullptr, neutral_field::never},
    Field{"prompt_logprobs", neutral_field::never, neutral_field::never},
    Field{"reasoning_effort", neutral_field::only_none, nullptr},
    Field{"repetition_detection", neutral_field::never, neutral_field::never},
    Field{"repetition_penalty", repetition_penalty, repetition_penalty},
    Field{"response_format", neutral_field::only_text_format, neutral_field::only_text_format},
    Field{"return_prompt_text", neutral_field::only_false, neutral_field::only_false},
    Field{"return_token_ids", flag<&GenerationRequest::return_token_ids>,
          flag<&GenerationRequest::return_token_ids>},
    Field{"return_tokens_as_token_ids", flag<&GenerationRequest::return_tokens_as_token_ids>,
          flag<&GenerationRequest::return_tokens_as_token_ids>},
    Field{"seed", seed, seed},
    Field{"service_tier", service_tier, service_tier},
    Field{"skip_special_tokens", flag<&GenerationRequest::skip_special_tokens>,
          flag<&GenerationRequest::skip_special_tokens>},
    Field{"spaces_between_special_tokens", neutral_field::only_true, neutral_field::only_true},
    Field{"stop", stop, stop},
    Field{"stop_token_ids", stop_token_ids, stop_token_ids},
    Field{"store", neutral_field::accepted, neutral_field::accepted},
    Field{"stream", flag<&GenerationRequest::stream>, flag<&GenerationRequest::stream>},
    Field{"stream_options", stream_options, stream_options},
    Field{"structured_outputs", neutral_field::only_empty, neutral_field::only_empty},
    Field{"suffix", nullptr, neutral_field::never},
    Field{"temperature", temperature, temperature},
    Field{"thinking_token_budget", neutral_field::never, nullptr},
    Field{"tool_choice", neutral_field::only_none, nullptr},
    Field{"tools", neutral_field::only_empty, nullptr},
    Field{"top_k", top_k, top_k},
    Field{"top_logprobs", top_logprobs, nullptr},
    Field{"top_p", top_p, top_p},
    Field{"truncate_prompt_tokens", neutral_field::never, neutral_field::never},
    Field{"use_beam_search", neutral_field::only_false, neutral_field::only_false},
    Field{"user", neutral_field::accepted, neutral_field::accepted},
    Field{"vllm_xargs", neutral_field::only_empty, neutral_field::only_empty},
    Field{"web_search_options", neutral_field::never, nullptr},
};

static_assert(std::is_sorted(kFields.begin(), kFields.end(),
                             [](const Field& a, const Field& b) { return a.name < b.name; }));

// In this order a look-up seldom has to compare letters.
constexpr bool comes_before(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}
constexpr std::array kFieldsByLength = [] {
  auto fields = kFields;
  std::sort(fields.begin(), fields.end(),
            [](const Field& a, const Field& b) { return comes_before(a.name, b.name); });
  return fields;
}();

tl::unexpected<ApiError> lacking(std::string_view name) {
  return tl::unexpected(make_error(ApiCode::MissingRequiredParameter,
                                   std::string(name) + " is required.", std::string(name)));
}

}  // namespace

Done read_field(RequestDraft& draft, std::string_view name, Element value) {
  if (value.is_null()) return {};
  const auto field = std::lower_bound(kFieldsByLength.begin(), kFieldsByLength.end(), name,
                                      [](const Field& candidate, std::string_view wanted) {
                                        return comes_before(candidate.name, wanted);
                                      });
  Handler handler = nullptr;
  if (field != kFieldsByLength.end() && field->name == name) {
    handler = draft.request.api == Api::Chat ? field->chat : field->completions;
  }
  if (handler != nullptr) return handler(draft, name, value);
  if (draft.request.unknown_fields.size() < kMaxUnknownFields) {
    draft.request.unknown_fields.emplace_back(name);
  }
  return {};
}

tl::expected<GenerationRequest, ApiError> finish_draft(RequestDraft&& draft) {
  GenerationRequest& request = draft.request;
  const bool chat = request.api == Api::Chat;
  if (chat && !draft.has_messages) return lacking("messages");
  if (!chat && !draft.has_prompt) return lacking("prompt");
  if (!chat && request.prompts.size() * request.choices > kMaxPrompts) {
    return invalid("n", "times the number of prompts must be at most " +
                            std::to_string(kMaxPrompts));
  }
  if (draft.max_completion_tokens) {
    request.max_tokens = draft.max_completion_tokens;
    request.max_tokens_name = "max_completion_tokens";
  } else {
    request.max_tokens = draft.max_tokens;
  }
  const std::int64_t most =
      request.max_tokens.value_or(chat ? kMaxInt64 : kCompletionsDefaultMaxTokens);
  if (static_cast<std::int64_t>(request.stop.min_tokens) > most) {
    return invalid("min_tokens", "must not be above the largest number of tokens, which is " +
                                     std::to_string(most));
  }
  if (draft.has_stream_options && !request.stream) {
    return invalid("stream_options", "needs stream to be true");
  }
  if (chat && draft.top_logprobs && *draft.top_logprobs > 0 && !request.logprobs) {
    return invalid("top_logprobs", "needs logprobs to be true");
  }
  if (draft.completion_logprobs) {
    request.logprobs = true;
    request.sampling.top_logprobs = static_cast<std::uint32_t>(*draft.completion_logprobs);
  } else if (request.logprobs) {
    request.sampling.top_logprobs = static_cast<std::uint32_t>(draft.top_logprobs.value_or(0));
  }
  return std::move(request);
}

}  // namespace turnstile::gateway
