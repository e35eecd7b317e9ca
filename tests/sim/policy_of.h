// policy_of.h: the policy of a text that a test wrote, which must be one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policy/policy_file.h"

namespace turnstile::policy::sim {

// nullptr, with a failure for each error, when the text is no policy.
inline std::shared_ptr<const PolicySet> policy_of(const std::string& text) {
  PolicyFileInput input;
  input.text = text;
  input.file_name = "test.toml";
  input.revision = "r1-00000000";
  const PolicyFileResult result = read_policy(input);
  for (const PolicyFileNote& note : result.errors) ADD_FAILURE() << format_error(note);
  return result.policy;
}

}  // namespace turnstile::policy::sim
