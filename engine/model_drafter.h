// model_drafter.h: a small model guesses what the large one will say.
//
//   sequence      ... the cat sat on the          known tokens
//   slot's K, V   --------------->| on the        pass 0: what the draft model has not read yet
//                                        mat      pass 1: the guess of pass 0     one pass each for
//                                            .    pass 2: the guess of pass 1     all sequences
//
// Each pass computes one token of every sequence that still wants guesses, and samples it with the
// request's own parameters and the random number of its position: where the two models agree on the
// distribution, guess and token are the same draw. A guess of which the draft model itself is not
// sure (kSure) is the last of its draft; an end token is never guessed, as nothing follows it.
//
// The draft model has a KV cache of its own, in blocks of its own pool. A slot holds one sequence:
// at most kMaxDraftSequences at a time, each read as far as it was ever guessed for: a prompt is
// read only when the answer is long enough to pay for that (kTokensReadForOne), in pieces of at
// most kMaxDraftPassRows tokens a step. Wrong guesses are overwritten. When slots or blocks run
// short, whoever was guessed for longest ago gives up his. Whoever then finds no block to grow into
// loses his slot, and is read again, as anybody is read, only into blocks for all his tokens and
// room for as many more as pay for it: else a full pool would be read into over and over. Nothing
// is shared between sequences: the choices of a request and the turns of a conversation are read
// each for itself.
//
// So what this costs is bounded, and nothing while no guess pays; K and V of the target, its blocks
// and its prefix cache are not touched, and a pause or an end only frees the slot.
//
// Thread: engine thread; uses the model's workers. A call without new sequences allocates nothing.
// Tests:  tests/engine/model_drafter_test.cpp, model_drafter_slots_test.cpp,
//         speculation_tiny_test.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "engine/active_request.h"
#include "engine/block_pool.h"
#include "engine/drafter.h"
#include "engine/limits.h"
#include "engine/model/model.h"
#include "engine/sampler.h"

namespace turnstile::engine {

class ModelDrafter final : public Drafter {
 public:
  // Of a guess's probability under the draft model.
  static constexpr float kSure = 0.5F;
  // A sequence has generated a token for each so many that must be read before its first guess.
  static constexpr std::uint32_t kTokensReadForOne = 16;

  // The first `vocab_size` tokens of the model are those of the target. Fails with a sentence when
  // the memory cannot be had.
  static tl::expected<std::unique_ptr<Drafter>, std::string> create(std::unique_ptr<Model> model,
                                                                    std::size_t vocab_size,
                                                                    const Limits& limits);

  double propose(std::span<Sequence* const> sequences) override;
  void forget(const Sequence& sequence) override;
  bool is_free() const override { return false; }
  void check_invariants() const override;

 private:
  // What the draft model has read of one sequence.
  struct Slot {
    const Sequence* owner = nullptr;  // null: free
    std::vector<kernels::BlockId> blocks;
    std::uint32_t known = 0;        // leading tokens of the sequence whose K and V are there
    std::vector<TokenId> guessed;   // those after them that were guesses when they were computed
    SamplingParams params;          // of the request, with log-probabilities
    std::uint64_t last_call = 0;

    std::uint32_t computed() const { return known + static_cast<std::uint32_t>(guessed.size()); }
  };
  struct Draft {
    Sequence* sequence = nullptr;
    Slot* slot = nullptr;
    std::uint32_t rows = 0;       // of the pass at hand
    bool wants_guess = false;
    bool goes_on = false;
  };

  ModelDrafter(std::unique_ptr<Model> model, std::size_t vocab_size, const Limits& limits,
               std::unique_ptr<float[]> logits);

  Slot* slot_of(const Sequence& sequence);
  Slot* open_slot(const Sequence& sequence);
  void close(Slot& slot);
  bool give_up_oldest();
  std::size_t blocks_to_have() const;
  bool hold_blocks(Slot& slot, std::size_t positions);
  void start_drafts(std::span<Sequence* const> sequences);
  double run_pass();
  void guess(Draft& draft, const float* row, Sampler& sampler);

  std::unique_ptr<Model> model_;
  std::size_t vocab_size_;
  std::unique_ptr<float[]> logits_;  // (kMaxDraftSequences, model's vocabulary)
  BlockPool pool_;
  std::vector<Slot> slots_;
  std::vector<Sampler> samplers_;    // one for each worker
  std::vector<Draft> drafts_;        // of the call at hand
  std::vector<Draft*> guessing_;     // of the pass at hand, in the order of logits
  std::vector<StepSlice> slices_;
  std::uint64_t call_ = 0;
};

}  // namespace turnstile::engine
