// on_abort.h: random lives that end in an assert. Says which life it was, and how little of it is
// needed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

namespace turnstile::tests {

// Printed to standard error before the process goes on dying. The last story holds.
inline void tell_on_abort(std::function<std::string()> story) {
  static std::function<std::string()> kept;
  kept = std::move(story);
  std::signal(SIGABRT, [](int) {
    std::signal(SIGABRT, SIG_DFL);
    const std::string text = kept() + "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  });
}

// True when the life fails or aborts; in a process of its own.
inline bool fails_apart(const std::function<bool()>& fails) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    std::_Exit(fails() ? 1 : 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status != 0;
}

// The fewest of `all` steps with which a life that fails still does: found by halving, so there may
// be fewer still where a longer life mends what a shorter one breaks.
inline std::int64_t fewest_steps(std::int64_t all, const std::function<bool(std::int64_t)>& fails) {
  std::int64_t least = 0;
  while (least < all) {
    const std::int64_t half = least + (all - least) / 2;
    if (fails_apart([&] { return fails(half); })) {
      all = half;
    } else {
      least = half + 1;
    }
  }
  return all;
}

}  // namespace turnstile::tests
