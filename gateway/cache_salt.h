// cache_salt.h: who may share cached prefixes with whom.
//
// Sequences share KV blocks only under one salt. It is a hash of the team and of the client's
// `cache_salt`, so a team never sees by its speed what another has asked, and inside a team clients
// can keep apart.
//
// The salt follows from its two texts alone; the object keeps those of whole teams, as many as
// there are, because every request needs one.
//
// Thread: I/O. Cost: a look-up; with a salt of the client one SHA-256 of a few dozen bytes.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/request.h"
#include "gateway/records/sha256.h"

namespace turnstile::gateway {

class CacheSalts {
 public:
  engine::CacheSalt of(std::string_view team, const std::optional<std::string>& client_salt);

 private:
  engine::CacheSalt hashed(std::string_view team, const std::optional<std::string>& client_salt);

  std::map<std::string, engine::CacheSalt, std::less<>> of_teams_;
  Sha256 sha256_;
  std::string text_;  // reused
};

}  // namespace turnstile::gateway
