#include "gateway/keys/keys_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gateway/config/suggestion.h"
#include "gateway/config/toml_text.h"
#include "gateway/timestamp.h"
#include "policy/quantity.h"

namespace turnstile::gateway {
namespace {

constexpr std::array<std::string_view, 19> kMembers{
    "id", "public", "team", "hash", "created", "expires", "state", "on_revoke", "weight",
    "inflight", "queue_requests", "requests_per_minute", "tokens_per_minute", "max_class",
    "default_class", "models", "max_input_tokens", "max_output_tokens", "disabled"};
constexpr std::array<std::string_view, 3> kLaterFields{"tokens_per_day", "tokens_per_week",
                                                       "tokens_per_month"};

constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxPerMinute = 10'000'000'000;
constexpr std::int64_t kMaxWeight = 10'000;

// Reads one [[keys]] table into an entry.
class EntryReader {
 public:
  EntryReader(const toml::table& table, const std::string& file, std::vector<ConfigError>& errors)
      : table_(table), file_(file), errors_(errors) {}

  KeyEntry read() {
    KeyEntry entry;
    entry.line = table_.source().begin.line;
    const std::size_t before = errors_.size();
    read_identity(entry);
    read_limits(entry.node);
    report_unknown();
    entry.is_wrong = errors_.size() != before;
    return entry;
  }

 private:
  void fail(const toml::node& node, std::string message) {
    errors_.push_back(error_at(file_, node.source(), std::move(message)));
  }

  void read_identity(KeyEntry& entry) {
    read_name("id", entry.node.id);
    read_name("team", entry.node.team);
    if (const auto text = required("public")) {
      if (text->size() == kPublicIdChars && is_base62(*text)) {
        entry.public_id = *text;  // nothing else: `keys list` shows it
      } else {
        fail(*table_.get("public"),
             "public must be the 8 letters and digits after 'gw_' of the key.");
      }
    }
    if (const auto text = required("hash")) {
      const auto hash = parse_hash(*text);
      if (hash) entry.hash = *hash;
      else fail(*table_.get("hash"), "hash must be 'hmac-sha256:' and 64 hexadecimal digits; make "
                                     "keys with 'turnstile keys create'.");
    }
    entry.created = read_time("created");
    entry.expires = read_time("expires");
    if (const auto text = optional_text("state")) {
      if (*text == "revoked") entry.state = KeyState::Revoked;
      else if (*text != "active") fail(*table_.get("state"), "state must be active or revoked.");
    }
    if (const auto text = optional_text("on_revoke")) {
      if (*text == "cancel") entry.on_revoke = OnRevoke::Cancel;
      else if (*text != "finish") {
        fail(*table_.get("on_revoke"), "on_revoke must be finish or cancel.");
      }
    }
  }

  void read_limits(policy::KeyNode& node) {
    if (const auto weight = read_count("weight", 1, kMaxWeight)) node.weight = *weight;
    node.inflight = read_count("inflight", 0, kMaxCount);
    node.queue_requests = read_count("queue_requests", 0, kMaxCount);
    node.requests_per_minute = read_count("requests_per_minute", 0, kMaxPerMinute);
    node.tokens_per_minute = read_count("tokens_per_minute", 0, kMaxPerMinute);
    node.max_input_tokens = read_count("max_input_tokens", 1, kMaxCount);
    node.max_output_tokens = read_count("max_output_tokens", 1, kMaxCount);
    node.max_class = optional_text("max_class");
    node.default_class = optional_text("default_class");
    if (const toml::node* disabled = table_.get("disabled")) {
      if (const auto* value = disabled->as_boolean()) node.disabled = value->get();
      else fail(*disabled, "disabled must be true or false.");
    }
    if (const toml::node* models = table_.get("models")) {
      const toml::array* names = models->as_array();
      if (names == nullptr || (!names->empty() && !names->is_homogeneous<std::string>())) {
        return fail(*models, "models must be a list of names such as [\"chat\"].");
      }
      node.models.emplace();
      for (const toml::node& name : *names) node.models->push_back(name.as_string()->get());
    }
  }

  void report_unknown() {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (std::ranges::find(kMembers, name) != kMembers.end()) continue;
      const bool is_later = std::ranges::find(kLaterFields, name) != kLaterFields.end();
      errors_.push_back(error_at(
          file_, key.source(),
          std::string(name) + (is_later ? " is not available in this build: remove it."
                                        : " is not a field of a key" + suggestion(name, kMembers) +
                                              ".")));
    }
  }

  std::optional<std::string> optional_text(std::string_view name) {
    const toml::node* node = table_.get(name);
    if (node == nullptr) return std::nullopt;
    if (const auto* text = node->as_string()) return text->get();
    fail(*node, std::string(name) + " must be a string.");
    return std::nullopt;
  }

  std::optional<std::string> required(std::string_view name) {
    if (table_.get(name) == nullptr) fail(table_, "this key has no " + std::string(name) + ".");
    return optional_text(name);
  }

  void read_name(std::string_view name, std::string& field) {
    const auto text = required(name);
    if (!text) return;
    if (is_good_name(*text)) {
      field = *text;  // nothing else: names stand in every record
    } else {
      fail(*table_.get(name),
           std::string(name) + " must be 1 to 64 letters, digits, dots, dashes or underscores.");
    }
  }

