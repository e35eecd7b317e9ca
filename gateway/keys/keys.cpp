#include "gateway/keys/keys.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "gateway/keys/key_files.h"
#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"

namespace turnstile::gateway {
namespace {

namespace fs = std::filesystem;

ConfigFailure environment_failure(const fs::path& file, std::string message) {
  return {true, {{file.string(), 0, 0, std::move(message)}}};
}

// Hashed in place of a text that has not the form of a key, so that it costs the same.
constexpr std::string_view kDummySecret = "gw_00000000_00000000000000000000000000000000000000";
static_assert(kDummySecret.size() == kSecretChars);

}  // namespace

struct KeyStore::State {
  explicit State(std::string_view pepper) : hasher(pepper) {}

  KeyHasher hasher;
  std::vector<KeyEntry> entries;
  std::uint64_t generation = 0;  // counts set_entries()
  std::unordered_map<std::string_view, std::size_t> by_public_id;  // views into entries
  std::unordered_map<std::string_view, std::size_t> by_id;
  fs::path file;  // empty: made from text
  std::optional<FileVersion> tried;  // that was last read, or could not be
  bool is_being_written = false;     // at the last look; it may be done by now
  std::string unread_because;        // not empty: `tried` could not be read
  std::vector<ConfigError> errors;

  // The entry of this secret.
  std::optional<std::size_t> find(std::string_view secret);

  void set_entries(std::vector<KeyEntry> read) {
    by_public_id.clear();
    by_id.clear();
    entries = std::move(read);
    ++generation;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      by_public_id.emplace(entries[i].public_id, i);
      by_id.emplace(entries[i].node.id, i);
    }
  }
};

// The same work for malformed, unknown and wrong keys.
std::optional<std::size_t> KeyStore::State::find(std::string_view secret) {
  const auto public_id = public_id_of(secret);
  const auto found = public_id ? by_public_id.find(*public_id) : by_public_id.end();
  const bool is_listed = found != by_public_id.end();
  static constexpr KeyHash kNoHash{};
  const KeyHash hash = hasher.hash(public_id ? secret : kDummySecret);
  const bool is_equal =
      equal_in_constant_time(hash, is_listed ? entries[found->second].hash : kNoHash);
  if (!is_listed || !is_equal) return std::nullopt;
  return found->second;
}

KeyStore::KeyStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
KeyStore::~KeyStore() = default;
KeyStore::KeyStore(KeyStore&&) noexcept = default;
KeyStore& KeyStore::operator=(KeyStore&&) noexcept = default;

tl::expected<KeyStore, ConfigFailure> KeyStore::from_text(std::string_view keys_toml,
                                                          std::string_view pepper) {
  auto entries = read_keys(keys_toml, "keys.toml");
  if (!entries) return tl::unexpected(ConfigFailure{false, std::move(entries).error()});
  auto state = std::make_unique<State>(pepper);
  state->set_entries(*std::move(entries));
  return KeyStore(std::move(state));
}

tl::expected<KeyStore, ConfigFailure> KeyStore::load(const fs::path& keys_file,
                                                     const fs::path& pepper_file) {
  constexpr std::string_view kRemedy = " 'turnstile init DIR' makes keys.toml and pepper.";
  auto pepper = read_secret_file(pepper_file, "pepper");
  if (!pepper) return tl::unexpected(environment_failure(pepper_file, pepper.error()));
  KeyFileReading read = read_key_file(keys_file);
  if (!read.failure.empty()) {
    if (!read.version) read.failure += kRemedy;
    return tl::unexpected(environment_failure(keys_file, std::move(read.failure)));
  }
  auto& [entries, errors, repeats] = read.keys;
  if (!errors.empty()) return tl::unexpected(ConfigFailure{false, std::move(errors)});
  auto state = std::make_unique<State>(*pepper);
  state->set_entries(std::move(entries));
  state->file = keys_file;
  state->tried = read.version;
  return KeyStore(std::move(state));
}

std::optional<std::string_view> bearer_credentials(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != kScheme[i]) return std::nullopt;
  }
  return authorization.substr(kScheme.size());
}

tl::expected<Principal, AuthError> KeyStore::authenticate(std::string_view authorization,
                                                          WallTime now, KnownKey& known) const {
  const bool is_known = known.generation == state_->generation &&
                        known.authorization.size() == authorization.size() &&
                        equal_in_constant_time(known.authorization, authorization);
  if (!is_known) {
    const auto secret = bearer_credentials(authorization);
    if (!secret) return tl::unexpected(AuthError{AuthFailure::Missing, {}});
    const auto index = state_->find(*secret);
    if (!index) return tl::unexpected(AuthError{AuthFailure::Invalid, {}});
    known = {std::string(authorization), state_->generation, *index};
  }
  const KeyEntry& entry = state_->entries[known.index];
  Principal principal{entry.node.id, entry.node.team, known.index};
  if (!entry.is_in_use()) {
    return tl::unexpected(AuthError{AuthFailure::Disabled, std::move(principal)});
  }
  if (entry.expires && now >= *entry.expires) {
    return tl::unexpected(AuthError{AuthFailure::Expired, std::move(principal)});
  }
  return principal;
}

bool KeyStore::is_due() {
  if (state_->file.empty()) return false;
  const bool is_other = version_of(state_->file) != state_->tried;
  const bool was_being_written = std::exchange(state_->is_being_written, is_other);
  if (!is_other) return !state_->unread_because.empty();
  if (was_being_written) state_->is_being_written = false;
  return was_being_written;
}

KeyReload KeyStore::take(KeyFileReading read) {
  state_->tried = read.version;
  const std::string unread_before = std::exchange(state_->unread_because, read.failure);
  if (!read.failure.empty()) {
    if (read.failure == unread_before) return KeyReload::Unchanged;
    state_->errors = {{state_->file.string(), 0, 0, std::move(read.failure)}};
    return KeyReload::Rejected;
  }
  auto& [entries, errors, repeats] = read.keys;
  if (entries.empty() && errors.empty() && !state_->entries.empty()) {
    errors.push_back({state_->file.string(), 0, 0,
                      "there is no key left in the file; to close all keys, revoke or disable "
                      "them."});
  }
  state_->errors = std::move(errors);
  if (!state_->errors.empty() && entries.empty()) return KeyReload::Rejected;
  state_->set_entries(std::move(entries));
  return state_->errors.empty() ? KeyReload::Applied : KeyReload::Partial;
}

KeyReload KeyStore::reload_if_changed() {
  return is_due() ? take(read_key_file(state_->file)) : KeyReload::Unchanged;
}

const std::vector<ConfigError>& KeyStore::reload_errors() const { return state_->errors; }

std::vector<policy::KeyNode> KeyStore::nodes() const {
  std::vector<policy::KeyNode> nodes;
  nodes.reserve(state_->entries.size());
  for (const KeyEntry& entry : state_->entries) {
    nodes.push_back(entry.node);
    nodes.back().disabled = !entry.is_in_use();
  }
  return nodes;
}

bool KeyStore::is_wrong(std::string_view key_id) const {
  const auto found = state_->by_id.find(key_id);
  return found != state_->by_id.end() && state_->entries[found->second].is_wrong;
}

std::optional<OnRevoke> KeyStore::revoked(std::string_view key_id) const {
  const auto found = state_->by_id.find(key_id);
  if (found == state_->by_id.end()) return OnRevoke::Finish;
  const KeyEntry& entry = state_->entries[found->second];
  if (entry.is_in_use()) return std::nullopt;
  return entry.on_revoke;
}

std::size_t KeyStore::size() const { return state_->entries.size(); }

}  // namespace turnstile::gateway
