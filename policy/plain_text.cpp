#include "policy/plain_text.h"

#include <cstddef>

namespace turnstile::policy {

std::string plain_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are C2 80 to C2 9F.
    const bool is_c1 = byte == 0xc2 && i + 1 < text.size() &&
                       static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_c1) byte = static_cast<unsigned char>(text[++i]);
    if (byte < 0x20 || byte == 0x7f || is_c1) {
      plain += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 0xfU]};
    } else {
      plain += static_cast<char>(byte);
    }
  }
  return plain;
}

}  // namespace turnstile::policy
