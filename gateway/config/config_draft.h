// config_draft.h: a Config while it is being read, with the place of each setting for errors.
//
//   read_file() --> apply_overrides() --> check()
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.h"

namespace turnstile::gateway {

struct ConfigDraft {
  Config config;
  std::string file_name;
  std::map<std::string, ConfigError, std::less<>> places;  // key -> error without a message
  std::vector<ConfigError> errors;

  // Reports "KEY sentence" at the place of the key, or at the file as a whole.
  void fail(std::string_view key, std::string_view sentence);
};

void read_file(std::string_view text, ConfigDraft& draft);
void apply_overrides(const CommandLineOverrides& overrides, ConfigDraft& draft);

// What holds between settings. Errors name the setting that the user most likely wants to change.
void check(ConfigDraft& draft);

}  // namespace turnstile::gateway
