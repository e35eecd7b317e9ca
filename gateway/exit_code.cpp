#include "gateway/exit_code.h"

#include <ostream>

#include "gateway/config/config.h"

namespace turnstile::gateway {

ExitCode end_for(const ConfigFailure& failure, std::ostream& err) {
  for (const ConfigError& error : failure.errors) err << to_string(error) << '\n';
  return failure.is_environment ? ExitCode::Environment : ExitCode::No;
}

}  // namespace turnstile::gateway
