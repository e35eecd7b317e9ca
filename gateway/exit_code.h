// exit_code.h: what the program's exit codes mean; scripts rely on them.
#pragma once

#include <iosfwd>

namespace turnstile::gateway {

struct ConfigFailure;

enum class ExitCode : int {
  Done = 0,
  No = 1,           // a check failed, a configuration or policy has errors, a chain is broken
  WrongUsage = 2,
  Environment = 3,  // file missing or unreadable, port taken, model unusable
  EngineFault = 4,  // ended `serve`
};

// Prints the errors, a line each, and is the code of a program that ends for them.
ExitCode end_for(const ConfigFailure& failure, std::ostream& err);

}  // namespace turnstile::gateway
