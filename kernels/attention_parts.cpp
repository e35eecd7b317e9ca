#include "kernels/attention_parts.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>

namespace turnstile::kernels {

float* attention_part(const KvLayout& layout, const AttentionRows& rows, int row, int head,
                      int chunk) {
  const std::ptrdiff_t number =
      (static_cast<std::ptrdiff_t>(row - rows.parts_row) * rows.q_heads + head) * rows.part_chunks +
      chunk;
  return rows.parts +
         number * static_cast<std::ptrdiff_t>(attention_part_floats(layout.head_dim));
}

void fold_attention_part(float* into, const float* part, int head_dim) {
  const float largest = std::max(into[0], part[0]);
  const float keep = attention_exp(into[0] - largest);
  const float take = attention_exp(part[0] - largest);
  into[0] = largest;
  into[1] = into[1] * keep + part[1] * take;
  for (int d = kPartHeader; d < kPartHeader + head_dim; ++d) {
    into[d] = into[d] * keep + part[d] * take;
  }
}

void finish_attention(const float* part, int head_dim, float* out) {
  const float inverse = 1.0F / part[1];
  for (int d = 0; d < head_dim; ++d) out[d] = part[kPartHeader + d] * inverse + 0.0F;
}

void merge_attention_parts(const KvLayout& layout, const AttentionRows& rows, int row) {
  const int chunks = attention_chunks(rows.first_position + row + 1);
  assert(chunks <= rows.part_chunks && "the parts have room for every chunk of the row");
  for (int head = 0; head < rows.q_heads; ++head) {
    float* first = attention_part(layout, rows, row, head, 0);
    for (int chunk = 1; chunk < chunks; ++chunk) {
      fold_attention_part(first, attention_part(layout, rows, row, head, chunk), layout.head_dim);
    }
    finish_attention(first, layout.head_dim,
                     rows.out + static_cast<std::size_t>(row) * rows.out_stride +
                         static_cast<std::ptrdiff_t>(head) * layout.head_dim);
  }
}

float attention_exp(float x) {
  // Adding 1.5 * 2^23 rounds to the nearest integer, which then is in the lowest bits.
  constexpr float kMagic = 12582912.0F;
  x = std::min(std::max(x, -87.0F), 88.0F);
  const float shifted = x * 1.44269504F + kMagic;
  const float n = shifted - kMagic;
  float r = std::fma(-n, 0.693359375F, x);
  r = std::fma(-n, -2.12194440e-4F, r);
  const float r2 = r * r;
  const float high = std::fma(1.9875691500e-4F, r, 1.3981999507e-3F);
  const float middle = std::fma(8.3334519073e-3F, r, 4.1665795894e-2F);
  const float low = std::fma(1.6666665459e-1F, r, 0.5F);
  const float p = std::fma(std::fma(std::fma(high, r2, middle), r2, low), r2, r + 1.0F);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

}  // namespace turnstile::kernels
