#include "engine/template/chat_template.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "engine/template/template.h"

namespace turnstile::engine {
namespace {

constexpr std::array<std::string_view, 4> kOwnVariables = {"messages", "add_generation_prompt",
                                                           "bos_token", "eos_token"};

// The same for every message of every render.
struct MessageKeys {
  Value role = Value::text("role", Origin::Template);
  Value content = Value::text("content", Origin::Template);
  Value name = Value::text("name", Origin::Template);
};

Value message_value(const ChatMessage& message, const MessageKeys& keys) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(message.name ? 3 : 2);
  entries.emplace_back(keys.role, Value::text(message.role, Origin::Client));
  entries.emplace_back(keys.content, Value::text(message.content, Origin::Client));
  if (message.name) entries.emplace_back(keys.name, Value::text(*message.name, Origin::Client));
  return Value::dict(std::move(entries));
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const Template> compiled, std::string bos,
                           std::string eos)
    : template_(std::move(compiled)),
      bos_(Value::text(std::move(bos), Origin::Template)),
      eos_(Value::text(std::move(eos), Origin::Template)) {}

tl::expected<ChatTemplate, TemplateError> ChatTemplate::compile(std::string_view source,
                                                                std::string bos, std::string eos) {
  auto compiled = Template::compile(source);
  if (!compiled) return tl::unexpected(std::move(compiled.error()));
  return ChatTemplate(std::move(*compiled), std::move(bos), std::move(eos));
}

tl::expected<RenderedPrompt, TemplateError> ChatTemplate::render(
    std::span<const ChatMessage> messages, bool add_generation_prompt,
    const RenderExtras& extras) const {
  static const MessageKeys keys;
  std::vector<Value> list;
  list.reserve(messages.size());
  for (const ChatMessage& message : messages) list.push_back(message_value(message, keys));
  std::vector<Variable> variables = {
      {"messages", Value::list(std::move(list))},
      {"add_generation_prompt", Value::boolean(add_generation_prompt)},
      {"bos_token", bos_},
      {"eos_token", eos_},
  };
  for (const auto& [name, value] : extras.variables) {
    assert(std::find(kOwnVariables.begin(), kOwnVariables.end(), name) == kOwnVariables.end() &&
           "the caller does not override what render() gives");
    variables.emplace_back(name, value);
  }
  auto text = template_->render(variables, extras.now);
  if (!text) return tl::unexpected(std::move(text.error()));
  RenderedPrompt prompt;
  prompt.client_ranges.assign(text->client_ranges().begin(), text->client_ranges().end());
  prompt.text = std::move(*text).take_text();
  return prompt;
}

}  // namespace turnstile::engine
