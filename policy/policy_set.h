// policy_set.h: one compiled policy, never changed after it is built.
//
// policies.toml becomes one PolicySet, or a list of errors (policy_file.h). A request keeps the
// snapshot under which it was admitted; node state (buckets, counters) lives outside, keyed by
// name. Names are resolved to indices here, so that a decision compares integers.
//
//   departments <- teams <- (keys, from keys.toml)        classes, best first        models
//
// Thread:    any; immutable, shared as std::shared_ptr<const PolicySet>.
// Limits:    kMax* below; the reader refuses a file that goes over one.
// Units:     tokens, requests; shares and weights as thousandths or millionths in integers, because
//            accounting uses no floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/instant.h"
#include "policy/timeouts.h"

namespace turnstile::policy {

// Index into PolicySet::classes; 0 is the highest class. A larger index is a lower class.
using ClassIndex = std::uint32_t;

inline constexpr std::size_t kMaxDepartments = 1'000;
inline constexpr std::size_t kMaxTeams = 10'000;
inline constexpr std::size_t kMaxClasses = 16;
inline constexpr std::size_t kMaxModels = 256;
inline constexpr std::int64_t kMaxWeight = 10'000;
inline constexpr std::int64_t kMaxPerMinute = 10'000'000'000;  // keeps bucket levels inside 64 bits
inline constexpr std::int64_t kMaxCount = 1'000'000'000;       // any other count in the file

// How a token budget is charged while a request runs.
enum class Charge : std::uint8_t {
  Max,   // reserve prompt + max_tokens; give back at the end; no overshoot
  Live,  // reserve prompt + expected length; debit every further token as it is generated
  Hard,  // reserve prompt + a quantum, top up while it lasts, then cut the answer; no overshoot
};
std::string_view to_string(Charge charge);

// Which waiting request of one key and class is next.
enum class LeafOrder : std::uint8_t {
  Fifo,              // the oldest
  Edf,               // the one whose deadline comes first; deadlines are finite, so none starves
  LifoWhenStanding,  // the oldest, but the newest while the oldest has used up half its wait
};
std::string_view to_string(LeafOrder order);

// A value that holds for one class.
struct ClassValue {
  ClassIndex class_index = 0;
  std::int64_t value = 0;
  friend bool operator==(const ClassValue&, const ClassValue&) = default;
};

// The settings that departments, teams and (some) keys have in common. Absent = no such limit.
struct NodeRules {
  std::int64_t weight = 1;                   // share among siblings, 1 ... kMaxWeight
  std::int64_t cached_weight_milli = 1000;   // thousandths of a token debited per cached token
  std::int64_t bucket_fraction_ppm = 250'000;  // bucket size as millionths of the minute's limit
  Charge charge = Charge::Live;
  std::optional<std::int64_t> inflight;
  std::vector<ClassValue> inflight_by_class;  // of `inflight`, what each named class may use
  std::optional<std::int64_t> queue_requests;
  std::optional<std::int64_t> queue_tokens;  // prompt tokens of waiting requests
  std::optional<std::int64_t> requests_per_minute;
  std::optional<std::int64_t> tokens_per_minute;
  std::vector<ClassValue> budget_floor_ppm;  // kept in the bucket from classes below the named one
  std::optional<ClassIndex> max_class;
  std::optional<ClassIndex> default_class;
  std::optional<std::vector<std::string>> models;  // aliases; absent = all
  std::optional<std::int64_t> max_input_tokens;
  std::optional<std::int64_t> max_output_tokens;
  std::optional<std::int64_t> default_max_tokens;
  bool disabled = false;

  friend bool operator==(const NodeRules&, const NodeRules&) = default;
};

struct Department {
  std::string name;
  NodeRules rules;
};

struct Team {
  std::string name;
  std::size_t department = 0;  // index into PolicySet::departments
  NodeRules rules;
};

struct ClassRules {
  std::string name;
  std::int64_t rank = 0;  // as written; unique; 0 is served first
  std::int64_t watermark_ppm = 1'000'000;  // of cache, slots and queue it may fill; falls with rank
  std::int64_t floor_ppm = 0;              // of all service it is sure of while it waits
  std::int64_t length_quantile_ppm = 1'000'000;  // of answers that fit what is reserved for them
  bool can_preempt = false;  // its next request pauses preemptible ones of lower classes for room
  bool preemptible = false;
  Timeouts timeouts;
  Duration ttft{};          // target: from arrival to the first token
  bool allow_late = false;  // true: a request that will miss its target is served all the same
  std::optional<std::int64_t> queue_requests;  // waiting requests of this class in all
  std::optional<std::int64_t> queue_tokens;    // their prompt tokens
  LeafOrder order = LeafOrder::Fifo;
  std::optional<std::int64_t> max_output_tokens;
  std::optional<std::int64_t> default_max_tokens;

  friend bool operator==(const ClassRules&, const ClassRules&) = default;
};

struct Model {
  std::string alias;   // the name clients use
  std::string serves;  // the name of the engine, [[models]] name in turnstile.toml
  std::optional<ClassIndex> default_class;
  std::optional<ClassIndex> max_class;
  std::optional<std::int64_t> max_input_tokens;
};

struct PolicySet {
  // "r<N>-<8 hex of the content hash>", see revision_text(). Goes into records and headers.
  std::string revision;

  std::vector<Department> departments;  // in the order of the file
  std::vector<Team> teams;              // in the order of the file
  std::vector<ClassRules> classes;      // sorted by rank, highest class first; never empty
  // In the order of the file. Empty when the file has no [models]: every engine's name is then its
  // own alias.
  std::vector<Model> models;

  NodeRules key_defaults;                     // what a key takes from [defaults]: no limits
  std::int64_t queue_requests_total = 256;    // waiting requests in all
  // Service, by weight, that a request whose prompt is in the cache may go ahead of its turn.
  std::int64_t locality_slack_units = 0;
  ClassIndex fallback_class = 0;              // "interactive": for requests that name no class

  std::optional<ClassIndex> find_class(std::string_view name) const;
  const Team* find_team(std::string_view name) const;    // nullptr when there is none
  const Model* find_model(std::string_view alias) const;  // nullptr when there is none
};

// The policy of an empty file: the four built-in classes, no department, team or model.
PolicySet default_policy_set();

// The part of a token bucket that requests of `class_index` may not touch: the largest share that
// is named for a class above it.
std::int64_t budget_floor_ppm(const NodeRules& rules, ClassIndex class_index);

// Bucket size for a limit per minute: max(1, floor(per_minute * fraction)).
std::int64_t bucket_capacity(std::int64_t per_minute, std::int64_t fraction_ppm);

// "r7-0a1b2c3d" from the number of the reload and the first four bytes of the file's content hash.
std::string revision_text(std::int64_t number, std::span<const std::uint8_t> content_hash);

}  // namespace turnstile::policy
