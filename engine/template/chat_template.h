// chat_template.h: turns chat messages into the prompt that a model was trained on.
//
// The template comes from the model file (`tokenizer.chat_template`) and is written in Jinja; the
// interpreter in this folder knows the subset that real templates use (README.md lists it) and
// agrees with Jinja2 under transformers' settings: trim_blocks, lstrip_blocks, break and continue,
// tojson as json.dumps(ensure_ascii=False), no HTML escaping. A template is code from a model
// file, so it is bounded (RenderLimits) and reaches nothing but its variables.
//
// Variables: messages (a list of mappings with `role`, `content`, and `name` where given),
// add_generation_prompt, bos_token, eos_token, and those of RenderExtras. Functions: namespace(),
// range(), dict(), raise_exception(), strftime_now().
//
// Thread: immutable after compile(); render() is const and may run on several threads at once.
// Errors: TemplateError, never an exception. Client text is expected to be valid UTF-8.
// Cost:   compile O(source); render O(steps), at most kMaxSteps; 41 messages take tens of
//         microseconds.
// Tests:  tests/engine/template_test.cpp, template_golden_test.cpp (python3-jinja2 as the oracle).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "engine/template/civil_time.h"
#include "engine/template/marked_text.h"
#include "engine/template/template_error.h"
#include "engine/template/value.h"

namespace turnstile::engine {

struct ChatMessage {
  std::string role;
  std::string content;
  std::optional<std::string> name;
};

struct RenderedPrompt {
  std::string text;
  // Where `text` came from the request: sorted, disjoint. See encode_prompt.h.
  std::vector<ByteRange> client_ranges;
};

// What a template may ask for beyond the messages.
struct RenderExtras {
  // E.g. ("tools", ...), ("enable_thinking", true). Strings in them carry their own origin. A name
  // that render() gives itself (messages, ...) is our caller's bug and asserts.
  std::vector<std::pair<std::string, Value>> variables;
  // For strftime_now(); without it a call of that function is an error.
  std::optional<CivilTime> now;
};

class Template;

class ChatTemplate {
 public:
  // `bos` and `eos` are the texts of those tokens, empty if the model has none.
  static tl::expected<ChatTemplate, TemplateError> compile(std::string_view source, std::string bos,
                                                           std::string eos);

  tl::expected<RenderedPrompt, TemplateError> render(std::span<const ChatMessage> messages,
                                                     bool add_generation_prompt,
                                                     const RenderExtras& extras = {}) const;

 private:
  ChatTemplate(std::shared_ptr<const Template> compiled, std::string bos, std::string eos);

  std::shared_ptr<const Template> template_;
  Value bos_, eos_;
};

}  // namespace turnstile::engine
