#include "gateway/verbs/config_of_verb.h"

namespace turnstile::gateway {

tl::expected<Config, ExitCode> config_of_verb(const std::optional<std::filesystem::path>& given,
                                              const CommandLineOverrides& overrides,
                                              std::ostream& err) {
  auto config = load_config(find_config_file(given), overrides);
  if (!config) return tl::unexpected(end_for(config.error(), err));
  for (const std::string& warning : config->warnings) err << "warning: " << warning << '\n';
  return *std::move(config);
}

}  // namespace turnstile::gateway
