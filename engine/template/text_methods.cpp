#include "engine/template/text_methods.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/template/text_chars.h"
#include "engine/template/text_space.h"
#include "engine/tokenizer/utf8.h"

namespace turnstile::engine {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

bool has(Side side, Side wanted) {
  return (static_cast<int>(side) & static_cast<int>(wanted)) != 0;
}

bool contains_char(std::string_view chars, std::string_view c) {
  for (std::size_t at = 0; at < chars.size();) {
    const std::size_t byte_count = decode_utf8(chars, at).byte_count;
    if (chars.substr(at, byte_count) == c) return true;
    at += byte_count;
  }
  return false;
}

MarkedText strip_chars(RenderContext& context, const MarkedText& text, Side side,
                       std::string_view chars) {
  const std::string_view bytes = text.text();
  const TextChars positions(bytes);
  const auto char_at = [&](std::size_t i) {
    context.spend(1 + chars.size() / 16);
    return bytes.substr(positions.begin_of(i), positions.begin_of(i + 1) - positions.begin_of(i));
  };
  std::size_t begin = 0;
  std::size_t end = positions.count();
  if (has(side, Side::Left)) {
    while (begin < end && contains_char(chars, char_at(begin))) ++begin;
  }
  if (has(side, Side::Right)) {
    while (end > begin && contains_char(chars, char_at(end - 1))) --end;
  }
  return text.slice(positions.begin_of(begin), positions.begin_of(end));
}

void add_part(RenderContext& context, const MarkedText& text, std::size_t begin, std::size_t end,
              std::vector<Value>& parts) {
  context.spend(1);
  context.check_list_size(parts.size() + 1);
  parts.push_back(Value::text(text.slice(begin, end)));
}

std::vector<Value> split_at_space(RenderContext& context, const MarkedText& text,
                                  std::uint64_t max_splits) {
  std::vector<Value> parts;
  const std::string_view bytes = text.text();
  std::size_t at = leading_space_bytes(bytes);
  while (at < bytes.size()) {
    if (parts.size() == max_splits) {
      add_part(context, text, at, bytes.size(), parts);
      break;
    }
    std::size_t end = at;
    while (end < bytes.size()) {
      const DecodedChar next = decode_utf8(bytes, end);
      if (is_python_space(next.code_point)) break;
      end += next.byte_count;
    }
    add_part(context, text, at, end, parts);
    at = end + leading_space_bytes(bytes.substr(end));
  }
  return parts;
}

std::vector<Value> split_at_space_from_right(RenderContext& context, const MarkedText& text,
                                             std::uint64_t max_splits) {
  std::vector<Value> parts;
  const std::string_view bytes = text.text();
  std::size_t end = trailing_space_begin(bytes);
  while (end > 0) {
    if (parts.size() == max_splits) {
      add_part(context, text, 0, end, parts);
      break;
    }
    // The word that ends at `end` begins after the last space before it.
    std::size_t begin = end;
    while (begin > 0 && trailing_space_begin(bytes.substr(0, begin)) == begin) {
      do {
        --begin;
      } while (begin > 0 && (static_cast<unsigned char>(bytes[begin]) & 0xC0) == 0x80);
    }
    add_part(context, text, begin, end, parts);
    end = trailing_space_begin(bytes.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_at_text(RenderContext& context, const MarkedText& text,
                                 std::string_view separator, std::uint64_t max_splits) {
  std::vector<Value> parts;
  std::size_t begin = 0;
  while (parts.size() < max_splits) {
    const std::size_t found = find_bytes(text.text(), separator, begin);
    if (found == std::string_view::npos) break;
    add_part(context, text, begin, found, parts);
    begin = found + separator.size();
  }
  add_part(context, text, begin, text.size(), parts);
  return parts;
}

std::vector<Value> split_at_text_from_right(RenderContext& context, const MarkedText& text,
                                            std::string_view separator, std::uint64_t max_splits) {
  check_backward_part(context, separator);
  std::vector<Value> parts;
  std::size_t end = text.size();
  while (parts.size() < max_splits && end >= separator.size()) {
    const std::size_t found = std::string_view(text.text()).substr(0, end).rfind(separator);
    if (found == std::string_view::npos) break;
    add_part(context, text, found + separator.size(), end, parts);
    end = found;
  }
  add_part(context, text, 0, end, parts);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

void check_backward_part(const RenderContext& context, std::string_view part) {
  if (part.size() > kMaxBackwardPartBytes) {
    context.fail("a text of more than " + std::to_string(kMaxBackwardPartBytes) +
                 " bytes cannot be searched from the right");
  }
}

std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (part.empty()) return begin;
  const void* found = ::memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

MarkedText strip(RenderContext& context, const MarkedText& text, Side side,
                 const MarkedText* chars) {
  context.spend_bytes(text.size());
  if (chars != nullptr) return strip_chars(context, text, side, chars->text());
  const std::string_view bytes = text.text();
  const std::size_t begin = has(side, Side::Left) ? leading_space_bytes(bytes) : 0;
  const std::size_t end = has(side, Side::Right) ? trailing_space_begin(bytes) : bytes.size();
  return text.slice(begin, std::max(begin, end));
}

std::vector<Value> split(RenderContext& context, const MarkedText& text,
                         const MarkedText* separator, std::optional<std::uint64_t> max_splits,
                         Side from) {
  context.spend_bytes(text.size());
  const std::uint64_t limit = max_splits.value_or(~std::uint64_t{0});
  if (separator == nullptr) {
    return from == Side::Right ? split_at_space_from_right(context, text, limit)
                               : split_at_space(context, text, limit);
  }
  if (separator->size() == 0) context.fail("cannot split at an empty text");
  return from == Side::Right ? split_at_text_from_right(context, text, separator->text(), limit)
                             : split_at_text(context, text, separator->text(), limit);
}

std::vector<MarkedText> split_lines(RenderContext& context, const MarkedText& text) {
  std::vector<MarkedText> lines;
  const std::string_view bytes = text.text();
  context.spend_bytes(bytes.size());
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [c, byte_count] = decode_utf8(bytes, at);
    const std::size_t end = at;
    at += byte_count;
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (!is_break) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    context.spend(1);
    lines.push_back(text.slice(begin, end));
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

MarkedText replace(RenderContext& context, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, std::optional<std::uint64_t> max_count) {
  context.spend_bytes(text.size());
  const std::uint64_t limit = max_count.value_or(~std::uint64_t{0});
  MarkedText result;
  std::size_t copied = 0;
  std::size_t search = 0;
  for (std::uint64_t count = 0; count < limit; ++count) {
    const std::size_t found = find_bytes(text.text(), from.text(), search);
    if (found == std::string_view::npos) break;
    context.spend(1);
    context.spend_bytes(to.size());
    context.check_text_size(result.size() + (found - copied) + to.size());
    result.append_slice(text, copied, found);
    result.append(to);
    copied = found + from.size();
    // An empty text is found before every character and at the end.
    search = copied;
    if (from.size() == 0) {
      if (found == text.size()) break;
      search += decode_utf8(text.text(), found).byte_count;
    }
  }
  result.append_slice(text, copied, text.size());
  context.check_text_size(result.size());
  return result;
}

MarkedText to_lower(const MarkedText& text) {
  std::string bytes = text.text();
  std::transform(bytes.begin(), bytes.end(), bytes.begin(), lower);
  return text.with_text(std::move(bytes));
}

MarkedText to_upper(const MarkedText& text) {
  std::string bytes = text.text();
  std::transform(bytes.begin(), bytes.end(), bytes.begin(), upper);
  return text.with_text(std::move(bytes));
}

MarkedText capitalize(const MarkedText& text) {
  std::string bytes = to_lower(text).text();
  if (!bytes.empty()) bytes[0] = upper(bytes[0]);
  return text.with_text(std::move(bytes));
}

}  // namespace turnstile::engine
