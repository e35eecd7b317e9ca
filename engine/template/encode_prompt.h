// encode_prompt.h: the token ids of a rendered prompt, safe against special tokens in client text.
//
// Special tokens are recognised only where all of their bytes are the template's own. Everything
// between two of them is encoded as one run, so the edges between template and client text do not
// change how ordinary text is cut into tokens.
//
// Cost: that of Tokenizer::encode().
// Tests: tests/engine/template_chat_test.cpp (`ids_safe` of the golden chats).
#pragma once

#include <cstddef>
#include <vector>

#include "engine/template/chat_template.h"
#include "engine/token_id.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {

// Appends to `out`; `most` as in Tokenizer::encode().
void encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt,
                   std::vector<TokenId>& out, std::size_t most = Tokenizer::kNoLimit);

}  // namespace turnstile::engine
