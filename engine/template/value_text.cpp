#include "engine/template/value_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

void append_own(std::string_view text, MarkedText& out) { out.append(text, Origin::Template); }

// Characters that repr() escapes although they are beyond ASCII: spaces, format and private use
// characters of the kinds that occur in text.
bool is_escaped_beyond_ascii(std::uint32_t c) {
  return c <= 0xA0 || c == 0xAD || c == 0x1680 || (c >= 0x2000 && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x205F && c <= 0x206F) || c == 0x3000 ||
         (c >= 0xE000 && c <= 0xF8FF) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         c >= 0xE0000;
}

void append_hex_escape(std::uint32_t c, MarkedText& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string escape = digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) escape += kHex[(c >> shift) & 15];
  append_own(escape, out);
}

void append_repr(RenderContext& context, const Value& value, MarkedText& out);

void append_text_repr(RenderContext& context, const MarkedText& text, MarkedText& out) {
  const std::string& bytes = text.text();
  context.spend_bytes(bytes.size());
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  append_own({&quote, 1}, out);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [c, byte_count] = decode_utf8(bytes, at);
    if (c == '\n') {
      append_own("\\n", out);
    } else if (c == '\r') {
      append_own("\\r", out);
    } else if (c == '\t') {
      append_own("\\t", out);
    } else if (c < 0x20 || (c >= 0x7F && is_escaped_beyond_ascii(c))) {
      append_hex_escape(c == kInvalidCodePoint ? static_cast<unsigned char>(bytes[at]) : c, out);
    } else {
      if (c == '\\' || c == static_cast<std::uint32_t>(quote)) append_own("\\", out);
      out.append_slice(text, at, at + byte_count);
    }
    at += byte_count;
  }
  append_own({&quote, 1}, out);
}

void append_list_repr(RenderContext& context, const ListValue& list, MarkedText& out) {
  append_own(list.is_tuple ? "(" : "[", out);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) append_own(", ", out);
    append_repr(context, list.items[i], out);
  }
  if (list.is_tuple && list.items.size() == 1) append_own(",", out);
  append_own(list.is_tuple ? ")" : "]", out);
}

void append_dict_repr(RenderContext& context, const DictValue& dict, MarkedText& out) {
  append_own("{", out);
  bool is_first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!is_first) append_own(", ", out);
    is_first = false;
    append_repr(context, key, out);
    append_own(": ", out);
    append_repr(context, value, out);
  }
  append_own("}", out);
}

void append_repr(RenderContext& context, const Value& value, MarkedText& out) {
  context.spend(1);
  context.check_text_size(out.size());
  if (const MarkedText* text = value.as_text()) {
    append_text_repr(context, *text, out);
  } else if (const ListValue* list = value.as_list()) {
    append_list_repr(context, *list, out);
  } else if (const DictValue* dict = value.as_dict()) {
    append_dict_repr(context, *dict, out);
  } else if (value.is_undefined()) {
    append_own("Undefined", out);
  } else {
    append_str(context, value, out);
  }
}

}  // namespace

std::string real_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits as d.ddde+xx, rearranged by Python's rule: positional for 1e-4 <= x < 1e16.
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const std::size_t exponent_at = text.find('e');
  int exponent = 0;
  const bool is_negative = text[exponent_at + 1] == '-';
  std::from_chars(text.data() + exponent_at + 2, text.data() + text.size(), exponent);
  if (is_negative) exponent = -exponent;
  std::string digits(text.substr(0, 1));
  if (exponent_at > 2) digits += text.substr(2, exponent_at - 2);
  if (exponent < -4 || exponent >= 16) {
    return out + std::string(text);
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_str(RenderContext& context, const Value& value, MarkedText& out) {
  if (const MarkedText* text = value.as_text()) {
    context.spend_bytes(text->size());
    out.append(*text);
  } else if (value.is_none()) {
    append_own("None", out);
  } else if (const auto boolean = value.as_bool()) {
    append_own(*boolean ? "True" : "False", out);
  } else if (value.is_real()) {
    append_own(real_to_text(*value.as_real()), out);
  } else if (const auto number = value.as_int()) {
    append_own(std::to_string(*number), out);
  } else if (value.is_list() || value.is_dict()) {
    append_repr(context, value, out);
  } else if (!value.is_undefined()) {
    context.fail("a " + std::string(value.type_name()) + " cannot be written as text");
  }
  context.check_text_size(out.size());
}

MarkedText to_str(RenderContext& context, const Value& value) {
  MarkedText out;
  append_str(context, value, out);
  return out;
}

}  // namespace turnstile::engine
