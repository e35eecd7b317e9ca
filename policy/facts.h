// facts.h: what policy is told about the machine and about one request.
//
// Plain values, filled by the gateway. Policy knows neither engine nor HTTP; everything it decides
// follows from these, the PolicySet, the keys and the time passed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/instant.h"
#include "policy/policy_set.h"
#include "policy/request_id.h"

namespace turnstile::policy {

// The engine, fixed while it runs.
struct EngineFacts {
  std::int64_t kv_blocks = 0;       // blocks of the KV cache that requests may hold
  std::int64_t block_tokens = 16;   // positions in a block
  std::int64_t sequence_slots = 0;  // sequences that may run at a time (max_num_seqs)
  std::int64_t max_model_len = 0;   // prompt + completion of one sequence, in tokens
  std::string model_name;           // what policies refer to with `serves`
};

// What a request asks for, before its prompt is known.
struct Ask {
  std::string_view key_id;
  std::optional<std::string_view> requested_class;  // a class name; absent: the default applies
  std::optional<std::string_view> model;            // an alias; absent: the first the key may use
  // The ticket it shows (ticket_book.h), by its id; zero: one that cannot be read.
  std::optional<RequestId> ticket = std::nullopt;
};

// A maximum that lowered the class of a request.
struct ClassClamp {
  std::string requested;  // class name asked for (or given by default)
  std::string effective;  // class name it got
  std::string by;         // "key/anna", "team/lab", "dept/physics" or "model/chat"
};

// The request with key, class and model looked up. A value: it stays usable while keys are reread;
// when its key is gone by the time it is used, the answer is a refusal.
struct Resolved {
  std::uint64_t key_handle = 0;  // names the key's state; never reused
  ClassIndex class_index = 0;
  std::size_t model_index = 0;   // among the models that the engine serves

  std::string key_id;
  std::string team;
  std::string department;
  std::string class_name;       // effective class
  std::string requested_class;  // the class asked for; empty when the request named none
  std::optional<ClassClamp> clamp;
  std::string model_alias;  // as the client may name it; echoed in answers
  std::string serves;       // the engine's name
  std::string revision;     // of the policy that decided

  Timeouts timeouts;
  std::optional<RequestId> ticket;  // as shown, not yet looked up

  // The limit and, for the message, whose it is ("team/lab"). The smallest of the path.
  struct TokenLimit {
    std::int64_t tokens = 0;
    std::string scope;
  };
  std::optional<TokenLimit> max_input;
  std::optional<TokenLimit> max_output;
  std::optional<std::int64_t> default_max_tokens;
};

// The sizes of a request, exact, known after tokenizing.
struct TokenFacts {
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> max_tokens;  // per choice, as the client asked; absent: not given
  // What the route puts in place of an absent max_tokens (completions: 16); absent: nothing.
  std::optional<std::int64_t> route_default_max_tokens;
  std::int64_t choices = 1;  // n, times the number of prompts
  // How long after its arrival the client still wants the first token; absent: its class decides.
  std::optional<Duration> client_deadline;
  // Of the prompt, what the cache was seen to hold: a hint. What was really shared settles it.
  std::int64_t cached_prompt_tokens = 0;
  // Of the longest prompt, when a request brings several; 0: it brings one.
  std::int64_t longest_prompt_tokens = 0;
};

}  // namespace turnstile::policy
