// products.h: a table's product of a whole matrix, and the same in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernel_table.h"

namespace turnstile::kernels {

// (x.rows, w.rows). `before`: what was there, which OutputMode::Add keeps.
inline std::vector<float> product(const KernelTable& table, const PanelMatrix& w,
                                  const ActivationRows& x, OutputMode mode = OutputMode::Store,
                                  float before = 0.0F) {
  std::vector<float> out(static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(w.rows),
                         before);
  table.matmul(w, x, 0, w.panel_count(), out.data(), static_cast<std::size_t>(w.rows), mode);
  return out;
}

// `out` is the product of x.f32 within `tolerance` of the sum of its terms' sizes.
inline void expect_close_to_double(const PanelMatrix& w, const ActivationRows& x,
                                   const std::vector<float>& out, double tolerance) {
  const auto cols = static_cast<std::size_t>(w.cols);
  std::vector<float> weights(cols);
  for (int row = 0; row < w.rows; ++row) {
    dequantize_row(w, row, weights.data());
    for (int t = 0; t < x.rows; ++t) {
      const float* values = x.f32 + static_cast<std::size_t>(t) * cols;
      double expected = 0.0;
      double size = 0.0;
      for (std::size_t c = 0; c < cols; ++c) {
        const double term = static_cast<double>(weights[c]) * static_cast<double>(values[c]);
        expected += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(out[static_cast<std::size_t>(t * w.rows + row)], expected, tolerance * size)
          << "row " << t << " output " << row;
    }
  }
}

}  // namespace turnstile::kernels
