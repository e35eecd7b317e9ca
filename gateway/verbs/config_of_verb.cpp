#include "gateway/verbs/config_of_verb.h"

namespace turnstile::gateway {

void print_errors(const ConfigFailure& failure, std::ostream& err) {
  for (const ConfigError& error : failure.errors) err << to_string(error) << '\n';
}

ExitCode exit_code_of(const ConfigFailure& failure) {
  return failure.is_environment ? ExitCode::Environment : ExitCode::No;
}

tl::expected<Config, ExitCode> config_of_verb(const std::optional<std::filesystem::path>& given,
                                              const CommandLineOverrides& overrides,
                                              std::ostream& err) {
  auto config = load_config(find_config_file(given), overrides);
  if (!config) {
    print_errors(config.error(), err);
    return tl::unexpected(exit_code_of(config.error()));
  }
  for (const std::string& warning : config->warnings) err << "warning: " << warning << '\n';
  return *std::move(config);
}

}  // namespace turnstile::gateway
