// render_context.h: what every function of the interpreter shares during one render: the budget of
// steps, the line at work, and how to fail.
//
// Thread: one render, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/template/civil_time.h"
#include "engine/template/marked_text.h"
#include "engine/template/render_limits.h"
#include "engine/template/value.h"

namespace turnstile::engine {

class RenderContext {
 public:
  explicit RenderContext(std::optional<CivilTime> now) : now_(now) {}

  // Work that is about to be done. Fails when the budget is used up.
  void spend(std::uint64_t steps) {
    if (steps > steps_left_) fail_out_of_steps();
    steps_left_ -= steps;
  }
  void spend_bytes(std::size_t bytes) { spend(bytes / RenderLimits::kBytesPerStep); }

  // Fails if a text of so many bytes or a list of so many items must not be made.
  void check_text_size(std::size_t bytes);
  void check_list_size(std::size_t items);

  [[noreturn]] void fail(std::string message) const;
  [[noreturn]] void raise(std::string message) const;  // for raise_exception()

  // The line that a failure names.
  void set_line(int line) { line_ = line; }
  const std::optional<CivilTime>& now() const { return now_; }

  bool are_equal(const Value& a, const Value& b);

  // These refuse what is too large or nested too deeply.
  Value make_text(MarkedText text);
  Value make_list(std::vector<Value> items);
  Value make_tuple(std::vector<Value> items);
  void check_item(const Value& item);

 private:
  [[noreturn]] void fail_out_of_steps() const;

  std::uint64_t steps_left_ = RenderLimits::kMaxSteps;
  int line_ = 0;
  std::optional<CivilTime> now_;
};

// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

// The arguments in the order of `names`, nullptr where one is not given. Fails on what is left
// over and on what is given twice; `function` names the callee in that message.
std::vector<const Value*> bind_arguments(const RenderContext& context, const Arguments& arguments,
                                         std::string_view function,
                                         std::initializer_list<std::string_view> names);

// The items that `for` would visit: of a list its items, of a dict its keys, of a text its
// characters, of undefined none. Fails for anything else.
std::vector<Value> items_of(RenderContext& context, const Value& value);

}  // namespace turnstile::engine
