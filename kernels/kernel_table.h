// kernel_table.h: the operations of a decoder layer, one table for each instruction set.
//
// A table is chosen once, at load. Every operation is a plain function of its arguments, starts no
// thread and allocates nothing; callers split work into ranges and hand them to the worker pool.
//
// Bitwise identity. Within one table the bits of an output row depend only on that row's inputs:
// never on how many rows are computed together, on the range a call covers, or on the thread.
// So each operation reduces in one fixed order: products block after block of 32 columns, each
// block's sum of weights times q an exact integer, then
//   acc = fma(sum, weight scale * activation scale, acc); acc = fma(minimum, scaled_sum, acc)
// where the weight scale is d (d*s for Q4_K and Q5_K) and minimum is m for Q4_1 and Q5_1, -(e*t)
// for Q4_K and Q5_K; their weights are the unsigned u. Q4_0, Q5_0 and Q8_0 have the sum of
// (u - zero point)*q and only the first of the two steps. So has Q6_K, whose scales are 16 columns
// wide: its integer is s0 * sum of (u-32)*q over the first 16 columns plus s1 * the same over the
// last 16;
// attention over chunks of kAttentionChunk positions counted from position 0, each chunk alone, and
// the results of chunks merged in order (kernels/attention_parts.h).
// Attention over an Int8 cache: q of a head becomes 16-bit integers, q16 = round(q * 32767/max|q|),
//   score = float(sum q16*k8) * (key scale * (max|q|/32767/sqrt(head_dim)))
// and so do the weights of a chunk, w = exp(score - max), p16 = round(w*v_scale * 32767/max), so
// that both sums of products are exact integers and only K and V have lost anything.
// Under Numerics::Int8 quantize and the products with quantised weights are equal bit for bit on
// all levels (tests compare them), and so is attention over an Int8 cache; the other operations
// differ in the last bits between levels.
//
// Numerics::Bf16 is for long chunks of prompts: activations and dequantised weights of every type
// are rounded to bf16 (bf16.h), and products are reduced in 32 columns after another,
//   even = fma(w[0], x[0], 0), fma(w[2], x[2], even), ...; odd the same; acc = acc + (even + odd)
// which is what AMX tiles do. The levels that have it, Scalar and Amx, agree bit for bit. Its other
// operations are those of the level under Int8.
//
// Numerics::Float32 exists to define correctness: float activations, dequantised weights. Only the
// Scalar level has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/activations.h"
#include "kernels/kv_block.h"
#include "kernels/panel.h"

namespace turnstile::kernels {

// From slow to fast; a CPU with a level has those before it, but AvxVnni where it has Avx512Vnni.
enum class Level : std::uint8_t { Scalar, Avx2, AvxVnni, Avx512Vnni, Amx };
inline constexpr std::array kLevels{Level::Scalar, Level::Avx2, Level::AvxVnni, Level::Avx512Vnni,
                                    Level::Amx};
enum class Numerics : std::uint8_t { Int8, Bf16, Float32 };
enum class OutputMode : std::uint8_t { Store, Add };  // out = product, or out += product

inline constexpr int kAttentionChunk = 256;  // positions; a multiple of kKvBlockTokens

// Consecutive query positions of one sequence in one layer.
struct AttentionRows {
  const float* q = nullptr;      // (rows, q_heads, head_dim), rotated; row r at q + r*q_stride
  std::size_t q_stride = 0;      // in floats
  float* out = nullptr;          // (rows, q_heads, head_dim); row r at out + r*out_stride
  std::size_t out_stride = 0;    // in floats
  int rows = 0;
  int q_heads = 0;               // a multiple of kv_heads; heads of a group share K and V loads
  int first_position = 0;        // row r sees positions 0 .. first_position + r
  const BlockId* blocks = nullptr;

  // Null: attend() fills `out`. Otherwise it computes chunks [chunk_begin, chunk_end) alone and
  // leaves their results here for merge_attention_parts(): work for several threads. An array
  // (row, q_heads, part_chunks) of parts (attention_parts.h), the first row being `parts_row`.
  float* parts = nullptr;
  int parts_row = 0;
  int part_chunks = 0;  // at least the chunks of the last row
  int chunk_begin = 0;
  int chunk_end = 0;
};

struct KernelTable {
  Level level;
  Numerics numerics;
  std::string_view name;

  // Fills from f32 what matmul reads beside it, of rows [row_begin, row_end): bf16 under Bf16,
  // otherwise q, scale and scaled_sum, where cols % 32 == 0.
  void (*quantize)(const ActivationRows& x, int row_begin, int row_end);

  // out[r*out_stride + o] (=|+=) sum_c w[o][c] * x[r][c], for every row r of x and the outputs o
  // of panels [panel_begin, panel_end) that exist (o < w.rows). Reads x.q for quantised weights
  // under Int8, x.bf16 under Bf16, x.f32 otherwise.
  void (*matmul)(const PanelMatrix& w, const ActivationRows& x, int panel_begin, int panel_end,
                 float* out, std::size_t out_stride, OutputMode mode);

  // out[i] = x[i] * weight[i] / sqrt(mean(x^2) + eps), one row of n values. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);

  // Rotates neighbours (2i, 2i+1) of each of `heads` heads of one row in place; cos and sin hold
  // rotary_dim/2 values for this position. Dimensions past rotary_dim stay.
  void (*rope)(float* row, int heads, int head_dim, int rotary_dim, const float* cos,
               const float* sin);

  // out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]. out may be gate.
  void (*swiglu)(const float* gate, const float* up, int n, float* out);

  // Writes k and v (kv_heads, head_dim each) of one position into slot `slot` of a block.
  // `layer_kv` is the start of the layer in the pool.
  void (*kv_write)(const KvLayout& layout, std::byte* layer_kv, BlockId block, int slot,
                   const float* k, const float* v);

  // Softmax attention of rows [row_begin, row_end) for the query heads of one kv head, with
  // scores scaled by 1/sqrt(head_dim). `scratch` holds attention_scratch_floats() floats.
  void (*attend)(const KvLayout& layout, const std::byte* layer_kv, const AttentionRows& rows,
                 int kv_head, int row_begin, int row_end, float* scratch);
};

// Floats of scratch that `attend` of any table needs for heads of this size.
std::size_t attention_scratch_floats(int head_dim);

// The best level that this CPU and its operating system support.
Level best_level();
bool level_supported(Level level);
// "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx"
std::optional<Level> parse_level(std::string_view name);
std::string_view to_string(Level level);

// Int8: every level; Bf16: Scalar, and Amx where the CPU has these tiles too; Float32: Scalar.
bool has_numerics(Level level, Numerics numerics);

// REQUIRES: the level is supported and has the numerics.
const KernelTable& kernel_table(Level level, Numerics numerics);

}  // namespace turnstile::kernels
