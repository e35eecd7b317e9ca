// cache_salt.h: who may share cached prefixes with whom.
//
// Sequences share KV blocks only under one salt. It is a hash of the team and of the client's
// `cache_salt`, so a team never sees by its speed what another has asked, and inside a team clients
// can keep apart.
//
// The salt follows from its two texts alone; the object only keeps what hashing needs.
//
// Thread: I/O. Cost: one SHA-256 of a few dozen bytes, no allocation.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

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
  Sha256 sha256_;
  std::string text_;  // reused
};

}  // namespace turnstile::gateway
