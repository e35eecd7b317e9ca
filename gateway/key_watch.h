// key_watch.h: keys.toml is looked at once a second, and what changed reaches policy and records.
//
//   changed file --> KeyStore --> Admission::set_keys --> audit (`key`), events.jsonl, metrics
//
// A file with errors changes nothing: the keys read before stay, and the error is logged once.
//
// Thread: I/O. Tests: tests/e2e changes the file of a running server.
#pragma once

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
  void note(std::string_view change, const policy::KeyNode& key);

  SpineContext& context_;
  EventLog& events_;
  std::vector<policy::KeyNode> known_;
};

}  // namespace turnstile::gateway
