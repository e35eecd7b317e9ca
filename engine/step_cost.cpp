#include "engine/step_cost.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <optional>

namespace turnstile::engine {
namespace {

constexpr std::size_t kTerms = 5;

// A cell's mean follows the last so many observations.
constexpr std::uint32_t kMemory = 16;

// A step that takes longer than so many times the mean of so many was held up by something else.
constexpr std::uint32_t kTrusted = 4;
constexpr double kMostSurprise = 2.0;

// A cell that was not seen for so many observations counts half: the machine may have become
// busier since.
constexpr double kHalfLife = 2'000.0;

// The steps of one stream grow in depth and nothing else, so noise in time looks like a cost of
// depth. The fit therefore pays for whatever share of the time it ascribes to KV bytes.
constexpr double kKvDoubt = 0.03;

// The same for logits: in steps of decodes they are as many as rows, and rows explain them.
constexpr double kLogitsDoubt = 0.01;

using Vector = std::array<double, kTerms>;

// Sums over the cells of x x^T, x and 1, with x the terms' factors divided by the duration: the
// equations of a fit of relative errors.
struct Sums {
  std::array<Vector, kTerms> xx{};
  Vector x{};
  double one = 0.0;

  void add(const Vector& factors, double weight) {
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) xx[i][j] += weight * factors[i] * factors[j];
      x[i] += weight * factors[i];
    }
    one += weight;
  }
};

// The least-squares solution in which only the terms of `subset` (bits) are not zero, by Gaussian
// elimination; nullopt where the observations do not tell these terms apart.
std::optional<Vector> solve(const Sums& sums, unsigned subset) {
  constexpr double kSingular = 1e-9;  // of the pivot, relative to its size before elimination
  std::array<Vector, kTerms> a = sums.xx;
  Vector y = sums.x;
  const auto is_in = [subset](std::size_t term) { return (subset >> term & 1U) != 0; };
  for (std::size_t p = 0; p < kTerms; ++p) {
    if (!is_in(p)) continue;
    if (!(a[p][p] > kSingular * sums.xx[p][p])) return std::nullopt;
    for (std::size_t row = p + 1; row < kTerms; ++row) {
      if (!is_in(row)) continue;
      const double factor = a[row][p] / a[p][p];
      for (std::size_t col = p; col < kTerms; ++col) a[row][col] -= factor * a[p][col];
      y[row] -= factor * y[p];
    }
  }
  Vector solution{};
  for (std::size_t p = kTerms; p-- > 0;) {
    if (!is_in(p)) continue;
    double rest = y[p];
    for (std::size_t col = p + 1; col < kTerms; ++col) rest -= a[p][col] * solution[col];
    solution[p] = rest / a[p][p];
    if (!(solution[p] >= 0.0)) return std::nullopt;
  }
  return solution;
}

double squared_error(const Sums& sums, const Vector& solution) {
  double error = sums.one;
  for (std::size_t i = 0; i < kTerms; ++i) {
    error -= 2.0 * solution[i] * sums.x[i];
    for (std::size_t j = 0; j < kTerms; ++j) error += solution[i] * sums.xx[i][j] * solution[j];
  }
  return error;
}

}  // namespace

StepWork work_of(std::uint32_t rows, std::uint32_t position, std::uint64_t kv_position_bytes) {
  const std::uint64_t n = rows;
  const std::uint64_t positions = n * position + n * (n + 1) / 2;
  return {.rows = rows, .kv_bytes = positions * kv_position_bytes};
}

void StepCost::observe(const StepWork& work, double duration_ms) {
  assert(work.rows > 0 && "a step without work has no cost");
  if (!(duration_ms > 0.0) || !std::isfinite(duration_ms)) return;
  Cell& cell = cell_of(work);
  cell.count = std::min(cell.count + 1, kMemory);
  cell.last_seen = ++observations_;
  if (cell.count >= kTrusted) duration_ms = std::min(duration_ms, kMostSurprise * cell.duration_ms);
  const double share = 1.0 / cell.count;
  cell.rows += (work.rows - cell.rows) * share;
  cell.kv_bytes += (static_cast<double>(work.kv_bytes) - cell.kv_bytes) * share;
  cell.draft_passes += (work.draft_passes - cell.draft_passes) * share;
  cell.logits_rows += (work.logits_rows - cell.logits_rows) * share;
  cell.duration_ms += (duration_ms - cell.duration_ms) * share;
  has_drafts_ = has_drafts_ || work.draft_passes > 0.0;
  fit();
}

