// turnstile serve [MODEL]
#include "gateway/serve.h"

#include <ostream>

#include "gateway/verbs/config_of_verb.h"
#include "gateway/verbs/run.h"

namespace turnstile::gateway {

ExitCode run(const ServeOptions& options, Surroundings around) {
  const auto config = config_of_verb(options.config, options.overrides, around.err);
  if (!config) return config.error();
  if (options.check) return check_serve(*config, around);
  for (const EffectiveSetting& setting : effective(*config)) {
    around.err << setting.key << " = " << setting.value << "  (" << to_string(setting.origin)
               << ")\n";
  }
  return serve(*config, around);
}

}  // namespace turnstile::gateway
