#include "engine/tokenizer/unicode_class.h"

#include <algorithm>
#include <array>

namespace turnstile::engine {
namespace {

constexpr std::uint32_t kTableSize = 0x10000;

constexpr CodePointRange kSpaces[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

bool contains(std::span<const CodePointRange> ranges, std::uint32_t code_point) {
  const auto begins_after = [](std::uint32_t value, const CodePointRange& range) {
    return value < range.first;
  };
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point, begins_after);
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

using Table = std::array<CharClass, kTableSize>;

void fill(Table& table, std::span<const CodePointRange> ranges, CharClass char_class) {
  for (const CodePointRange& range : ranges) {
    for (std::uint32_t c = range.first; c <= range.last && c < kTableSize; ++c) {
      table[c] = char_class;
    }
  }
}

Table make_table() {
  Table table{};
  fill(table, letter_ranges(), CharClass::Letter);
  fill(table, number_ranges(), CharClass::Number);
  fill(table, kSpaces, CharClass::Space);
  return table;
}

}  // namespace

CharClass classify_beyond_ascii(std::uint32_t code_point) {
  static const Table table = make_table();
  if (code_point < kTableSize) return table[code_point];
  if (contains(letter_ranges(), code_point)) return CharClass::Letter;
  if (contains(number_ranges(), code_point)) return CharClass::Number;
  return CharClass::Other;
}

}  // namespace turnstile::engine
