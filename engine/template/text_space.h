// text_space.h: white space as Python's str methods and regular expressions see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace turnstile::engine {

// str.isspace(): the Unicode property White_Space and U+001C to U+001F.
bool is_python_space(std::uint32_t code_point);

// Where the white space at the start of `text` ends, and where that at its end begins. The two
// cross (end < start) when there is nothing else; then the text is white space.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_begin(std::string_view text);

}  // namespace turnstile::engine
