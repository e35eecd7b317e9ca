// build_identity.h: what this binary was built from. The source is written by the build
// (gateway/build_identity.cpp.in).
#pragma once

#include <string_view>

namespace turnstile::gateway {

std::string_view build_version();  // of the project, "0.1.0"
std::string_view build_commit();   // "0123456789ab", or "unknown" outside a repository

}  // namespace turnstile::gateway
