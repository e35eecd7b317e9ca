// resolution.h: which model and which class a request gets, and the limits of its path.
//
// Pure. The class is the lowest of what was asked for (or the default: key, team, department,
// model, then "interactive") and the maxima of key, team, department and model. Lowering is
// recorded, never refused; nothing here can raise a class.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "policy/facts.h"
#include "policy/principals.h"
#include "policy/verdict.h"

namespace turnstile::policy {

// The models of the policy that `engine_model` serves; without [models], the engine's own name.
std::vector<Model> served_models(const PolicySet& policy, const std::string& engine_model);

// True when key, team and department all allow the alias.
bool allows_model(const ConstPath& path, std::string_view alias);

// `key` is null for an unknown key. `models` as from served_models().
tl::expected<Resolved, Refusal> resolve_request(const PolicySet& policy,
                                                const std::vector<Model>& models,
                                                const Principals& principals, const KeyState* key,
                                                const Ask& ask);

// The class of a request that asks for none, also when the path may use nothing at present.
ClassIndex class_of_path(const PolicySet& policy, const std::vector<Model>& models,
                         const ConstPath& path);

// True while the key and everything above it is enabled.
bool path_enabled(const Principals& principals, const KeyState& key);

Refusal key_disabled();

}  // namespace turnstile::policy
