// engine.h: continuous batching over a paged KV cache.
//
//   add() --> waiting --admit--> running --last token--> Finished
//                ^                  |
//                +------ pause -----+      (blocks run out: newest sequence of the largest
//                                           priority number goes first; its tokens are computed
//                                           again later, its text goes on where it was; pause()
//                                           does the same to one request until resume())
//
// step() is a plain function of what was added and cancelled before: schedule, run the model,
// sample, report. No clock, socket or thread but the model's kernel workers. Of what comes while it
// runs it takes one thing into account: a step of which every row has been cancelled ends after the
// layer at hand, so that the next one need not wait for what nobody reads.
//
// Promises, each a property test:
//   1. The text and logits of a request do not depend on other requests, chunk sizes, cache hits,
//      pauses, guesses or told durations. Under `numerics = "fast"` they do depend on chunk sizes,
//      hits and pauses (loader/kernel_choice.h).
//   2. A cancelled request holds no block and no slot after the next step().
//   3. Free + held + cached blocks == total (check_invariants()).
//   4. Every choice ends with exactly one Finished event.
//   5. If anything is added, every step makes progress.
//
// Thread:  engine thread only.
// Cost:    a steady decode step allocates nothing; scheduling 32 sequences takes <= 20 us.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "engine/limits.h"
#include "engine/model/model.h"
#include "engine/request.h"
#include "engine/step_output.h"
#include "engine/tokenizer/tokenizer.h"

namespace turnstile::engine {

// What comes while a step runs. read() is called between the layers of the model and passes it on
// by add(), cancel(), pause() and resume().
class StepMail {
 public:
  virtual ~StepMail() = default;
  virtual void read() = 0;
};

class Engine {
 public:
  // Fails with a sentence when the limits do not fit the model or the memory cannot be had
  // (max_model_len over the model's context or over the pool, zero blocks, ...). `draft_model`, of
  // the same vocabulary, is there exactly if limits.speculation asks for one.
  static tl::expected<std::unique_ptr<Engine>, std::string> create(
      std::unique_ptr<Model> model, std::shared_ptr<const Tokenizer> tokenizer,
      const Limits& limits, std::unique_ptr<Model> draft_model = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void add(Request request);

  // Takes effect in the next step(), which reports Finished(Cancelled) for each open choice. An
  // unknown or finished id is ignored: the end and the cancel may have crossed.
  void cancel(RequestId id);

  // Take effect in the next step(), in the order of the calls. A paused request gives its blocks
  // and slots away (the blocks stay in the prefix cache until they are reclaimed) and is computed
  // no further until it is resumed; its text goes on where it was. Each choice that ran is reported
  // as Paused, and as Resumed when it runs again. Unknown and finished ids are ignored.
  void pause(RequestId id);
  void resume(RequestId id);

  // Whether step() has anything to do or to report. Paused requests give it nothing to do.
  bool has_work() const;

  // Computes one step and fills `out`, which the caller has cleared. Where it was given up for the
  // mail's cancels, out.stats.rows is 0, and the next step() reports their ends.
  void step(StepOutput& out, StepMail* mail);
  void step(StepOutput& out) { step(out, nullptr); }

  // How long the last step() took, by the caller's clock: the engine has none. It learns from it
  // how long steps take, and cuts prompts and drafts accordingly; a token never depends on it. May
  // be left out.
  void observe_step(double duration_ms);

  const Limits& limits() const;

  // Asserts promise 3 and the agreement of block tables, slots and holders. O(sequences + blocks).
  void check_invariants() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::engine
