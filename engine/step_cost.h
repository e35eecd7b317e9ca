// step_cost.h: how long a step will take, learned from how long steps took.
//
//   time = a + b * rows + c * KV bytes             rows: tokens computed in the step
//            + d * passes of a draft model         KV bytes: what they attend over, row by row
//            + e * rows of logits                  of which a prompt has one, a decode one a row
//
// A pass of a draft model reads its weights once; each token in it counts kDraftRowPasses more.
//
// Observations are kept as means in cells, one for each power of two of rows, of bytes a row and
// of passes, and whether most rows have logits, so that ten thousand decode steps weigh no more
// than the one prompt chunk that tells b. The numbers are the non-negative least-squares fit of
// relative errors over the cells; a cell fades when it was not seen for long, and one step that was
// held up counts at most twice its usual time. Everything is a pure function of the observations
// and their order: there is no clock in here, the caller measures.
//
// Thread: engine thread. Cost: observe() O(cells in use), about 3 us; the others O(1). Nothing is
//         allocated.
// Tests:  tests/engine/step_cost_test.cpp.
#pragma once

#include <array>
#include <cstdint>

namespace turnstile::engine {

struct StepWork {
  std::uint32_t rows = 0;
  std::uint64_t kv_bytes = 0;
  double draft_passes = 0.0;
  std::uint32_t logits_rows = 0;
};

// A token more in a pass of a draft model, of the pass: six of them double it.
inline constexpr double kDraftRowPasses = 1.0 / 6.0;

// The work of `rows` consecutive tokens from `position` on, each attending over all before it.
StepWork work_of(std::uint32_t rows, std::uint32_t position, std::uint64_t kv_position_bytes);

class StepCost {
 public:
  struct Terms {
    double base_ms = 0.0;      // a
    double row_ms = 0.0;       // b
    double kv_byte_ms = 0.0;   // c
    double draft_pass_ms = 0.0;  // d
    double logits_row_ms = 0.0;  // e
  };

  // REQUIRES: work.rows > 0. A duration that is not positive is ignored.
  void observe(const StepWork& work, double duration_ms);

  // False until the first observation: nothing can be said then.
  bool is_known() const { return observations_ > 0; }
  // Whether a step with passes of a draft model was among them.
  bool is_draft_known() const { return has_drafts_; }
  const Terms& terms() const { return terms_; }

  double predict_ms(const StepWork& work) const {
    return terms_.base_ms + terms_.row_ms * static_cast<double>(work.rows) +
           terms_.kv_byte_ms * static_cast<double>(work.kv_bytes) +
           terms_.draft_pass_ms * work.draft_passes +
           terms_.logits_row_ms * static_cast<double>(work.logits_rows);
  }

  // How many rows without logits from `position` on cost at most `budget_ms` more in a step that
  // runs anyway.
  std::uint32_t rows_within(double budget_ms, std::uint32_t position,
                            std::uint64_t kv_position_bytes) const;

 private:
  static constexpr std::size_t kRowCells = 17;    // powers of two up to 65,536 rows
  static constexpr std::size_t kDepthCells = 16;  // powers of four of bytes a row
  static constexpr std::size_t kDraftCells = 5;   // none, and powers of two of passes
  static constexpr std::size_t kLogitsCells = 2;
  static constexpr std::size_t kCells = kRowCells * kDepthCells * kDraftCells * kLogitsCells;

  struct Cell {
    double rows = 0.0;  // means
    double kv_bytes = 0.0;
    double draft_passes = 0.0;
    double logits_rows = 0.0;
    double duration_ms = 0.0;
    std::uint32_t count = 0;  // saturates at kMemory
    std::uint64_t last_seen = 0;
  };

  void fit();

  Cell& cell_of(const StepWork& work);

  std::array<Cell, kCells> cells_{};
  std::array<std::uint16_t, kCells> used_cells_{};  // indices, in order of first use
  std::size_t used_cell_count_ = 0;
  bool has_drafts_ = false;
  std::uint64_t observations_ = 0;
  Terms terms_;
};

}  // namespace turnstile::engine
