// exit_code.h: what the program's exit codes mean; scripts rely on them.
#pragma once

namespace turnstile::gateway {

enum class ExitCode : int {
  Done = 0,
  No = 1,           // a check failed, a configuration or policy has errors, a chain is broken
  WrongUsage = 2,
  Environment = 3,  // file missing or unreadable, port taken, model unusable
  EngineFault = 4,  // ended `serve`
};

}  // namespace turnstile::gateway
