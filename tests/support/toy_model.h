// toy_model.h: a model without weights whose logits are a hash of what it finds in the KV cache.
//
// A cell is what a real model keeps as K and V of one position: a number made from the token, its
// position and everything before it. The logits of a row are made from all cells that the row
// reaches through its block table, so a block that is shared wrongly, not copied, not written yet
// or read at another position shows as a different text.
//
// Stricter than Model asks: rows of one step do not see what other slices of the same step write,
// so an engine that makes blocks visible before their step has run is found out.
//
// It asks the watch once. A step that is given up leaves nonsense in the cells it was to write.
//
// Thread: as Model. No allocation in forward().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/model.h"

namespace turnstile::tests {

struct ToyModelOptions {
  std::size_t vocab_size = 64;
  std::size_t context_length = 4096;
  std::uint64_t weights = 1;  // another number, another model
  // The logits after this token are NaN.
  std::optional<engine::TokenId> fault_after;
  // Set: every logit is 0 but this token's, which is 1.
  std::optional<engine::TokenId> always;
  // Added to the logit of (last token + 1) % habit_period: text that an n-gram can foresee.
  float habit = 0.0F;
  engine::TokenId habit_period = 8;
};

// What the engine has asked the model to do; outlives the model, which the engine owns.
struct ToyModelLog {
  std::size_t forward_calls = 0;
  std::size_t rows = 0;
  std::size_t copies = 0;
  std::vector<std::size_t> slice_rows;  // of the last call
};

class ToyModel final : public engine::Model {
 public:
  explicit ToyModel(const ToyModelOptions& options = {}, ToyModelLog* log = nullptr);

  std::size_t vocab_size() const override { return options_.vocab_size; }
  std::size_t context_length() const override { return options_.context_length; }
  std::size_t kv_block_bytes() const override;
  bool reserve(std::size_t kv_blocks, std::size_t max_step_tokens,
               std::size_t max_logits_rows) override;
  using Model::forward;
  bool forward(std::span<const engine::StepSlice> slices, std::span<float> logits,
               engine::StepWatch* watch) override;
  void copy_block(kernels::BlockId from, kernels::BlockId to) override;

 private:
  struct Write {
    std::size_t cell;
    std::uint64_t content;
  };
  void compute_logits(std::uint64_t digest, engine::TokenId last, std::span<float> row) const;

  ToyModelOptions options_;
  ToyModelLog* log_;
  std::vector<std::uint64_t> cells_;  // (blocks, kKvBlockTokens); 0: never written
  std::vector<Write> writes_;         // of the step at hand
  std::size_t max_logits_rows_ = 0;
};

}  // namespace turnstile::tests
