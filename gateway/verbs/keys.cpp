// turnstile keys create | list | revoke
#include "gateway/keys/keys.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <map>
#include <ostream>
#include <vector>

#include "gateway/config/suggestion.h"
#include "gateway/keys/key_files.h"
#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"
#include "gateway/timestamp.h"
#include "gateway/verbs/config_of_verb.h"
#include "gateway/verbs/run.h"
#include "gateway/whole_file.h"
#include "policy/admission.h"
#include "policy/plain_text.h"
#include "policy/policy_file.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::days kDefaultLifetime{180};

ExitCode fail(std::ostream& err, ExitCode code, std::string_view sentence) {
  err << sentence << '\n';
  return code;
}

std::string name_of(const fs::path& path) { return policy::plain_text(path.string()); }

std::string init_remedy(const fs::path& keys) {
  return version_of(keys) ? "" : " 'turnstile init DIR' makes keys.toml and pepper.";
}

tl::expected<std::shared_ptr<const policy::PolicySet>, ExitCode> read_policy_of(
    const Config& config, std::ostream& err) {
  const auto text = read_whole_file(config.policy.file);
  if (!text) return tl::unexpected(fail(err, ExitCode::Environment, text.error()));
  const std::string name = config.policy.file.string();
  policy::PolicyFileResult result = policy::read_policy({*text, name, "r0-00000000", {}});
  for (const auto& error : result.errors) err << policy::format_error(error) << '\n';
  if (result.policy == nullptr) return tl::unexpected(ExitCode::No);
  return result.policy;
}

// Team and class must exist: a key that nobody can use is found here, not by its user.
bool exists_in(const policy::PolicySet& policy, const KeysCreateOptions& options,
               std::ostream& err) {
  bool ok = true;
  if (policy.find_team(options.team) == nullptr) {
    std::vector<std::string_view> teams;
    for (const policy::Team& team : policy.teams) teams.push_back(team.name);
    err << "--team: the policy has no team '" << policy::plain_text(options.team) << "'"
        << suggestion(options.team, teams) << ".\n";
    ok = false;
  }
  if (options.max_class && !policy.find_class(*options.max_class)) {
    std::vector<std::string_view> classes;
    for (const policy::ClassRules& rules : policy.classes) classes.push_back(rules.name);
    err << "--max-class: the policy has no class '" << policy::plain_text(*options.max_class) << "'"
        << suggestion(*options.max_class, classes) << ".\n";
    ok = false;
  }
  return ok;
}

// As a server does; a key that is closed anyhow may name what it likes.
void close_what_policy_does_not_know(const policy::PolicySet& policy, const fs::path& file,
                                     std::vector<KeyEntry>& entries,
                                     std::vector<ConfigError>& errors) {
  std::vector<policy::KeyNode> in_use;
  std::map<std::string_view, KeyEntry*> by_id;
  for (KeyEntry& entry : entries) {
    if (!entry.is_in_use()) continue;
    in_use.push_back(entry.node);
    by_id.emplace(entry.node.id, &entry);
  }
  for (const policy::KeyProblem& problem : policy::key_problems(policy, in_use)) {
    KeyEntry& entry = *by_id.at(problem.key_id);
    entry.is_wrong = true;
    errors.push_back({file.string(), entry.line, 1,
                      "key '" + problem.key_id + "' is closed: " + problem.what + "."});
  }
}

std::string date_or_dash(const std::optional<WallTime>& time) {
  return time ? timestamp(*time).substr(0, 10) : "-";
}

}  // namespace

