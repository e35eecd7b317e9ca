// cache_salt.h: who may share cached prefixes with whom.
//
// Sequences share KV blocks only under one salt. It is a hash of the team and of the client's
// `cache_salt`, so a team never sees by its speed what another has asked, and inside a team clients
// can keep apart.
//
// Thread: any; a pure function. Cost: one SHA-256, below 1 us.
// Tests:  tests/gateway/spine_parts_test.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/request.h"

namespace turnstile::gateway {

engine::CacheSalt cache_salt(std::string_view team, const std::optional<std::string>& client_salt);

}  // namespace turnstile::gateway
