// attention_phase.h: the attention of a layer as items for the worker pool.
//
//   many rows    an item is (tile, kv head)                                attended
//   few rows     an item is (tile, kv head, range of chunks)      parts -> attended
//
// One stream has no more items than kv heads: three heads on two threads take as long as four. So
// a step of at most StepWorkspace::kSplitRows rows is also cut along its positions, between chunks,
// which changes no bit (kernels/attention_parts.h); the results are merged after the barrier.
//
// Thread: engine thread; items run on the pool. Tests: tests/engine/identity_test.cpp.
#pragma once

#include <span>

#include "engine/model/llama_layer.h"
#include "engine/model/step_rows.h"

namespace turnstile::engine {

// attended = attention of the rows of all tiles, in one layer whose K and V are written.
void attend_rows(const LlamaStep& step, int layer, std::span<const AttentionTile> tiles);

}  // namespace turnstile::engine
