// config_of_verb.h: the configuration that a verb works with, errors already printed.
#pragma once

#include <filesystem>
#include <optional>
#include <ostream>

#include <tl/expected.hpp>

#include "gateway/config/config.h"
#include "gateway/exit_code.h"

namespace turnstile::gateway {

// Finds the file (--config, else the default places) and loads it.
tl::expected<Config, ExitCode> config_of_verb(const std::optional<std::filesystem::path>& given,
                                              const CommandLineOverrides& overrides,
                                              std::ostream& err);

}  // namespace turnstile::gateway
