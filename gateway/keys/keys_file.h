// keys_file.h: the text of keys.toml as values, and edits of it.
//
//   [[keys]]
//   id = "anna"                        human name, `key_id` in records, unique
//   public = "a1B2c3D4"                8 characters of the secret, unique
//   team = "lab"
//   hash = "hmac-sha256:..."
//   created = "2026-08-25T09:15:03.000123Z"
//   expires = "2027-02-21"             optional; also a TOML date
//   state = "active"                   active | revoked
//   on_revoke = "finish"               finish | cancel: what happens to running requests
//   ... limits of the key: interface.md 3, the keys marked k
//
// Edits change only their own lines: comments and order stay. After an edit the text is read again
// and must hold exactly the intended entries, otherwise the edit fails and changes nothing.
//
// A mistake in an entry is the mistake of that entry: what can be read besides is read. Who revokes
// a key must not be kept from it by a typo elsewhere, and who may be meant to be closed is closed.
//
// Thread: any; pure functions of text. Errors: all at once, as file:line:col.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/clock.h"
#include "gateway/config/config.h"
#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys.h"
#include "policy/key_node.h"

namespace turnstile::gateway {

inline constexpr std::size_t kMaxKeys = 10'000;

enum class KeyState : std::uint8_t { Active, Revoked };

struct KeyEntry {
  policy::KeyNode node;  // id, team, limits; `disabled` as written
  std::string public_id;
  KeyHash hash{};
  std::optional<WallTime> created;
  std::optional<WallTime> expires;
  KeyState state = KeyState::Active;
  OnRevoke on_revoke = OnRevoke::Finish;
  std::uint32_t line = 0;  // of its [[keys]]
  bool is_wrong = false;   // there is an error in it, or its id or public part is used twice

  bool is_in_use() const { return state == KeyState::Active && !node.disabled && !is_wrong; }
};

struct KeysReading {
  std::vector<KeyEntry> entries;    // those with a good id, each id once, wrong ones too
  std::vector<ConfigError> errors;  // in the order of the text; empty: every entry is right
  std::vector<KeyEntry> repeats;    // further ones with an id of `entries`
};
KeysReading read_legible_keys(std::string_view text, const std::string& file);

// All or nothing: for a start, and for an edit that adds.
tl::expected<std::vector<KeyEntry>, std::vector<ConfigError>> read_keys(std::string_view text,
                                                                        const std::string& file);

// The name of a key or team: 1 to 64 of A-Z a-z 0-9 . _ -
bool is_good_name(std::string_view name);

// The text with one more entry at the end; only the fields that keys create can set are written.
tl::expected<std::string, std::string> with_key(std::string_view text, const KeyEntry& entry);

// The text with state = "revoked" for this id, wherever it stands, and on_revoke = "cancel" when
// `cancel` is set, whatever is wrong elsewhere in it.
tl::expected<std::string, std::string> with_revoked(std::string_view text, std::string_view id,
                                                    bool cancel);

}  // namespace turnstile::gateway
