// acceptance.h: how often the guesses of one sequence came true of late.
//
// Kept apart for guesses of which the drafter is rather sure and for others, as decaying means that
// start where such guesses usually are. A guess beyond the last verified row is judged as well,
// since the token drawn there shows whether it would have come true: so a sequence that is guessed
// for no longer still finds out when it could be. Where a guess costs time, none is made then; the
// means fade instead to what is typical of all sequences, which may make the next try worth it.
// What would have come behind the end of a text is not judged: it is nobody's text.
// expected() is for a guess that is still to be made, so nobody knows yet how sure it will be.
//
// A plain value. Tests: tests/engine/draft_length_test.cpp.
#pragma once

namespace turnstile::engine {

class Acceptance {
 public:
  static constexpr float kNewShare = 0.125F;  // eight judgements outweigh what was before
  static constexpr float kFade = 1.0F / 64.0F;

  // Of guesses that cost time, before any was judged: good enough to be tried wherever a good draft
  // model would pay. A few judgements tell whether it is one.
  static Acceptance hopeful() {
    Acceptance acceptance;
    acceptance.sure_ = 0.95F;
    acceptance.sure_share_ = 0.95F;
    return acceptance;
  }

  float of(bool is_sure) const { return is_sure ? sure_ : other_; }
  float expected() const { return sure_share_ * sure_ + (1.0F - sure_share_) * other_; }

  void judge(bool is_sure, bool came_true, float share = kNewShare) {
    float& mean = is_sure ? sure_ : other_;
    mean += ((came_true ? 1.0F : 0.0F) - mean) * share;
  }

  // A guess was made.
  void count(bool is_sure, float share = kNewShare) {
    sure_share_ += ((is_sure ? 1.0F : 0.0F) - sure_share_) * share;
  }

  void fade_to(const Acceptance& typical) {
    sure_ += (typical.sure_ - sure_) * kFade;
    other_ += (typical.other_ - other_) * kFade;
    sure_share_ += (typical.sure_share_ - sure_share_) * kFade;
  }

 private:
  float sure_ = 0.8F;
  float other_ = 0.5F;
  float sure_share_ = 0.8F;
};

}  // namespace turnstile::engine
