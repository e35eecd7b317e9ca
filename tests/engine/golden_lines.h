// golden_lines.h: reads the JSON lines under tests/golden.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <simdjson.h>

namespace turnstile::engine {

// Calls use(element, line_number) for each line of the file. Returns how many there were; 0 when it
// cannot be read.
template <typename Use>
std::size_t for_each_line(const std::string& path, Use use) {
  simdjson::dom::parser parser;
  simdjson::padded_string text;
  if (simdjson::padded_string::load(path).get(text)) return 0;
  std::size_t count = 0;
  const std::string_view all(text.data(), text.size());
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    simdjson::dom::element element;
    if (parser.parse(simdjson::padded_string(all.substr(begin, end - begin))).get(element)) {
      return 0;
    }
    use(element, ++count);
    begin = end + 1;
  }
  return count;
}

// The same for tests/golden/NAME.
template <typename Use>
std::size_t for_each_golden_line(const std::string& name, Use use) {
  return for_each_line(std::string(TURNSTILE_GOLDEN_DIR) + "/" + name, std::move(use));
}

inline std::string string_at(simdjson::dom::element element, const char* key) {
  std::string_view text;
  if (element[key].get(text)) return {};
  return std::string(text);
}

inline bool has(simdjson::dom::element element, const char* key) {
  return element[key].error() == simdjson::SUCCESS;
}

inline bool bool_at(simdjson::dom::element element, const char* key) {
  bool value = false;
  return element[key].get(value) == simdjson::SUCCESS && value;
}

inline std::vector<std::uint32_t> ids_at(simdjson::dom::element element, const char* key) {
  std::vector<std::uint32_t> ids;
  simdjson::dom::array array;
  if (element[key].get(array)) return ids;
  for (const simdjson::dom::element id : array) {
    ids.push_back(static_cast<std::uint32_t>(std::uint64_t(id)));
  }
  return ids;
}

}  // namespace turnstile::engine
