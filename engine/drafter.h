// drafter.h: guesses the next tokens of a sequence, so that one step can check several of them.
//
//   known tokens   ... the cat sat on | the         the slice of an ordinary decode step
//   draft                             |    mat .    guesses: more rows of the same slice
//
// The engine samples every row as it would without drafts: the token at a position is a function of
// the target's logits and of that position's random number (rng.h). A guess that equals the sampled
// token makes the next row valid; the first that differs ends the step for this sequence. So a
// draft never changes a token, greedy or not: the text is identical with and without, which is more
// than the equal distribution that rejection sampling gives (Leviathan et al., "Fast Inference from
// Transformers via Speculative Decoding", ICML 2023), at the price of accepting a guess only if it
// is the very token drawn.
//
// Thread: engine thread. Two implementations: NgramDrafter, ModelDrafter.
#pragma once

#include <span>

#include "engine/sequence.h"

namespace turnstile::engine {

class Drafter {
 public:
  virtual ~Drafter() = default;

  // Fills `draft` of each sequence with at most `draft_limit` tokens, or none, and says in
  // `sure_guesses` of how many it is rather sure. `draft` has room for num_speculative_tokens. The
  // sequences run, and none of their known tokens but the last is uncomputed. Returns the time that
  // this took, in passes of a draft model (step_cost.h); 0: none to speak of.
  virtual double propose(std::span<Sequence* const> sequences) = 0;

  // The sequence has ended or is paused: whatever is kept for it may go.
  virtual void forget(const Sequence& sequence) = 0;

  // A guess costs no time, so guesses can be judged that were not run.
  virtual bool is_free() const = 0;

  // Asserts that what is kept belongs to running sequences and adds up.
  virtual void check_invariants() const = 0;
};

}  // namespace turnstile::engine