ExitCode run(const KeysCreateOptions& options, Surroundings around) {
  const auto config = config_of_verb(options.config, {}, around.err);
  if (!config) return config.error();
  // One that begins with a dash is most likely a flag, and could hardly be named to `keys revoke`.
  if (!is_good_name(options.id) || options.id.starts_with('-')) {
    return fail(around.err, ExitCode::WrongUsage,
                "--id: must be 1 to 64 letters, digits, dots, dashes or underscores, and begin "
                "with no dash.");
  }
  KeyEntry entry;
  entry.node.id = options.id;
  entry.node.team = options.team;
  entry.node.max_class = options.max_class;
  entry.created = std::chrono::floor<std::chrono::microseconds>(around.clock.wall());
  if (!options.expires) {
    entry.expires = *entry.created + kDefaultLifetime;
  } else if (*options.expires != "never") {
    entry.expires = parse_timestamp(*options.expires);
    if (!entry.expires) {
      return fail(around.err, ExitCode::WrongUsage,
                  "--expires: must be a date such as 2027-02-21, or never.");
    }
    if (*entry.expires <= *entry.created) {
      return fail(around.err, ExitCode::WrongUsage,
                  "--expires: " + policy::plain_text(*options.expires) +
                      " is over; name a day to come, or never.");
    }
  }
  const auto policy = read_policy_of(*config, around.err);
  if (!policy) return policy.error();
  if (!exists_in(**policy, options, around.err)) return ExitCode::No;

  const auto pepper = read_secret_file(config->policy.pepper, "pepper");
  if (!pepper) {
    return fail(around.err, ExitCode::Environment,
                name_of(config->policy.pepper) + ": " + pepper.error());
  }
  const fs::path keys = real_path(config->policy.keys);
  const auto lock = FolderLock::take(keys.parent_path());
  if (!lock) return fail(around.err, ExitCode::Environment, lock.error());
  const auto text = read_whole_file(keys);
  if (!text) return fail(around.err, ExitCode::Environment, text.error() + init_remedy(keys));
  const std::string secret = make_secret(around.random);
  entry.public_id = *public_id_of(secret);
  entry.hash = KeyHasher(*pepper).hash(secret);
  const auto edited = with_key(*text, entry);
  if (!edited) return fail(around.err, ExitCode::No, name_of(keys) + ": " + edited.error());
  // The secret is nowhere else: it has to be out before the key is valid.
  auto replacement = Replacement::prepare(keys, *edited, 0600);
  if (!replacement) return fail(around.err, ExitCode::Environment, replacement.error());
  around.out << secret << std::endl;
  if (!around.out) {
    return fail(around.err, ExitCode::Environment,
                "The new key could not be written to standard output, so it was not made.");
  }
  if (const auto renamed = replacement->commit(); !renamed) {
    return fail(around.err, ExitCode::Environment,
                renamed.error() + " The line above is not a key.");
  }
  around.err << "Key '" << options.id << "' of team '" << options.team
             << "' is the line above; it is not stored and not shown again. It expires "
             << (entry.expires ? "on " + date_or_dash(entry.expires) : std::string("never"))
             << ".\n";
  return ExitCode::Done;
}

ExitCode run(const KeysListOptions& options, Surroundings around) {
  const auto config = config_of_verb(options.config, {}, around.err);
  if (!config) return config.error();
  const auto text = read_whole_file(config->policy.keys);
  if (!text) {
    return fail(around.err, ExitCode::Environment, text.error() + init_remedy(config->policy.keys));
  }
  auto [entries, errors, repeats] = read_legible_keys(*text, config->policy.keys.string());
  const auto policy = read_policy_of(*config, around.err);
  if (policy) close_what_policy_does_not_know(**policy, config->policy.keys, entries, errors);
  if (entries.empty() && errors.empty()) {
    around.err << name_of(config->policy.keys) << ": there is no key in it.\n";
  }
  std::size_t id_width = 4;
  std::size_t team_width = 6;
  for (const KeyEntry& entry : entries) {
    id_width = std::max(id_width, entry.node.id.size() + 2);
    team_width = std::max(team_width, entry.node.team.size() + 2);
  }
  const auto row = [&](std::string_view id, std::string_view team, std::string_view key,
                       std::string_view state, std::string_view created,
                       std::string_view expires) {
    around.out << std::left << std::setw(static_cast<int>(id_width)) << id
               << std::setw(static_cast<int>(team_width)) << team << std::setw(13) << key
               << std::setw(10) << state << std::setw(12) << created << expires << '\n';
  };
  row("id", "team", "key", "state", "created", "expires");
  for (const KeyEntry& entry : entries) {
    std::string_view state = "active";
    if (entry.expires && around.clock.wall() >= *entry.expires) state = "expired";
    if (entry.node.disabled) state = "disabled";
    if (entry.is_wrong) state = "wrong";
    if (entry.state == KeyState::Revoked) state = "revoked";
    row(entry.node.id, entry.node.team, "gw_" + entry.public_id, state,
        date_or_dash(entry.created), date_or_dash(entry.expires));
  }
  if (!policy) return policy.error();
  return errors.empty() ? ExitCode::Done : end_for({false, errors}, around.err);
}

ExitCode run(const KeysRevokeOptions& options, Surroundings around) {
  const auto config = config_of_verb(options.config, {}, around.err);
  if (!config) return config.error();
  const fs::path keys = real_path(config->policy.keys);
  const auto lock = FolderLock::take(keys.parent_path());
  if (!lock) return fail(around.err, ExitCode::Environment, lock.error());
  const auto text = read_whole_file(keys);
  if (!text) return fail(around.err, ExitCode::Environment, text.error() + init_remedy(keys));
  const auto edited = with_revoked(*text, options.id, options.now);
  if (!edited) return fail(around.err, ExitCode::No, name_of(keys) + ": " + edited.error());
  if (const auto written = replace_file(keys, *edited, 0600); !written) {
    return fail(around.err, ExitCode::Environment, written.error());
  }
  around.err << "Key '" << options.id << "' is revoked; a running server refuses it within a second"
             << (options.now ? " and cancels its requests" : "") << ".\n";
  // They stay closed until somebody mends them, and keep the next `serve` from starting.
  end_for({false, read_legible_keys(*edited, keys.string()).errors}, around.err);
  return ExitCode::Done;
}

}  // namespace turnstile::gateway
