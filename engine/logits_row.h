// logits_row.h: one pass over a row of logits, and what can be answered quickly afterwards.
//
// scan() cuts the row into tiles of 64 and keeps the greatest value of each. That answers:
//   best          the greatest value of all, the lowest id among equals
//   top_bound(k)  the k-th greatest tile maximum: at least k values reach it, so it is a lower
//                 bound of the k-th greatest value, and few values beyond the best k reach it
//   gather(v)     every value >= v but -infinity in the order of ids, skipping tiles without any
// so that the sampler never sorts the vocabulary. A nucleus of thousands of tokens is found by its
// threshold instead: reach(v) sums the weights of the values >= v, gather_between() brings the few
// candidates between two thresholds, keep_through() takes the weight of all worse tokens away.
//
// weight(x) = exp((x - best) / temperature), in float, the same function everywhere; sums are taken
// in one fixed order (16 lanes, then tiles of 256 in double), so that the result is the same bits
// on every host and at every vector width. Below 2^-126 a weight is exactly 0.
//
// Thread: engine thread. Shapes: rows are (vocab) floats. No allocation after construction.
// Cost:   bench/engine_bench.cpp measures it; scan() reads the row once, weigh() once more.
// Tests:  tests/engine/logits_row_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/row_loops.h"
#include "engine/token_id.h"

namespace turnstile::engine {

struct Candidate {
  float logit = 0.0F;
  float weight = 0.0F;
  TokenId token = 0;
};

// Best first; among equal logits the lowest id.
constexpr bool is_better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

class LogitsRow {
 public:
  explicit LogitsRow(std::size_t vocab_size);

  // REQUIRES: vocab_size values, alive until the next scan(). -infinity is a value; the row is
  // usable if none is NaN or +infinity and not all are -infinity.
  void scan(std::span<const float> row);
  bool all_finite() const { return all_finite_; }

  float operator[](TokenId token) const { return row_[token]; }
  std::size_t size() const { return row_.size(); }
  float best_logit() const { return best_; }
  TokenId best_token() const;

  // REQUIRES: 1 <= k. -infinity where k exceeds the number of tiles: then all values qualify.
  float top_bound(std::size_t k);
  // Replaces `out`; weights are left 0.
  void gather(float at_least, std::vector<Candidate>& out) const;

  // Computes weight(x) = exp((x - best) * inverse_temperature) of the whole row and returns their
  // sum. REQUIRES: a usable row.
  double weigh(float inverse_temperature);
  // Of the last weigh().
  float weight(TokenId token) const { return weights_[token]; }

  struct Reach {
    double weight = 0.0;    // of the last weigh(), in the order of ids
    std::size_t count = 0;  // of values
  };
  // The values >= at_least. REQUIRES: at_least > -infinity.
  Reach reach(float at_least);
  // Replaces `out` by the values in [at_least, below), with their weights, in the order of ids.
  void gather_between(float at_least, float below, std::vector<Candidate>& out);
  // Tokens worse than `last` (is_better) have no weight from here on. Returns what is left.
  double keep_through(const Candidate& last);

  // The token where the running sum of the weights that are left first exceeds `target`.
  TokenId token_at(double target) const;

 private:
  std::span<const float> row_;
  std::vector<float> tile_best_;       // of 64 values each
  std::vector<float> tile_best_copy_;  // for selection
  std::vector<float> weights_;         // by weigh()
  std::vector<float> tile_weight_;     // of 256 weights each
  std::vector<float> tile_reach_;      // the same, of the last reach()
  std::vector<std::uint32_t> picked_;  // scratch of gather_between()
  float best_ = 0.0F;
  bool all_finite_ = false;
};

}  // namespace turnstile::engine
