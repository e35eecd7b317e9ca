// key_watch.h: keys.toml is looked at twice a second, and what changed reaches policy and records.
//
//   changed file --> KeyStore --> Admission::set_keys --> audit (`key`), events.jsonl, metrics
//
// The look after the one that sees a change reads the file (keys/keys.h), so within a second.
//
// An entry with a mistake, or with a team, class or model that the policy does not know, closes its
// key and no other; a file from which nothing can be read, or that has no key left, changes
// nothing. Errors are logged once, an event says how many, and turnstile_key_file_errors shows them
// until they are mended. /readyz stays: other keys are served.
//
// Thread: I/O. Tests: tests/e2e changes the file of a running server.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "gateway/records/records.h"
#include "gateway/spine_context.h"
#include "policy/key_node.h"

namespace turnstile::gateway {

class KeyWatch {
 public:
  // Hands the keys as they are now to admission.
  KeyWatch(SpineContext& context, EventLog& events);

  void tick();

 private:
  void apply();
  // `in_file`: of entries; those of the policy come on top.
  void show_errors(std::size_t in_file);
  void report_errors(std::string_view event, std::string_view consequence);
  void note(std::string_view change, const policy::KeyNode& key);

  SpineContext& context_;
  EventLog& events_;
  std::vector<policy::KeyNode> known_;
  std::size_t wrong_entries_ = 0;  // in the keys in force
  std::set<std::string> closed_;  // those in use but for what the policy does not know of them
};

}  // namespace turnstile::gateway
