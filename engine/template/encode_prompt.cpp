#include "engine/template/encode_prompt.h"

#include <string_view>

namespace turnstile::engine {

void encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt,
                   std::vector<TokenId>& out, std::size_t most) {
  const std::string_view text = prompt.text;
  std::size_t run_begin = 0;  // of the text that is not encoded yet
  const auto encode_own = [&](std::size_t begin, std::size_t end) {
    const std::string_view own = text.substr(0, end);
    for (std::size_t at = begin; const auto match = tokenizer.find_special(own, at);) {
      tokenizer.encode(text.substr(run_begin, match->begin - run_begin), ParseSpecial::No, out,
                       most);
      out.push_back(match->id);
      run_begin = at = match->end;
    }
  };
  std::size_t own_begin = 0;
  for (const ByteRange& client : prompt.client_ranges) {
    encode_own(own_begin, client.begin);
    own_begin = client.end;
  }
  encode_own(own_begin, text.size());
  tokenizer.encode(text.substr(run_begin), ParseSpecial::No, out, most);
}

}  // namespace turnstile::engine
