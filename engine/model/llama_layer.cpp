#include "engine/model/llama_layer.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <numeric>

#include "engine/model/attention_phase.h"
#include "engine/model/work_split.h"

namespace turnstile::engine {

namespace {

using kernels::ActivationRows;
using kernels::KernelTable;
using kernels::kPanelRows;
using kernels::OutputMode;
using kernels::PanelMatrix;

// Up to this many rows the caller does row-wise work alone: it takes less time than a barrier.
constexpr int kSerialRows = 8;
constexpr int kRowItemsPerThread = 4;

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Calls work(row) for each row, on the pool when there are enough of them.
template <typename Work>
void for_each_row(kernels::WorkerPool& pool, int rows, Work&& work) {
  if (rows <= kSerialRows) {
    for (int row = 0; row < rows; ++row) work(row);
    return;
  }
  const int items = std::min(rows, kRowItemsPerThread * pool.threads());
  pool.run(items, [&](int item, int) {
    const int end = rows * (item + 1) / items;
    for (int row = rows * item / items; row < end; ++row) work(row);
  });
}

// Panels [begin, end) of a matrix as a matrix of its own.
PanelMatrix panel_range(const PanelMatrix& w, int begin, int end) {
  const int first_row = begin * kPanelRows;
  return {w.type, std::min(end * kPanelRows, w.rows) - first_row, w.cols,
          w.data + kernels::panel_bytes(w.type, first_row, w.cols)};
}

const KernelTable& table_of(const LlamaStep& step, const RowRun& run) {
  return run.is_long ? step.long_table : step.table;
}

// normed = norm(residual) * weight, quantised when a product with one of `readers` asks for it.
void norm_rows(const LlamaStep& step, std::span<const float> weight, const RowRun& run,
               std::initializer_list<const PanelMatrix*> readers) {
  const KernelTable& table = table_of(step, run);
  const bool quantize = std::any_of(readers.begin(), readers.end(), [&](const PanelMatrix* w) {
    return reads_quantized(table, *w);
  });
  const ActivationRows normed = row_range(step.work.normed, run.begin, run.end);
  const std::size_t width = index(step.config.hidden);
  const float* residual = step.work.residual + index(run.begin) * width;
  for_each_row(step.pool, run.rows(), [&](int row) {
    step.table.rms_norm(residual + index(row) * width, weight.data(), step.config.hidden,
                        step.config.norm_epsilon, normed.f32 + index(row) * width);
    if (quantize) table.quantize(normed, row, row + 1);
  });
}

// out (rows, w.rows) = or += w * x, for the rows of a run.
void product(const LlamaStep& step, const PanelMatrix& w, const ActivationRows& x,
             const RowRun& run, float* out, OutputMode mode) {
  const KernelTable& table = table_of(step, run);
  const WorkSplit split(w.panel_count(), run.rows(), step.pool.threads(), run.is_long);
  const std::size_t stride = index(w.rows);
  step.work.stretches.run(step.pool, split.items(), [&](int number, int) {
    const WorkSplit::Item item = split.item(number);
    const int row_begin = run.begin + item.row_begin;
    table.matmul(w, row_range(x, row_begin, run.begin + item.row_end), item.panel_begin,
                 item.panel_end, out + index(row_begin) * stride, stride, mode);
  });
}

// The products of Q, K and V, a few whole heads an item: then the item can rotate its heads, and
// write its keys and values, without waiting for others. Heads of a size that is no multiple of a
// panel are taken in groups that are one.
class QkvPhase {
 public:
  QkvPhase(const LlamaStep& step, int layer, const RowRun& run)
      : step_(step),
        run_(run),
        table_(table_of(step, run)),
        layer_(step.weights.layers[index(layer)]),
        heads_per_item_(kPanelRows / std::gcd(step.config.head_dim, kPanelRows)),
        q_items_(item_count(step.config.q_heads)),
        kv_items_(item_count(step.config.kv_heads)),
        row_tiles_(WorkSplit::tiles_of(run.rows(), run.is_long)),
        stride_(index(step.config.q_width() + 2 * step.config.kv_width())),
        layer_kv_(step.kv_pool + step.kv_layout.offset(layer, 0, 0)) {
    // A head block is addressed like a block of a cache with one head: head h of block b lies
    // where block b * kv_heads + h would.
    one_head_ = step.kv_layout;
    one_head_.layers = 1;
    one_head_.kv_heads = 1;
    one_head_.block_count = step.kv_layout.block_count * index(step.config.kv_heads);
  }

  void run() {
    // Items of keys and values are twice as large, so they are spread among those of queries.
    const int heads = kv_items_ + q_items_;
    step_.work.stretches.run(step_.pool, heads * row_tiles_, [&](int number, int) {
      const int item = number / row_tiles_;
      const int tile = number % row_tiles_;
      const int row_begin = run_.begin + run_.rows() * tile / row_tiles_;
      const int row_end = run_.begin + run_.rows() * (tile + 1) / row_tiles_;
      const int kv_before = item * kv_items_ / heads;
      if ((item + 1) * kv_items_ / heads > kv_before) {
        run_keys_and_values(kv_before, row_begin, row_end);
      } else {
        run_queries(item - kv_before, row_begin, row_end);
      }
    });
  }

