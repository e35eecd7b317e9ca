#include "gateway/key_watch.h"

#include <algorithm>
#include <utility>

#include "gateway/log.h"

namespace turnstile::gateway {
namespace {

const policy::KeyNode* find(const std::vector<policy::KeyNode>& keys, std::string_view id) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [id](const policy::KeyNode& key) { return key.id == id; });
  return found == keys.end() ? nullptr : &*found;
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
        log_warning(to_string(error) + "; the keys read before stay in use");
      }
      context_.metrics.on_key_reload("rejected");
      events_.write("keys_rejected", "file", {});
      return;
    case KeyReload::Applied: break;
  }
  const std::vector<policy::KeyNode> before =
      std::exchange(known_, context_.keys.nodes());
  for (const policy::KeyNode& key : known_) {
    const policy::KeyNode* old = find(before, key.id);
    if (old == nullptr) {
      note("added", key);
    } else if (key.disabled && !old->disabled) {
      note("revoked", key);
    } else if (!(key == *old)) {
      note("changed", key);
    }
  }
  for (const policy::KeyNode& key : before) {
    if (find(known_, key.id) == nullptr) note("removed", key);
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
