// turnstile policy check FILE
#include <ostream>

#include "gateway/verbs/run.h"
#include "gateway/whole_file.h"
#include "policy/plain_text.h"
#include "policy/policy_file.h"

namespace turnstile::gateway {

ExitCode run(const PolicyCheckOptions& options, Surroundings around) {
  const auto text = read_whole_file(options.file);
  if (!text) {
    around.err << text.error() << '\n';
    return ExitCode::Environment;
  }
  const std::string name = options.file.string();
  const policy::PolicyFileResult result = policy::read_policy({*text, name, "r0-00000000", {}});
  for (const auto& error : result.errors) around.err << policy::format_error(error) << '\n';
  for (const auto& warning : result.warnings) around.err << policy::format_warning(warning) << '\n';
  if (result.policy == nullptr) return ExitCode::No;
  around.out << policy::plain_text(name) << ": " << result.policy->departments.size()
             << " departments, " << result.policy->teams.size() << " teams, "
             << result.policy->classes.size() << " classes, no errors\n";
  return ExitCode::Done;
}

}  // namespace turnstile::gateway