 private:
  int item_count(int heads) const { return (heads + heads_per_item_ - 1) / heads_per_item_; }

  // Values of heads [item * heads_per_item, ...) of `w` for the rows, at column `first_col` of qkv.
  void project(const PanelMatrix& w, int item, int first_col, int row_begin, int row_end) {
    const int item_panels = heads_per_item_ * step_.config.head_dim / kPanelRows;
    const int panel_begin = item * item_panels;
    const int panel_end = std::min(panel_begin + item_panels, w.panel_count());
    table_.matmul(w, row_range(step_.work.normed, row_begin, row_end), panel_begin, panel_end,
                  step_.work.qkv + index(row_begin) * stride_ + index(first_col), stride_,
                  OutputMode::Store);
  }

  void rotate(float* heads, int head_count, int row) {
    const std::size_t position = step_.rows.rows()[index(row)].position;
    step_.table.rope(heads, head_count, step_.config.head_dim, step_.config.rotary_dim,
                     step_.rope.cos_at(position), step_.rope.sin_at(position));
  }

  void run_queries(int item, int row_begin, int row_end) {
    project(layer_.q, item, 0, row_begin, row_end);
    const int head = item * heads_per_item_;
    const int heads = std::min(heads_per_item_, step_.config.q_heads - head);
    for (int row = row_begin; row < row_end; ++row) {
      rotate(step_.work.qkv + index(row) * stride_ + index(head * step_.config.head_dim), heads,
             row);
    }
  }

  void run_keys_and_values(int item, int row_begin, int row_end) {
    const int k_col = step_.config.q_width();
    const int v_col = k_col + step_.config.kv_width();
    project(layer_.k, item, k_col, row_begin, row_end);
    project(layer_.v, item, v_col, row_begin, row_end);
    const int head_begin = item * heads_per_item_;
    const int head_end = std::min(head_begin + heads_per_item_, step_.config.kv_heads);
    const auto kv_heads = static_cast<kernels::BlockId>(step_.config.kv_heads);
    for (int row = row_begin; row < row_end; ++row) {
      float* values = step_.work.qkv + index(row) * stride_;
      const StepRow& place = step_.rows.rows()[index(row)];
      for (int head = head_begin; head < head_end; ++head) {
        float* k = values + k_col + head * step_.config.head_dim;
        const float* v = values + v_col + head * step_.config.head_dim;
        rotate(k, 1, row);
        step_.table.kv_write(one_head_, layer_kv_,
                             place.block * kv_heads + static_cast<kernels::BlockId>(head),
                             place.slot, k, v);
      }
    }
  }

