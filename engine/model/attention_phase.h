// attention_phase.h: the attention of a layer as items for the worker pool.
//
//   many rows    an item is (tile, kv head)                                attended
//   few rows     an item is (tile, kv head, range of chunks)      parts -> attended
//
// One stream has no more items than kv heads: three heads on two threads take as long as four. So
// a step of at most StepWorkspace::kSplitRows rows is also cut along its positions, between chunks,
// which changes no bit (kernels/attention_parts.h); the results are merged after the barrier.
//
// An item quantises what it has written: the product that follows reads it so.
//
// Thread: engine thread; items run on the pool. Tests: tests/engine/identity_test.cpp.
#pragma once

#include <span>

#include "engine/model/llama_layer.h"
#include "engine/model/step_rows.h"

namespace turnstile::engine {

// Whether the columns of a kv head's queries are whole blocks, which an item can quantise alone.
bool can_quantize_heads(const LlamaConfig& config);

// attended = attention of the rows of all tiles, in one layer whose K and V are written; with
// `quantize` also as products read it. REQUIRES: without, or can_quantize_heads().
void attend_rows(const LlamaStep& step, int layer, std::span<const AttentionTile> tiles,
                 bool quantize);

}  // namespace turnstile::engine
