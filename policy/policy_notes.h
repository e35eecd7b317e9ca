// policy_notes.h: collects errors and warnings while a policy file is read.
//
// Reading goes on after an error, so that one run shows all of them. Also knows what to say about a
// key that has no reader: unknown (with the nearest known name), or part of the policy language and
// not enforced by this build.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_document.h"
#include "policy/policy_file.h"

namespace turnstile::policy {

class PolicyNotes {
 public:
  explicit PolicyNotes(std::string_view file) : file_(file) {}

  void error(Position at, std::string message);
  void warning(Position at, std::string message);

  // `path` is the table the key stands in, such as "teams.lab"; empty for the root. `home`: the
  // tables in which it would be a key, when it is one of others.
  void unread_key(const DocumentValue::Member& member, std::string_view path,
                  std::span<const std::string_view> known, std::span<const std::string_view> later,
                  std::string_view home = {});

  bool has_errors() const { return !errors_.empty(); }
  bool has_error_at(Position at) const;  // of a value: it could not be read
  // Sorted by position; at most kMaxPolicyErrors of each, with a last note that says how many more.
  std::vector<PolicyFileNote> take_errors();
  std::vector<PolicyFileNote> take_warnings();

 private:
  std::vector<PolicyFileNote> take(std::vector<PolicyFileNote>& notes) const;

  std::string file_;
  std::vector<PolicyFileNote> errors_;
  std::vector<PolicyFileNote> warnings_;
};

// "teams.lab" + "inflight" -> "teams.lab.inflight".
std::string dotted(std::string_view path, std::string_view name);

// "; did you mean \"NAME\"?" with the nearest of `known`, or nothing when none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace turnstile::policy
