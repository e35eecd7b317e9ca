// model.h: a decoder that computes rows of tokens over a paged KV cache.
//
// A step is a list of slices; a slice is consecutive new tokens of one sequence: one token of a
// decoding sequence, or a chunk of a prompt. forward() writes the K and V of every new token into
// the sequence's blocks, then attends over positions 0 .. its own.
//
//   slices        A: 1 token at position 41     rows of the step, in this order
//                 B: 5 tokens at 16..20         0: A41  1: B16  2: B17 ... 5: B20
//                                               logits rows: those of each slice's last tokens that
//                                               are wanted: one, or more when it carries guesses
//
// Promise: the logits of a slice are the same bits whatever else is in the step and however its
// prompt was cut into chunks. Under `numerics = "fast"` (loader/kernel_choice.h) only the first
// half holds: chunks of kLongSliceRows rows and more are computed in bf16, so the cut shows in the
// bits of K and V, and through them in all later logits of who reads them, from the prefix cache
// too. The difference is of the size that int8 activations make in any case, less than 5 % of the
// spread of the logits (tests/engine/llama_fast_test.cpp).
//
// Two implementations: LlamaModel (engine/model/llama.h) and the tests' ToyModel
// (tests/support/toy_model.h), whose logits are a hash of the tokens it finds through the block
// tables, so that a wrong block shows as a wrong text.
//
// Thread: engine thread only. Ownership: spans live until forward() returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/token_id.h"
#include "kernels/kv_block.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {

struct StepSlice {
  std::span<const TokenId> tokens;             // at least one
  std::uint32_t first_position = 0;            // of tokens[0]
  std::span<const kernels::BlockId> blocks;    // block table; covers the slice's last position
  std::uint32_t logits_rows = 0;               // of the slice's last so many tokens
};

// Who waits for a step, asked between the layers.
class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // False: nobody wants the step any more. May take in what has come meanwhile.
  virtual bool is_wanted() = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::size_t vocab_size() const = 0;
  virtual std::size_t context_length() const = 0;   // tokens, as the file states
  virtual std::size_t kv_block_bytes() const = 0;   // one block over all layers

  // Allocates the zeroed KV pool and the step workspace. Called once, before forward(). False
  // when the memory cannot be had.
  virtual bool reserve(std::size_t kv_blocks, std::size_t max_step_tokens,
                       std::size_t max_logits_rows) = 0;

  // logits: (wanted rows, vocab_size) floats, in the order of slices and tokens.
  // False: `watch` did not want it any more; the logits and the K and V of the slices' positions
  // are of no use then. Without a watch the step is always finished.
  virtual bool forward(std::span<const StepSlice> slices, std::span<float> logits,
                       StepWatch* watch) = 0;
  void forward(std::span<const StepSlice> slices, std::span<float> logits) {
    forward(slices, logits, nullptr);
  }

  // Copies the K and V of `from` to `to` in every layer: a choice that diverges inside a block.
  virtual void copy_block(kernels::BlockId from, kernels::BlockId to) = 0;

  // The threads that compute a step, for use between steps; null: there are none.
  virtual kernels::WorkerPool* workers() { return nullptr; }
};

}  // namespace turnstile::engine
