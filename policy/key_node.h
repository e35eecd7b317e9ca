// key_node.h: what keys.toml says about one key besides its secret.
//
// The gateway reads keys.toml (hash, expiry and revocation are its business) and hands these values
// to Admission::set_keys. Names of teams, classes and models are text here and are looked up there,
// because the policy file may not know them. Every optional that is absent means "no limit of the
// key's own": the team's and the department's hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace turnstile::policy {

struct KeyNode {
  std::string id;    // the human name, `key_id` in records; unique
  std::string team;  // name of a [teams.*] table

  std::int64_t weight = 1;  // share among the keys of the team, >= 1

  std::optional<std::int64_t> inflight;             // running requests
  std::optional<std::int64_t> queue_requests;       // waiting requests; 0 = never wait
  std::optional<std::int64_t> requests_per_minute;  // 0 = none at all
  std::optional<std::int64_t> tokens_per_minute;    // prompt + generated; 0 = none at all

  std::optional<std::string> max_class;      // the highest class the key may use
  std::optional<std::string> default_class;  // when the request names none
  std::optional<std::vector<std::string>> models;  // aliases; absent = all of the team's

  std::optional<std::int64_t> max_input_tokens;
  std::optional<std::int64_t> max_output_tokens;

  bool disabled = false;  // requests get 403 key_disabled; those that wait are refused

  friend bool operator==(const KeyNode&, const KeyNode&) = default;
};

}  // namespace turnstile::policy
