// acceptance.h: how often the guesses of one sequence came true of late.
//
// Kept apart for guesses of which the drafter is rather sure and for others, as decaying means that
// start where such guesses usually are. A guess beyond the last verified row is judged as well,
// since the token drawn there shows whether it would have come true: so a sequence that is guessed
// for no longer still finds out when it could be.
//
// A plain value. Tests: tests/engine/draft_length_test.cpp.
#pragma once

namespace turnstile::engine {

class Acceptance {
 public:
  float of(bool is_sure) const { return is_sure ? sure_ : other_; }

  void judge(bool is_sure, bool came_true) {
    float& mean = is_sure ? sure_ : other_;
    mean += ((came_true ? 1.0F : 0.0F) - mean) * kNewShare;
  }

 private:
  static constexpr float kNewShare = 0.125F;  // eight judgements outweigh what was before

  float sure_ = 0.8F;
  float other_ = 0.5F;
};

}  // namespace turnstile::engine
