// step_workspace.h: every intermediate value of a step, allocated once for the largest step.
//
//   name      rows x cols                    written by              read by
//   residual  rows x hidden                  embedding, O, down      norms
//   normed    rows x hidden                  norms                   Q, K, V; gate, up; head
//   qkv       rows x (q_width + 2 kv_width)  Q, K, V and rope        attention, KV write
//   attended  rows x q_width                 attention               O
//   gated     rows x feed_forward            SwiGLU                  down
//   parts     kSplitRows x q_heads x chunks  attention of few rows   attention_phase.h
//   worker    gate and up of one work item, attention scratch, one set for each worker
//
// What products read (normed, attended, gated) is there as floats, as int8, and, for models that
// compute long slices in bf16, as bf16. All arrays start at 64 bytes. Rows have no gaps.
// Ownership: one span of huge pages; the views stay valid when the workspace is moved.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "engine/loader/huge_pages.h"
#include "engine/model/llama_config.h"
#include "engine/model/work_stretches.h"
#include "kernels/activations.h"

namespace turnstile::engine {

struct WorkerScratch {
  float* gate = nullptr;  // (WorkSplit::kRowTile, WorkSplit::kMaxItemPanels * 16)
  float* up = nullptr;    // the same
  float* attention = nullptr;
};

struct StepWorkspace {
  static constexpr int kSplitRows = 8;  // a step of more has items enough for all threads

  HugePages memory;
  float* residual = nullptr;
  kernels::ActivationRows normed;
  float* qkv = nullptr;
  kernels::ActivationRows attended;
  kernels::ActivationRows gated;
  float* attention_parts = nullptr;  // (kSplitRows, q_heads, part_chunks) parts
  int part_chunks = 0;               // 0: there are none
  std::vector<WorkerScratch> workers;
  WorkStretches stretches;  // one for each worker

  // nullopt when the memory cannot be had.
  static std::optional<StepWorkspace> allocate(const LlamaConfig& config, std::size_t max_rows,
                                               int threads, bool with_bf16 = false,
                                               int part_chunks = 0);
};

// Rows [begin, end) of x.
kernels::ActivationRows row_range(const kernels::ActivationRows& x, int begin, int end);

// Columns [begin, end) of one row of x, as a row of their own; `begin` is a multiple of 32.
kernels::ActivationRows column_range(const kernels::ActivationRows& x, int row, int begin, int end);

}  // namespace turnstile::engine
