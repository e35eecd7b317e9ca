// llama_layer.h: one decoder layer over the rows of a step, as a few parallel phases.
//
//   residual --norm--> normed --Q,K,V--> qkv --rope, KV write-->        (one phase)
//                                         qkv + KV blocks --attention--> attended
//            attended --O--> added to residual
//   residual --norm--> normed --gate,up,SwiGLU--> gated --down--> added to residual
//
// Each arrow is one WorkerPool::run (norms and quantisation of few rows are done by the caller:
// a barrier would cost more). The parts of a phase that depend on each other only within a head or
// a block of columns are computed by one work item while the values are in the cache: rotation
// and KV write after the products of their head, quantisation after the attention of a head's
// queries, SwiGLU and quantisation after the products of their columns.
//
// Rows of long slices and of short ones (step_rows.h) are separate runs of the phases of products,
// each with its own kernels. After the last attention all rows are short, and so is the head: they
// are few.
//
// In the last layer nothing after attention is computed for rows whose logits nobody wants:
// residual then holds the logits rows alone, in order.
//
// Thread: engine thread; items run on the pool. Cost: no allocation.
#pragma once

#include <cstddef>

#include "engine/model/ladder_probe.h"
#include "engine/model/llama_config.h"
#include "engine/model/llama_weights.h"
#include "engine/model/rope_table.h"
#include "engine/model/step_rows.h"
#include "engine/model/step_workspace.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_block.h"
#include "kernels/worker_pool.h"

namespace turnstile::engine {

// What the phases of a step work on. A bundle of references for the duration of forward().
struct LlamaStep {
  const LlamaConfig& config;
  const LlamaWeights& weights;
  const kernels::KernelTable& table;
  const kernels::KernelTable& long_table;  // quantises and multiplies rows of long slices
  kernels::WorkerPool& pool;
  const RopeTable& rope;
  const kernels::KvLayout& kv_layout;
  std::byte* kv_pool;
  StepWorkspace& work;
  const StepRows& rows;
  const LadderProbe& probe;
};

// Whether the products of `w` read what the table's quantize() writes.
bool reads_quantized(const kernels::KernelTable& table, const kernels::PanelMatrix& w);

// residual = the embedding of each row's token.
void embed_rows(const LlamaStep& step);

// Computes one layer in place on `residual`.
void run_layer(const LlamaStep& step, int layer);

// logits (rows, vocab) of the first `rows` rows of `residual`: final norm and head.
void compute_logits(const LlamaStep& step, int rows, float* logits);

}  // namespace turnstile::engine
