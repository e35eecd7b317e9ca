#include "engine/model_drafter.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <utility>

#include "engine/step_cost.h"

namespace turnstile::engine {

tl::expected<std::unique_ptr<Drafter>, std::string> ModelDrafter::create(
    std::unique_ptr<Model> model, std::size_t vocab_size, const Limits& limits) {
  assert(vocab_size <= model->vocab_size() && "the draft model has the target's tokens");
  if (!model->reserve(limits.speculation.draft_kv_blocks, kMaxDraftPassRows, kMaxDraftSequences)) {
    return tl::unexpected("there is not enough memory for the draft model's KV cache of " +
                          std::to_string(limits.speculation.draft_kv_blocks) + " blocks of " +
                          std::to_string(model->kv_block_bytes()) + " bytes");
  }
  std::unique_ptr<float[]> logits(new (std::nothrow)
                                      float[kMaxDraftSequences * model->vocab_size()]);
  if (!logits) {
    return tl::unexpected(
        std::string("there is not enough memory for the draft model's logits"));
  }
  return std::unique_ptr<Drafter>(
      new ModelDrafter(std::move(model), vocab_size, limits, std::move(logits)));
}

ModelDrafter::ModelDrafter(std::unique_ptr<Model> model, std::size_t vocab_size,
                           const Limits& limits, std::unique_ptr<float[]> logits)
    : model_(std::move(model)),
      vocab_size_(vocab_size),
      logits_(std::move(logits)),
      pool_(limits.speculation.draft_kv_blocks),
      slots_(std::min(limits.max_num_seqs, kMaxDraftSequences)) {
  const std::size_t table = blocks_for(limits.max_model_len);
  for (Slot& slot : slots_) {
    slot.blocks.reserve(table);
    slot.guessed.reserve(limits.speculation.num_speculative_tokens);
  }
  const int workers = model_->workers() != nullptr ? model_->workers()->threads() : 1;
  samplers_.reserve(static_cast<std::size_t>(workers));
  for (int i = 0; i < workers; ++i) samplers_.emplace_back(vocab_size);
  drafts_.reserve(slots_.size());
  guessing_.reserve(slots_.size());
  slices_.reserve(slots_.size());
}

double ModelDrafter::propose(std::span<Sequence* const> sequences) {
  ++call_;
  start_drafts(sequences);
  double passes = 0.0;
  while (!drafts_.empty()) passes += run_pass();
  return passes;
}

void ModelDrafter::start_drafts(std::span<Sequence* const> sequences) {
  // Nobody of this call gives up his slot to another of it.
  for (Sequence* sequence : sequences) {
    sequence->draft.clear();
    sequence->sure_guesses = 0;
    if (Slot* slot = slot_of(*sequence)) slot->last_call = call_;
  }
  drafts_.clear();
  std::uint32_t rows_left = kMaxDraftPassRows;
  for (Sequence* sequence : sequences) {
    const std::vector<TokenId>& tokens = sequence->tokens;
    const auto known = static_cast<std::uint32_t>(tokens.size());
    if (known + sequence->draft_limit > model_->context_length() || rows_left == 0) continue;
    Slot* slot = slot_of(*sequence);
    if (slot == nullptr) slot = open_slot(*sequence);
    if (slot == nullptr) continue;
    // Guesses that came true are known tokens now. The last token is computed again if it was one
    // of them, for its logits.
    for (const TokenId token : slot->guessed) {
      if (slot->known + 1 >= known || tokens[slot->known] != token) break;
      ++slot->known;
    }
    slot->guessed.clear();
    const std::uint32_t rows = std::min(known - slot->known, rows_left);
    const bool wants_guess = slot->known + rows == known;
    const std::uint32_t guesses_to_read = wants_guess ? sequence->draft_limit - 1 : 0;
    if (!hold_blocks(*slot, slot->known + rows + guesses_to_read)) {
      close(*slot);
      continue;
    }
    rows_left -= rows;
    drafts_.push_back({.sequence = sequence, .slot = slot, .rows = rows,
                       .wants_guess = wants_guess, .goes_on = false});
  }
}

double ModelDrafter::run_pass() {
  slices_.clear();
  guessing_.clear();
  std::uint32_t rows = 0;
  for (Draft& draft : drafts_) {
    const Slot& slot = *draft.slot;
    const std::uint32_t first = slot.computed();
    const std::span<const TokenId> tokens =
        draft.sequence->draft.empty()
            ? std::span<const TokenId>(draft.sequence->tokens).subspan(first, draft.rows)
            : std::span<const TokenId>(draft.sequence->draft).last(1);
    slices_.push_back({.tokens = tokens,
                       .first_position = first,
                       .blocks = slot.blocks,
                       .logits_rows = draft.wants_guess ? 1U : 0U});
    rows += draft.rows;
    if (draft.wants_guess) guessing_.push_back(&draft);
  }
  const std::size_t stride = model_->vocab_size();
  model_->forward(slices_, std::span(logits_.get(), guessing_.size() * stride));
  for (Draft& draft : drafts_) {
    if (draft.sequence->draft.empty()) {
      draft.slot->known += draft.rows;
    } else {
      draft.slot->guessed.push_back(draft.sequence->draft.back());
    }
    draft.rows = 1;
    draft.goes_on = false;
  }
  const auto sample = [&](int i, int worker) {
    const auto index = static_cast<std::size_t>(i);
    guess(*guessing_[index], logits_.get() + index * stride,
          samplers_[static_cast<std::size_t>(worker)]);
  };
  kernels::WorkerPool* const workers = model_->workers();
  if (workers != nullptr && guessing_.size() > 1) {
    workers->run(static_cast<int>(guessing_.size()), sample);
  } else {
    for (std::size_t i = 0; i < guessing_.size(); ++i) sample(static_cast<int>(i), 0);
  }
  std::erase_if(drafts_, [](const Draft& draft) { return !draft.goes_on; });
  return 1.0 + kDraftRowPasses * rows;
}

// Touches nothing but this draft's sequence: guesses of one pass are made on all workers.
void ModelDrafter::guess(Draft& draft, const float* row, Sampler& sampler) {
  Sequence& sequence = *draft.sequence;
  const ActiveRequest& active = *sequence.request;
  const Choice& choice = active.choices[sequence.order.choice];
  const auto ahead = static_cast<std::uint32_t>(sequence.draft.size());
  const bool may_end = choice.generated() + ahead + 1 > active.request.stop.min_tokens;
  std::vector<TopLogprob> none;
  const auto sampled = sampler.sample(
      std::span(row, vocab_size_),
      {.params = draft.slot->params,
       .counts = choice.counts,
       .masked = may_end ? std::span<const TokenId>() : std::span(active.end_tokens),
       .choice = sequence.order.choice,
       .position = static_cast<std::uint32_t>(sequence.tokens.size()) + ahead},
      none);
  if (!sampled || active.ends_at(sampled->token)) return;
  sequence.draft.push_back(sampled->token);
  const bool is_sure = std::exp(sampled->logprob) >= kSure;
  if (is_sure) ++sequence.sure_guesses;
  draft.goes_on = is_sure && sequence.draft.size() < sequence.draft_limit;
}

ModelDrafter::Slot* ModelDrafter::slot_of(const Sequence& sequence) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.owner == &sequence;
  });
  return found == slots_.end() ? nullptr : &*found;
}