  std::optional<std::int64_t> read_count(std::string_view name, std::int64_t least,
                                         std::int64_t most) {
    const toml::node* node = table_.get(name);
    if (node == nullptr) return std::nullopt;
    std::optional<std::int64_t> value;
    if (const auto* number = node->as_integer()) value = number->get();
    if (const auto* text = node->as_string()) {
      value = policy::parse_count(text->get());
    }
    if (value && *value >= least && *value <= most) return value;
    fail(*node, std::string(name) + " must be a whole number from " + std::to_string(least) +
                    " to " + std::to_string(most) + ", such as 60 or \"40k\".");
    return std::nullopt;
  }

  std::optional<WallTime> read_time(std::string_view name) {
    const toml::node* node = table_.get(name);
    if (node == nullptr) return std::nullopt;
    std::string text;
    if (const auto* written = node->as_string()) text = written->get();
    if (const auto* date = node->as_date()) text = date_text(date->get());
    if (const auto time = parse_timestamp(text)) return time;
    fail(*node, std::string(name) +
                    " must be a date such as \"2027-02-21\" or an RFC 3339 time in quotes.");
    return std::nullopt;
  }

  static std::string date_text(const toml::date& date) {
    const auto two = [](unsigned value) {
      return std::string(value < 10 ? "0" : "") + std::to_string(value);
    };
    std::string year = std::to_string(date.year);
    year.insert(0, year.size() < 4 ? 4 - year.size() : 0, '0');
    return year + "-" + two(date.month) + "-" + two(date.day);
  }

  const toml::table& table_;
  const std::string& file_;
  std::vector<ConfigError>& errors_;
};

// Which of two is the right one is not known, so both are wrong.
void report_repeats(std::vector<KeyEntry>& entries, const std::string& file,
                    std::vector<ConfigError>& errors) {
  std::unordered_map<std::string_view, KeyEntry*> ids;
  std::unordered_map<std::string_view, KeyEntry*> public_ids;
  for (KeyEntry& entry : entries) {
    const auto [id, is_new_id] = ids.try_emplace(entry.node.id, &entry);
    if (!is_new_id && !entry.node.id.empty()) {
      errors.push_back({file, entry.line, 1,
                        "id '" + entry.node.id + "' is used in line " +
                            std::to_string(id->second->line) + " already; ids must be unique."});
      entry.is_wrong = id->second->is_wrong = true;
    }
    const auto [public_id, is_new_public] = public_ids.try_emplace(entry.public_id, &entry);
    if (!is_new_public && !entry.public_id.empty()) {
      errors.push_back({file, entry.line, 1,
                        "public '" + entry.public_id + "' is used in line " +
                            std::to_string(public_id->second->line) +
                            " already; make keys with 'turnstile keys create'."});
      entry.is_wrong = public_id->second->is_wrong = true;
    }
  }
}

// What no record and no request could name goes; an id that is seen again stands apart.
void sort_out(KeysReading& reading) {
  std::unordered_set<std::string> seen;
  std::erase_if(reading.entries, [&](const KeyEntry& entry) {
    if (entry.node.id.empty()) return true;
    const bool is_new = seen.insert(entry.node.id).second;
    if (!is_new) reading.repeats.push_back(entry);
    return !is_new;
  });
}

}  // namespace

bool is_good_name(std::string_view name) {
  return is_acceptable_client_id(name);  // the same alphabet and length
}

KeysReading read_legible_keys(std::string_view text, const std::string& file) {
  const auto root = parse_toml(text, file);
  if (!root) return {{}, {root.error()}, {}};

  KeysReading reading;
  auto& entries = reading.entries;
  auto& errors = reading.errors;
  for (const auto& [name, node] : *root) {
    const toml::array* tables = node.as_array();
    if (name.str() != "keys") {
      errors.push_back(error_at(file, name.source(),
                                std::string(name.str()) +
                                    " is not known here: keys are written as [[keys]]."));
    } else if (tables == nullptr ||
               (!tables->empty() && !tables->is_homogeneous(toml::node_type::table))) {
      errors.push_back(error_at(file, node.source(), "keys must be written as [[keys]]."));
    } else if (tables->size() > kMaxKeys) {
      errors.push_back(error_at(file, node.source(),
                                "there are more than " + std::to_string(kMaxKeys) + " keys."));
    } else {
      for (const toml::node& table : *tables) {
        entries.push_back(EntryReader(*table.as_table(), file, errors).read());
      }
    }
  }
  report_repeats(entries, file, errors);
  sort_out(reading);
  std::ranges::stable_sort(errors, {}, [](const ConfigError& error) {
    return std::pair(error.line, error.column);
  });
  return reading;
}

tl::expected<std::vector<KeyEntry>, std::vector<ConfigError>> read_keys(std::string_view text,
                                                                        const std::string& file) {
  KeysReading reading = read_legible_keys(text, file);
  if (!reading.errors.empty()) return tl::unexpected(std::move(reading.errors));
  return std::move(reading.entries);
}

}  // namespace turnstile::gateway
