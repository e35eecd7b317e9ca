#include "engine/loader/same_vocabulary.h"

namespace turnstile::engine {

std::optional<std::string> find_vocabulary_difference(const Tokenizer& model,
                                                      const Tokenizer& draft) {
  if (model.vocab_size() != draft.vocab_size()) {
    return "has " + std::to_string(draft.vocab_size()) + " tokens, the model has " +
           std::to_string(model.vocab_size());
  }
  for (TokenId token = 0; token < model.vocab_size(); ++token) {
    if (model.token_bytes(token) != draft.token_bytes(token) ||
        model.is_control(token) != draft.is_control(token)) {
      return "has another token " + std::to_string(token) + " than the model";
    }
  }
  return std::nullopt;
}

}  // namespace turnstile::engine
