// What the model reads: messages, prompts, token ids.
#include <string>

#include "gateway/api/request_fields.h"

namespace turnstile::gateway {
namespace {

using json_field::Element;
using json_field::invalid;

tl::unexpected<ApiError> missing(const std::string& name) {
  return tl::unexpected(
      make_error(ApiCode::MissingRequiredParameter, name + " is required.", name));
}

tl::unexpected<ApiError> unsupported(const std::string& name, const std::string& reason) {
  return tl::unexpected(make_error(ApiCode::UnsupportedParameter, name + ' ' + reason, name));
}

tl::expected<std::string, ApiError> read_parts(simdjson::dom::array parts,
                                               const std::string& name) {
  std::string content;
  std::size_t index = 0;
  for (const Element part : parts) {
    const std::string part_name = name + '[' + std::to_string(index) + ']';
    auto object = json_field::object(part, part_name);
    if (!object) return tl::unexpected(object.error());
    std::string_view type;
    if ((*object)["type"].get(type)) return missing(part_name + ".type");
    if (type != "text") {
      return unsupported(part_name + ".type", "must be \"text\"; other content is not supported.");
    }
    std::string_view text;
    if ((*object)["text"].get(text)) return missing(part_name + ".text");
    if (index > 0) content += '\n';
    content += text;
    ++index;
  }
  if (index == 0) return invalid(name, "must hold at least one part");
  return content;
}

tl::expected<std::string, ApiError> read_content(Element value, const std::string& name) {
  std::string_view text;
  if (!value.get(text)) return std::string(text);
  simdjson::dom::array parts;
  if (!value.get(parts)) return read_parts(parts, name);
  return invalid(name, "must be a string or an array of text parts");
}

tl::expected<InputMessage, ApiError> read_message(Element value, const std::string& name) {
  auto object = json_field::object(value, name);
  if (!object) return tl::unexpected(object.error());
  InputMessage message;
  bool has_content = false;
  for (const auto field : *object) {
    if (field.value.is_null()) continue;
    const std::string field_name = name + '.' + std::string(field.key);
    if (field.key == "role") {
      auto role = json_field::string(field.value, field_name);
      if (!role) return tl::unexpected(role.error());
      message.role = *role;
    } else if (field.key == "content") {
      auto content = read_content(field.value, field_name);
      if (!content) return tl::unexpected(content.error());
      message.content = std::move(*content);
      has_content = true;
    } else if (field.key == "name") {
      auto sender = json_field::string(field.value, field_name);
      if (!sender) return tl::unexpected(sender.error());
      message.name = std::string(*sender);
    } else if (field.key == "tool_calls" || field.key == "function_call" ||
               field.key == "tool_call_id" || field.key == "audio") {
      simdjson::dom::array calls;
      if (!field.value.get(calls) && calls.size() == 0) continue;
      return unsupported(name + '.' + std::string(field.key), "is not supported.");
    }
  }
  if (message.role.empty()) return missing(name + ".role");
  if (message.role == "tool" || message.role == "function") {
    return unsupported(name + ".role", "must not be a tool's: tool calling is not supported.");
  }
  if (message.role != "system" && message.role != "developer" && message.role != "user" &&
      message.role != "assistant") {
    return invalid(name + ".role", "must be system, developer, user or assistant");
  }
  if (!has_content) return missing(name + ".content");
  return message;
}

}  // namespace

tl::expected<std::vector<InputMessage>, ApiError> read_messages(Element value,
                                                                const JsonLimits& limits) {
  auto array = json_field::array(value, "messages");
  if (!array) return tl::unexpected(array.error());
  std::vector<InputMessage> messages;
  std::size_t bytes = 0;
  for (const Element item : *array) {
    if (messages.size() == limits.max_messages) {
      return invalid("messages",
                     "must hold at most " + std::to_string(limits.max_messages) + " messages");
    }
    const std::string name = "messages[" + std::to_string(messages.size()) + ']';
    auto message = read_message(item, name);
    if (!message) return tl::unexpected(message.error());
    bytes += message->content.size() + message->role.size() +
             (message->name ? message->name->size() : 0);
    if (bytes > limits.max_prompt_bytes) {
      return tl::unexpected(make_error(
          ApiCode::ContextLengthExceeded,
          "The messages are longer than " + std::to_string(limits.max_prompt_bytes) +
              " bytes together; shorten them.",
          "messages"));
    }
    messages.push_back(std::move(*message));
  }
  if (messages.empty()) return invalid("messages", "must hold at least one message");
  return messages;
}

tl::expected<std::vector<engine::TokenId>, ApiError> read_token_ids(Element value,
                                                                    std::string_view name,
                                                                    const ModelFacts& facts) {
  auto array = json_field::array(value, name);
  if (!array) return tl::unexpected(array.error());
  std::vector<engine::TokenId> ids;
  ids.reserve(array->size());
  for (const Element item : *array) {
    std::int64_t id = 0;
    if (!item.is_int64() || item.get(id) || id < 0 ||
        static_cast<std::uint64_t>(id) >= facts.vocab_size) {
      return invalid(name, "must hold token ids from 0 to " +
                               std::to_string(facts.vocab_size - 1));
    }
    ids.push_back(static_cast<engine::TokenId>(id));
  }
  return ids;
}

}  // namespace turnstile::gateway
