#include "gateway/cache_salt.h"

#include <cstddef>

namespace turnstile::gateway {

engine::CacheSalt CacheSalts::of(std::string_view team,
                                 const std::optional<std::string>& client_salt) {
  if (client_salt) return hashed(team, client_salt);
  auto known = of_teams_.find(team);
  if (known == of_teams_.end()) known = of_teams_.emplace(team, hashed(team, {})).first;
  return known->second;
}

engine::CacheSalt CacheSalts::hashed(std::string_view team,
                                     const std::optional<std::string>& client_salt) {
  // Names of teams hold no zero byte; the second one tells an empty salt from none.
  text_ = team;
  text_ += '\0';
  if (client_salt) {
    text_ += '\0';
    text_ += *client_salt;
  }
  const Sha256Digest digest = sha256_.digest(text_);
  engine::CacheSalt salt;
  for (std::size_t i = 0; i < 8; ++i) {
    salt.high = salt.high << 8 | digest[i];
    salt.low = salt.low << 8 | digest[i + 8];
  }
  return salt;
}

}  // namespace turnstile::gateway
