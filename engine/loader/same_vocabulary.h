// same_vocabulary.h: whether a draft model's tokens are those of the model it drafts for.
//
// The draft model's guesses are token ids, and what it reads are ids of the other's tokenizer, so
// every id must stand for the same bytes in both files. How text becomes tokens does not matter:
// only the model's own tokenizer does that.
//
// Thread: any. Cost: one pass over the vocabulary. Tests: tests/engine/same_vocabulary_test.cpp.
#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {

// The first difference, as the end of a sentence that starts with the draft model's name; nullopt:
// there is none.
std::optional<std::string> find_vocabulary_difference(const Tokenizer& model,
                                                      const Tokenizer& draft);

}  // namespace turnstile::engine
