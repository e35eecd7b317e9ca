#include "gateway/verbs/run.h"

#include <ostream>
#include <variant>

namespace turnstile::gateway {

ExitCode run(const Command& command, Surroundings around) {
  const ExitCode code =
      std::visit([&](const auto& options) { return run(options, around); }, command);
  // A server does not end for a line that nobody reads.
  const auto* serve = std::get_if<ServeOptions>(&command);
  const bool has_answer = serve == nullptr || serve->check;
  around.out.flush();
  if (!has_answer || around.out || code == ExitCode::Environment) return code;
  around.err << "Standard output is closed or full: the answer is not whole.\n";
  return ExitCode::Environment;
}

}  // namespace turnstile::gateway
