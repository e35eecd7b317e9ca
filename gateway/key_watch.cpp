#include "gateway/key_watch.h"

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/log.h"

namespace turnstile::gateway {
namespace {

// Ten thousand keys may change at once, so none is looked for by going through all.
using KeysById = std::unordered_map<std::string_view, const policy::KeyNode*>;

KeysById by_id(const std::vector<policy::KeyNode>& keys) {
  KeysById found;
  found.reserve(keys.size());
  for (const policy::KeyNode& key : keys) found.emplace(key.id, &key);
  return found;
}

}  // namespace

KeyWatch::KeyWatch(SpineContext& context, EventLog& events) : context_(context), events_(events) {
  known_ = context_.keys.nodes();
  apply();
}

void KeyWatch::tick() {
  switch (context_.keys.reload_if_changed()) {
    case KeyReload::Unchanged: return;
    case KeyReload::Rejected:
      for (const ConfigError& error : context_.keys.reload_errors()) {
        log_warning(to_string(error) + " The keys read before stay in use.");
      }
      context_.metrics.on_key_reload("rejected");
      events_.write("keys_rejected", "file", {});
      return;
    case KeyReload::Applied: break;
  }
  const std::vector<policy::KeyNode> before =
      std::exchange(known_, context_.keys.nodes());
  const KeysById old_keys = by_id(before);
  for (const policy::KeyNode& key : known_) {
    const auto old = old_keys.find(key.id);
    if (old == old_keys.end()) {
      note("added", key);
    } else if (key.disabled && !old->second->disabled) {
      note("revoked", key);
    } else if (!(key == *old->second)) {
      note("changed", key);
    }
  }
  const KeysById new_keys = by_id(known_);
  for (const policy::KeyNode& key : before) {
    if (!new_keys.contains(key.id)) note("removed", key);
  }
  context_.metrics.on_key_reload("applied");
  apply();
  context_.live.revoke_keys([this](std::string_view key_id) {
    return context_.keys.revoked(key_id) == OnRevoke::Cancel;
  });
}

void KeyWatch::apply() {
  for (const policy::KeyProblem& problem :
       context_.admission.set_keys(context_.clock.now(), known_)) {
    log_warning("key " + problem.key_id + ": " + problem.what);
    const std::pair<std::string_view, std::string> fields[] = {{"key_id", problem.key_id},
                                                               {"problem", problem.what}};
    events_.write("key_problem", "file", fields);
  }
}

void KeyWatch::note(std::string_view change, const policy::KeyNode& key) {
  context_.audit.key(key.id, key.team, change);
  const std::pair<std::string_view, std::string> fields[] = {
      {"key_id", key.id}, {"team", key.team}, {"change", std::string(change)}};
  events_.write("key", "file", fields);
}

}  // namespace turnstile::gateway
