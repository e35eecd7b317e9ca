// turnstile init DIR: a configuration that works, and one key.
#include <cassert>
#include <chrono>
#include <ostream>
#include <system_error>
#include <vector>

#include "gateway/config/config_values.h"
#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"
#include "gateway/verbs/run.h"
#include "gateway/whole_file.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigText = R"(# turnstile.toml: the machine. 'turnstile serve --check' shows every setting and where it is from.
# Relative paths are relative to this file.

[server]
listen = "127.0.0.1:8000"          # /v1/*, /tokenize, /detokenize, /health
admin_listen = "127.0.0.1:8001"    # /metrics, /admin/drain, /health
state_dir = "state"                # audit/, requests.jsonl, events.jsonl
admin_key_file = "admin.key"       # the bearer that POST /admin/drain needs

[policy]
file = "policies.toml"
keys = "keys.toml"
pepper = "pepper"

[audit]
mode = "async"                     # written at once, synced each second
)";

constexpr std::string_view kPolicyText = R"(# policies.toml: who may use the model, and how much. Holds no secret.
# 'turnstile policy check policies.toml' reports every mistake with its line.

schema = 1

[depts.main]

[teams.lab]
dept = "main"
)";

constexpr std::string_view kKeysHead =
    "# keys.toml: written by 'turnstile keys'; holds hashes, never a secret. Read again on change.\n";

// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string config_text(const InitOptions& options) {
  std::string text(kConfigText);
  if (options.model) {
    const fs::path path = fs::absolute(*options.model).lexically_normal();
    const std::string name = path.stem().string();
    text +=
        "\n[[models]]\nname = " + quoted(name.size() <= kMaxModelNameBytes ? name : "model") +
        "\npath = " + quoted(path.string()) +
        "\n# kv_cache_memory_bytes = \"512MiB\"  # left out: half of the memory that is left"
        "\n# kv_cache_dtype = \"f16\"            # \"int8\" holds up to 1.9 times as many tokens\n";
  }
  return text;
}

struct NewFile {
  const char* name;
  std::string text;
  unsigned mode;
};

// Takes away what was made, unless all of it was.
class MadeFiles {
 public:
  ~MadeFiles() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
  }
  void add(fs::path path) { paths_.push_back(std::move(path)); }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

}  // namespace

ExitCode run(const InitOptions& options, Surroundings around) {
  std::error_code error;
  if (options.model && !fs::is_regular_file(*options.model, error)) {
    around.err << "--model: " << policy::plain_text(options.model->string())
               << " is not a file; give the path of a GGUF file.\n";
    return ExitCode::Environment;
  }
  const std::string pepper = random_base62(around.random, 64);
  const std::string secret = make_secret(around.random);
  KeyEntry entry;
  entry.node.id = "first";
  entry.node.team = "lab";
  entry.public_id = *public_id_of(secret);
  entry.hash = KeyHasher(pepper).hash(secret);
  entry.created = std::chrono::floor<std::chrono::microseconds>(around.clock.wall());
  const auto keys = with_key(kKeysHead, entry);
  assert(keys && "a new key file takes a key");

  const std::vector<NewFile> files{
      {"turnstile.toml", config_text(options), 0644},
      {"policies.toml", std::string(kPolicyText), 0644},
      {"keys.toml", *keys, 0600},
      {"pepper", pepper + "\n", 0600},
      {"admin.key", "adm_" + random_base62(around.random, 43) + "\n", 0600},
  };
  for (const NewFile& file : files) {
    const fs::path path = options.folder / file.name;
    if (!fs::exists(fs::symlink_status(path, error))) continue;
    around.err << policy::plain_text(path.string())
               << ": exists already and is not overwritten; choose another folder.\n";
    return ExitCode::No;
  }
  // A path that is not UTF-8 cannot stand in a TOML file.
  if (!read_config(files.front().text, options.folder / "turnstile.toml", {})) {
    around.err << "--model: the path holds control characters or is not UTF-8; rename it.\n";
    return ExitCode::Environment;
  }
  fs::create_directories(options.folder, error);
  if (error) {
    around.err << policy::plain_text(options.folder.string())
               << ": the folder cannot be made: " << error.message() << ".\n";
    return ExitCode::Environment;
  }
  MadeFiles made_files;
  for (const NewFile& file : files) {
    const auto made = create_file(options.folder / file.name, file.text, file.mode);
    if (!made) {
      around.err << made.error() << '\n';
      return ExitCode::Environment;
    }
    made_files.add(options.folder / file.name);
  }
  around.out << secret << std::endl;
  if (!around.out) {
    around.err << "The key could not be written to standard output, so no files were made.\n";
    return ExitCode::Environment;
  }
  made_files.keep();

  const std::string config = policy::plain_text((options.folder / "turnstile.toml").string());
  around.err << "Wrote " << config << ", policies.toml, keys.toml, pepper and admin.key.\n"
             << "The line above is the key 'first' of team 'lab'; it is not stored and not shown "
                "again.\nStart with: turnstile serve "
             << (options.model ? "" : "MODEL ") << "--config " << config << "\n";
  return ExitCode::Done;
}

}  // namespace turnstile::gateway
