#include "engine/template/json_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "engine/template/value_text.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

class JsonWriter {
 public:
  JsonWriter(RenderContext& context, const JsonStyle& style) : context_(context), style_(style) {}

  MarkedText write(const Value& value) && {
    append(value, 0);
    return std::move(out_);
  }

 private:
  void own(std::string_view text) { out_.append(text, Origin::Template); }

  void append(const Value& value, std::size_t level) {
    context_.spend(1);
    context_.check_text_size(out_.size());
    if (const MarkedText* text = value.as_text()) {
      append_string(*text);
    } else if (const ListValue* list = value.as_list()) {
      append_list(*list, level);
    } else if (const DictValue* dict = value.as_dict()) {
      append_dict(*dict, level);
    } else {
      own(scalar(value));
    }
  }

  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (const auto boolean = value.as_bool()) return *boolean ? "true" : "false";
    if (value.is_real()) {
      const double number = *value.as_real();
      if (std::isnan(number)) return "NaN";
      if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
      return real_to_text(number);
    }
    if (const auto number = value.as_int()) return std::to_string(*number);
    context_.fail("a value of type " + std::string(value.type_name()) +
                  " cannot be written as JSON");
  }

  void append_hex(std::uint32_t unit) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const char escape[] = {
        '\\',           'u', kHex[unit >> 12 & 15], kHex[unit >> 8 & 15], kHex[unit >> 4 & 15],
        kHex[unit & 15]};
    own({escape, sizeof escape});
  }

  void append_escape(std::uint32_t c) {
    switch (c) {
      case '"':
        return own("\\\"");
      case '\\':
        return own("\\\\");
      case '\n':
        return own("\\n");
      case '\r':
        return own("\\r");
      case '\t':
        return own("\\t");
      case '\b':
        return own("\\b");
      case '\f':
        return own("\\f");
      default:
        break;
    }
    if (c == kInvalidCodePoint) c = 0xFFFD;
    if (c >= 0x10000) {
      append_hex(0xD800 + ((c - 0x10000) >> 10));
      c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    append_hex(c);
  }

  void append_string(const MarkedText& text) {
    const std::string& bytes = text.text();
    context_.spend_bytes(bytes.size());
    own("\"");
    std::size_t plain_begin = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto [c, byte_count] = decode_utf8(bytes, at);
      const bool is_escaped =
          c < 0x20 || c == '"' || c == '\\' || (c >= 0x80 && style_.ensure_ascii);
      if (is_escaped) {
        out_.append_slice(text, plain_begin, at);
        append_escape(c);
        plain_begin = at + byte_count;
      }
      at += byte_count;
    }
    out_.append_slice(text, plain_begin, bytes.size());
    own("\"");
  }

  void append_line(std::size_t level) {
    if (!style_.indent) return;
    own("\n");
    context_.check_text_size(out_.size() + level * style_.indent->size());
    for (std::size_t i = 0; i < level; ++i) own(*style_.indent);
  }

  void append_list(const ListValue& list, std::size_t level) {
    own("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) own(style_.item_separator);
      append_line(level + 1);
      append(list.items[i], level + 1);
    }
    if (!list.items.empty()) append_line(level);
    own("]");
  }

  void append_key(const Value& key) {
    if (const MarkedText* text = key.as_text()) {
      append_string(*text);
    } else {
      own("\"" + scalar(key) + "\"");
    }
  }

  void append_dict(const DictValue& dict, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto* entry : entries) {
        if (!entry->first.is_text()) context_.fail("only string keys can be sorted");
      }
      context_.spend(entries.size());
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->first.as_text()->text() < b->first.as_text()->text();
      });
    }
    own("{");
    bool is_first = true;
    for (const auto* entry : entries) {
      if (!is_first) own(style_.item_separator);
      is_first = false;
      append_line(level + 1);
      append_key(entry->first);
      own(style_.key_separator);
      append(entry->second, level + 1);
    }
    if (!entries.empty()) append_line(level);
    own("}");
  }

  RenderContext& context_;
  const JsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText to_json(RenderContext& context, const Value& value, const JsonStyle& style) {
  return JsonWriter(context, style).write(value);
}

}  // namespace turnstile::engine
