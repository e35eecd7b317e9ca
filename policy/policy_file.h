// policy_file.h: reads the text of policies.toml into a PolicySet.
//
// Reads text, not files: the caller has the bytes and the name to show. Either the whole file is
// good and there is a snapshot, or there are errors and there is none: a policy is never applied in
// part. All errors are found in one pass (TOML syntax errors end the pass, since the rest of the
// text has no meaning after one).
//
// A key that the interface lists but this build does not enforce is an error that says so: a limit
// that is accepted and ignored would be worse than none. An unknown key is an error with the
// nearest known name.
//
// Cost:      milliseconds; called at start and by `policy check`, not on a request.
// Tests:     tests/policy/policy_file_test.cpp: a table of texts and the errors they give.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy_set.h"

namespace turnstile::policy {

inline constexpr std::size_t kMaxPolicyFileBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxPolicyErrors = 100;  // a broken file needs no longer list

struct PolicyFileNote {
  std::string file;
  std::int64_t line = 0;    // from 1
  std::int64_t column = 0;  // from 1, in characters
  std::string message;      // one sentence
};

// "FILE:LINE:COL: error: sentence", and the same with "warning".
std::string format_error(const PolicyFileNote& note);
std::string format_warning(const PolicyFileNote& note);

struct PolicyFileResult {
  std::shared_ptr<const PolicySet> policy;  // null exactly when there are errors
  std::vector<PolicyFileNote> errors;       // in the order of the text
  std::vector<PolicyFileNote> warnings;     // in the order of the text
};

struct PolicyFileInput {
  std::string_view text;
  std::string_view file_name;  // shown in errors
  std::string_view revision;   // stored in the snapshot, see revision_text()
  // Names of the engines that exist; `serves` must name one of them. Absent: not checked (`policy
  // check` does not know the machine).
  std::optional<std::vector<std::string>> engine_models;
};

PolicyFileResult read_policy(const PolicyFileInput& input);

}  // namespace turnstile::policy
