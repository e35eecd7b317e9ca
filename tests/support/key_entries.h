// key_entries.h: entries of keys.toml for secrets of a test.
#pragma once

#include <string>
#include <string_view>

#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"

namespace turnstile::gateway {

inline constexpr std::string_view kPepper = "0123456789012345678901234567890123456789";

inline KeyEntry entry_for(const std::string& secret, const std::string& id) {
  KeyEntry entry;
  entry.node.id = id;
  entry.node.team = "lab";
  entry.public_id = *public_id_of(secret);
  entry.hash = KeyHasher(kPepper).hash(secret);
  return entry;
}

// A file with this key alone; `more` stands in its table.
inline std::string file_with(const std::string& secret, const std::string& id,
                             const std::string& more = {}) {
  return *with_key("", entry_for(secret, id)) + more;
}

}  // namespace turnstile::gateway
