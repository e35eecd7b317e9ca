#include "gateway/key_watch.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/log.h"

namespace turnstile::gateway {
namespace {

constexpr std::size_t kErrorsLogged = 20;

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
  show_errors(0);
}

void KeyWatch::tick() {
  const KeyReload reload = context_.keys.reload_if_changed();
  if (reload == KeyReload::Unchanged) return;
  if (reload == KeyReload::Rejected) {
    show_errors(context_.keys.reload_errors().size() + wrong_entries_);
    context_.metrics.on_key_reload("rejected");
    return report_errors("keys_rejected", " The keys read before stay in use.");
  }
  if (reload == KeyReload::Partial) {
    report_errors("keys_partly_rejected", " This entry is closed, the others are in force.");
  }
  const std::vector<policy::KeyNode> before =
      std::exchange(known_, context_.keys.nodes());
  const std::set<std::string> closed_before = std::exchange(closed_, {});
  apply();
  wrong_entries_ = context_.keys.reload_errors().size();
  show_errors(wrong_entries_);
  const KeysById old_keys = by_id(before);
  for (const policy::KeyNode& key : known_) {
    const auto old = old_keys.find(key.id);
    if (old == old_keys.end()) {
      note("added", key);
    } else if (key.disabled && !old->second->disabled && !context_.keys.is_wrong(key.id)) {
      note("revoked", key);  // also one that the policy had closed
    } else if ((key.disabled || closed_.contains(key.id)) && !old->second->disabled &&
               !closed_before.contains(key.id)) {
      note("closed", key);
    } else if (!(key == *old->second)) {
      note("changed", key);
    }
  }
  const KeysById new_keys = by_id(known_);
  for (const policy::KeyNode& key : before) {
    if (!new_keys.contains(key.id)) note("removed", key);
  }
  const bool is_whole = reload == KeyReload::Applied && closed_.empty();
  context_.metrics.on_key_reload(is_whole ? "applied" : "partial");
  context_.live.revoke_keys([this](std::string_view key_id) {
    return context_.keys.revoked(key_id) == OnRevoke::Cancel;
  });
}

void KeyWatch::report_errors(std::string_view event, std::string_view consequence) {
  const std::vector<ConfigError>& errors = context_.keys.reload_errors();
  for (std::size_t i = 0; i < errors.size() && i < kErrorsLogged; ++i) {
    log_warning(to_string(errors[i]) + std::string(consequence));
  }
  if (errors.size() > kErrorsLogged) {
    log_warning("the key file has " + std::to_string(errors.size() - kErrorsLogged) +
                " further errors");
  }
  const std::pair<std::string_view, std::string> fields[] = {
      {"errors", std::to_string(errors.size())}, {"first", to_string(errors.front())}};
  events_.write(event, "file", fields);
}

void KeyWatch::show_errors(std::size_t in_file) {
  context_.metrics.set_key_file_errors(in_file + closed_.size());
}

void KeyWatch::apply() {
  const KeysById keys = by_id(known_);
  std::size_t logged = 0;
  for (const policy::KeyProblem& problem :
       context_.admission.set_keys(context_.clock.now(), known_)) {
    // Of a key that is closed anyhow nobody has to know.
    if (keys.at(problem.key_id)->disabled) continue;
    closed_.insert(problem.key_id);
    if (++logged <= kErrorsLogged) log_warning("key " + problem.key_id + ": " + problem.what);
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