StepCost::Cell& StepCost::cell_of(const StepWork& work) {
  const auto row_cell = static_cast<std::size_t>(std::bit_width(work.rows) - 1);
  const auto depth_cell = static_cast<std::size_t>(std::bit_width(work.kv_bytes / work.rows)) / 2;
  const auto passes = static_cast<std::uint32_t>(std::min(std::ceil(work.draft_passes), 1e6));
  const auto draft_cell = static_cast<std::size_t>(std::bit_width(passes));
  const std::size_t logits_cell = 2 * work.logits_rows > work.rows ? 1 : 0;
  const std::size_t index = ((logits_cell * kDraftCells + std::min(draft_cell, kDraftCells - 1)) *
                                 kRowCells + std::min(row_cell, kRowCells - 1)) * kDepthCells +
                            std::min(depth_cell, kDepthCells - 1);
  if (cells_[index].count == 0) {
    used_cells_[used_cell_count_++] = static_cast<std::uint16_t>(index);
  }
  return cells_[index];
}

void StepCost::fit() {
  Sums sums;
  for (std::size_t i = 0; i < used_cell_count_; ++i) {
    const Cell& cell = cells_[used_cells_[i]];
    const double age = static_cast<double>(observations_ - cell.last_seen);
    const double weight = cell.count / (1.0 + age / kHalfLife);
    sums.add({1.0 / cell.duration_ms, cell.rows / cell.duration_ms,
              cell.kv_bytes / cell.duration_ms, cell.draft_passes / cell.duration_ms,
              cell.logits_rows / cell.duration_ms},
             weight);
  }
  sums.xx[2][2] *= 1.0 + kKvDoubt;
  sums.xx[4][4] *= 1.0 + kLogitsDoubt;
  // Of all choices of terms the one that fits best without a negative term. Rows alone, b, always
  // have a solution, and are tried first.
  std::optional<Vector> best;
  double least_error = 0.0;
  // Logits come with rows, never without.
  for (const unsigned subset : {0b00010U, 0b00011U, 0b00110U, 0b00111U, 0b00001U, 0b00101U,
                                0b00100U, 0b10010U, 0b10011U, 0b10110U, 0b10111U, 0b01010U,
                                0b01011U, 0b01110U, 0b01111U, 0b01001U, 0b01101U, 0b11010U,
                                0b11011U, 0b11110U, 0b11111U}) {
    if ((subset & 0b01000U) != 0 && !has_drafts_) break;
    const auto solution = solve(sums, subset);
    if (!solution) continue;
    const double error = squared_error(sums, *solution);
    if (best && error >= least_error - 1e-9) continue;
    best = solution;
    least_error = error;
  }
  assert(best && "rows alone always explain something");
  terms_ = {.base_ms = (*best)[0], .row_ms = (*best)[1], .kv_byte_ms = (*best)[2],
            .draft_pass_ms = (*best)[3], .logits_row_ms = (*best)[4]};
}

std::uint32_t StepCost::rows_within(double budget_ms, std::uint32_t position,
                                    std::uint64_t kv_position_bytes) const {
  constexpr double kNoLimit = 1e9;
  if (!(budget_ms > 0.0)) return 0;
  // budget = (b + c' (position + 1/2)) n + c'/2 n^2 with c' the cost of one position.
  const double position_ms = terms_.kv_byte_ms * static_cast<double>(kv_position_bytes);
  const double linear = terms_.row_ms + position_ms * (position + 0.5);
  const double square = position_ms / 2.0;
  if (!(linear > 0.0)) return static_cast<std::uint32_t>(kNoLimit);
  // The form that does not cancel when the square term is small.
  const double root = std::sqrt(linear * linear + 4.0 * square * budget_ms);
  return static_cast<std::uint32_t>(std::min(2.0 * budget_ms / (linear + root), kNoLimit));
}

}  // namespace turnstile::engine