  const LlamaStep& step_;
  const RowRun run_;
  const KernelTable& table_;
  const LlamaLayerWeights& layer_;
  const int heads_per_item_;
  const int q_items_;
  const int kv_items_;
  const int row_tiles_;
  const std::size_t stride_;
  std::byte* const layer_kv_;
  kernels::KvLayout one_head_;
};

// Moves the rows that want logits to the front of residual and attended.
void keep_logits_rows(const LlamaStep& step) {
  const std::size_t hidden = index(step.config.hidden);
  const std::size_t width = index(step.config.q_width());
  std::size_t to = 0;
  for (const int row : step.rows.logits_rows()) {
    const std::size_t from = index(row);
    if (from != to) {
      std::memcpy(step.work.residual + to * hidden, step.work.residual + from * hidden,
                  hidden * sizeof(float));
      std::memcpy(step.work.attended.f32 + to * width, step.work.attended.f32 + from * width,
                  width * sizeof(float));
    }
    ++to;
  }
}

void project_attended(const LlamaStep& step, const LlamaLayerWeights& layer, const RowRun& run,
                      bool is_quantized) {
  const KernelTable& table = table_of(step, run);
  const ActivationRows attended = row_range(step.work.attended, run.begin, run.end);
  if (!is_quantized && reads_quantized(table, layer.o)) {
    for_each_row(step.pool, run.rows(), [&](int row) { table.quantize(attended, row, row + 1); });
  }
  product(step, layer.o, step.work.attended, run, step.work.residual, OutputMode::Add);
}

// gated = silu(gate * normed) * (up * normed), a few columns of both an item.
void project_gated(const LlamaStep& step, const LlamaLayerWeights& layer, const RowRun& run) {
  const KernelTable& table = table_of(step, run);
  const WorkSplit split(layer.gate.panel_count(), run.rows(), step.pool.threads(), run.is_long);
  const bool quantize = reads_quantized(table, layer.down);
  const ActivationRows& gated = step.work.gated;
  step.work.stretches.run(step.pool, split.items(), [&](int number, int worker) {
    const WorkSplit::Item item = split.item(number);
    const WorkerScratch& scratch = step.work.workers[index(worker)];
    const int row_begin = run.begin + item.row_begin;
    const ActivationRows x = row_range(step.work.normed, row_begin, run.begin + item.row_end);
    const PanelMatrix gate = panel_range(layer.gate, item.panel_begin, item.panel_end);
    const PanelMatrix up = panel_range(layer.up, item.panel_begin, item.panel_end);
    const std::size_t cols = index(gate.rows);
    table.matmul(gate, x, 0, gate.panel_count(), scratch.gate, cols, OutputMode::Store);
    table.matmul(up, x, 0, up.panel_count(), scratch.up, cols, OutputMode::Store);
    const int first_col = item.panel_begin * kPanelRows;
    for (int row = 0; row < x.rows; ++row) {
      float* gate_row = scratch.gate + index(row) * cols;
      const float* up_row = scratch.up + index(row) * cols;
      const int step_row = row_begin + row;
      if (quantize) {
        step.table.swiglu(gate_row, up_row, gate.rows, gate_row);
        ActivationRows part = column_range(gated, step_row, first_col, first_col + gate.rows);
        part.f32 = gate_row;
        table.quantize(part, 0, 1);
      } else {
        step.table.swiglu(gate_row, up_row, gate.rows,
                          gated.f32 + index(step_row) * index(gated.cols) + index(first_col));
      }
    }
  });
}

}  // namespace

bool reads_quantized(const kernels::KernelTable& table, const PanelMatrix& w) {
  return table.numerics == kernels::Numerics::Bf16 ||
         (table.numerics == kernels::Numerics::Int8 && kernels::is_quantised(w.type));
}

void embed_rows(const LlamaStep& step) {
  const std::span<const StepRow> rows = step.rows.rows();
  for_each_row(step.pool, static_cast<int>(rows.size()), [&](int row) {
    kernels::dequantize_row(step.weights.embedding, static_cast<int>(rows[index(row)].token),
                            step.work.residual + index(row) * index(step.config.hidden));
  });
}

void run_layer(const LlamaStep& step, int layer_index) {
  const LlamaLayerWeights& layer = step.weights.layers[index(layer_index)];
  const LlamaConfig& config = step.config;
  const auto probe = [&](std::string_view point, const float* values, int rows, int cols) {
    if (step.probe) step.probe(point, layer_index, values, rows, cols);
  };
  int rows = static_cast<int>(step.rows.rows().size());
  std::span<const RowRun> runs = step.rows.runs();
  const RowRun logits_run{0, static_cast<int>(step.rows.logits_rows().size()), false};

  for (const RowRun& run : runs) {
    norm_rows(step, layer.attn_norm, run, {&layer.q, &layer.k, &layer.v});
  }
  probe("attn_norm", step.work.normed.f32, rows, config.hidden);
  for (const RowRun& run : runs) QkvPhase(step, layer_index, run).run();
  probe("qkv", step.work.qkv, rows, config.q_width() + 2 * config.kv_width());

  const bool is_last = layer_index + 1 == config.layers;
  const bool attention_quantizes =
      !is_last && can_quantize_heads(config) &&
      std::any_of(runs.begin(), runs.end(), [&](const RowRun& run) {
        return reads_quantized(table_of(step, run), layer.o);
      });
  if (is_last) {
    attend_rows(step, layer_index, step.rows.logits_tiles(), false);
    keep_logits_rows(step);
    rows = logits_run.rows();
    if (rows == 0) return;
    runs = {&logits_run, 1};
  } else {
    attend_rows(step, layer_index, step.rows.tiles(), attention_quantizes);
  }
  probe("attended", step.work.attended.f32, rows, config.q_width());
  for (const RowRun& run : runs) project_attended(step, layer, run, attention_quantizes);
  probe("attn_residual", step.work.residual, rows, config.hidden);

  for (const RowRun& run : runs) {
    norm_rows(step, layer.ffn_norm, run, {&layer.gate, &layer.up});
  }
  probe("ffn_norm", step.work.normed.f32, rows, config.hidden);
  for (const RowRun& run : runs) {
    project_gated(step, layer, run);
    product(step, layer.down, step.work.gated, run, step.work.residual, OutputMode::Add);
  }
  probe("layer_out", step.work.residual, rows, config.hidden);
}

void compute_logits(const LlamaStep& step, int rows, float* logits) {
  const RowRun run{0, rows, false};
  norm_rows(step, step.weights.output_norm, run, {&step.weights.head});
  if (step.probe) step.probe("output_norm", 0, step.work.normed.f32, rows, step.config.hidden);
  product(step, step.weights.head, step.work.normed, run, logits, OutputMode::Store);
}

}  // namespace turnstile::engine