ModelDrafter::Slot* ModelDrafter::open_slot(const Sequence& sequence) {
  const auto known = static_cast<std::uint32_t>(sequence.tokens.size());
  if ((known - sequence.prompt_tokens) * kTokensReadForOne < known) return nullptr;
  const std::uint32_t room = known + known / kTokensReadForOne + sequence.draft_limit;
  if (blocks_for(room) > blocks_to_have()) return nullptr;
  const auto is_free = [](const Slot& slot) { return slot.owner == nullptr; };
  auto slot = std::find_if(slots_.begin(), slots_.end(), is_free);
  if (slot == slots_.end()) {
    if (!give_up_oldest()) return nullptr;
    slot = std::find_if(slots_.begin(), slots_.end(), is_free);
  }
  slot->owner = &sequence;
  slot->last_call = call_;
  slot->params = sequence.request->request.sampling;
  slot->params.top_logprobs = 0;
  // All at once: whoever grows while this text is read takes none of them.
  const bool holds = hold_blocks(*slot, known);
  assert(holds && "there are as many blocks to have as were counted");
  return &*slot;
}

// Free ones and those of whoever is not guessed for in this call.
std::size_t ModelDrafter::blocks_to_have() const {
  std::size_t blocks = pool_.available();
  for (const Slot& slot : slots_) {
    if (slot.last_call != call_) blocks += slot.blocks.size();
  }
  return blocks;
}

void ModelDrafter::close(Slot& slot) {
  for (const kernels::BlockId block : slot.blocks) pool_.release(block);
  slot.blocks.clear();
  slot.known = 0;
  slot.guessed.clear();
  slot.owner = nullptr;
}

bool ModelDrafter::give_up_oldest() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.owner == nullptr || slot.last_call == call_) continue;
    if (oldest == nullptr || slot.last_call < oldest->last_call) oldest = &slot;
  }
  if (oldest == nullptr) return false;
  close(*oldest);
  return true;
}

bool ModelDrafter::hold_blocks(Slot& slot, std::size_t positions) {
  while (slot.blocks.size() < blocks_for(positions)) {
    const auto taken = pool_.try_take();
    if (taken) {
      slot.blocks.push_back(taken->block);
    } else if (!give_up_oldest()) {
      return false;
    }
  }
  return true;
}

void ModelDrafter::forget(const Sequence& sequence) {
  if (Slot* slot = slot_of(sequence)) close(*slot);
}

void ModelDrafter::check_invariants() const {
  pool_.check_invariants();
  std::size_t held = 0;
  for (const Slot& slot : slots_) {
    held += slot.blocks.size();
    if (slot.owner == nullptr) {
      assert(slot.blocks.empty() && slot.computed() == 0 && "a free slot holds nothing");
      continue;
    }
    assert(slot.owner->phase == SequencePhase::Running && "only running sequences are guessed for");
    assert(slot.known <= slot.owner->tokens.size() && "known tokens are the sequence's");
    assert(slot.computed() <= slot.blocks.size() * kernels::kKvBlockTokens &&
           "what was read has a place");
  }
  assert(held == pool_.held() && "each block is one slot's");
}

}  // namespace turnstile::engine
