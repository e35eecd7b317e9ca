// keys.h: API keys: who calls, and whether the key is good.
//
//   Authorization: Bearer gw_ + 8 public characters + _ + 32 random + 6 check characters
//                            |                            |
//                     finds the entry            the whole text through HMAC-SHA-256(pepper, .),
//                                                compared with the stored hash in constant time
//
// keys.toml holds ids, teams, limits and hashes, never a secret. The pepper is a separate 0600
// file: a stolen keys.toml alone cannot be tested against guesses. A malformed text and an unknown
// id cost the same HMAC and the same comparison as a known one, so that time tells nobody which ids
// exist.
//
// Thread:  I/O. Cost of authenticate(): one HMAC of 50 bytes, about 1 us; a comparison for
//          a key that the connection has shown before.
// Reload:  is_due() compares versions of the file (file_version.h). A file that has changed is read
//          at the next call, not at the one that sees it: who writes it in place may not be done,
//          and half of it would close keys, or open one whose `state` is still to come. One that
//          cannot be read is tried again at each call, for what hinders may pass and leave no
//          trace in the file. A mistake in an entry closes that key and no other; a file from
//          which no entry can be read, or that has none left, changes nothing.
// Errors:  ConfigError with file:line:col, all at once.
// Tests:   tests/gateway/keys_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/clock.h"
#include "gateway/config/config.h"
#include "gateway/file_version.h"
#include "policy/key_node.h"

namespace turnstile::gateway {

enum class OnRevoke : std::uint8_t { Finish, Cancel };

struct Principal {
  std::string key_id;  // the human name
  std::string team;
  std::size_t index = 0;  // of the entry in the file; changes with a reload
};

enum class AuthFailure : std::uint8_t {
  Missing,   // no Authorization header, or not "Bearer ..."
  Invalid,   // malformed, unknown or wrong
  Disabled,  // the right secret of a key that is disabled or revoked
  Expired    // the right secret of a key whose time is over
};

struct AuthError {
  AuthFailure why = AuthFailure::Missing;
  Principal principal;  // Disabled and Expired: whose key it is
};

// The last good key of a connection. The same bytes again, compared in constant time, need no
// second HMAC while the key file is the same; whether the key is in use is looked up each time.
struct KnownKey {
  std::string authorization;
  std::uint64_t generation = 0;  // of the entries it was found in; 0: none
  std::size_t index = 0;
};

enum class KeyReload : std::uint8_t {
  Unchanged,  // or seen to change just now, or as unreadable as before
  Applied,
  Partial,  // what could be read is in force; entries with a mistake are closed
  Rejected  // nothing could be read, or no key is left: the keys read before stay
};

// The credentials of "Bearer CREDENTIALS", the value of an Authorization header; nullopt for any
// other scheme.
std::optional<std::string_view> bearer_credentials(std::string_view authorization);

struct KeyFileReading;  // key_files.h

class KeyStore {
 public:
  // Reads both files. The failure says is_environment when one is missing or unreadable (or the
  // pepper is readable by others), and then names `turnstile init`.
  static tl::expected<KeyStore, ConfigFailure> load(const std::filesystem::path& keys_file,
                                                    const std::filesystem::path& pepper_file);

  // From values, for tests and simulation.
  static tl::expected<KeyStore, ConfigFailure> from_text(std::string_view keys_toml,
                                                         std::string_view pepper);
  ~KeyStore();
  KeyStore(KeyStore&&) noexcept;
  KeyStore& operator=(KeyStore&&) noexcept;

  // `authorization` is the header's value, empty when there was none. `known` belongs to the
  // connection and is brought up to date.
  tl::expected<Principal, AuthError> authenticate(std::string_view authorization, WallTime now,
                                                  KnownKey& known) const;
  tl::expected<Principal, AuthError> authenticate(std::string_view authorization,
                                                  WallTime now) const {
    KnownKey nobody;
    return authenticate(authorization, now, nobody);
  }

  // Whether the key file is to be read now. One stat().
  bool is_due();
  // What was read of it because it was due; read_key_file() may run on any thread. After Partial
  // and Rejected reload_errors() says why.
  KeyReload take(KeyFileReading read);
  // Both, at once.
  KeyReload reload_if_changed();
  const std::vector<ConfigError>& reload_errors() const;

  // For Admission::set_keys. A revoked key is listed as disabled.
  std::vector<policy::KeyNode> nodes() const;

  // Whether its entry is closed because of a mistake in it.
  bool is_wrong(std::string_view key_id) const;

  // What happens to the running requests of a key that is disabled, revoked or gone.
  // Absent: the key is in use.
  std::optional<OnRevoke> revoked(std::string_view key_id) const;

  std::size_t size() const;

 private:
  struct State;
  explicit KeyStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace turnstile::gateway
