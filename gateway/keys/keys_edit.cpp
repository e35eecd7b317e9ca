// Edits of keys.toml as text (keys_file.h).
#include <algorithm>
#include <functional>
#include <vector>

#include "gateway/keys/keys_file.h"
#include "gateway/timestamp.h"
#include "policy/plain_text.h"

namespace turnstile::gateway {
namespace {

constexpr const char* kFile = "keys.toml";

bool is_same(const KeyEntry& a, const KeyEntry& b) {
  return a.node == b.node && a.public_id == b.public_id && a.hash == b.hash &&
         a.created == b.created && a.expires == b.expires && a.state == b.state &&
         a.on_revoke == b.on_revoke;
}

// The edited text, if reading it gives exactly the entries that were meant and no further errors.
tl::expected<std::string, std::string> checked(std::string text, const KeysReading& meant) {
  const KeysReading read = read_legible_keys(text, kFile);
  if (read.errors.size() <= meant.errors.size() &&
      std::ranges::equal(read.entries, meant.entries, is_same) &&
      std::ranges::equal(read.repeats, meant.repeats, is_same)) {
    return text;
  }
  return tl::unexpected(std::string(
      "the file is written in a way that this command cannot edit; edit it by hand."));
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view without_indent(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line;
}

bool sets_field(std::string_view line, std::string_view name) {
  line = without_indent(line);
  if (!line.starts_with(name)) return false;
  return without_indent(line.substr(name.size())).starts_with('=');
}

// Replaces or adds `name = "value"` in the table whose header is lines[header].
void set_field(std::vector<std::string>& lines, std::size_t header, std::string_view name,
               std::string_view value) {
  const std::string wanted = std::string(name) + " = \"" + std::string(value) + "\"";
  for (std::size_t i = header + 1; i < lines.size(); ++i) {
    if (without_indent(lines[i]).starts_with('[')) break;
    if (!sets_field(lines[i], name)) continue;
    lines[i] = wanted;
    return;
  }
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(header) + 1, wanted);
}

void append_field(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(" = \"").append(value).append("\"\n");
}

}  // namespace

tl::expected<std::string, std::string> with_key(std::string_view text, const KeyEntry& entry) {
  auto entries = read_keys(text, kFile);
  if (!entries) return tl::unexpected(to_string(entries.error().front()));
  for (const KeyEntry& other : *entries) {
    if (other.node.id == entry.node.id) {
      return tl::unexpected("there is a key with id '" + entry.node.id +
                            "' already; choose another --id.");
    }
  }
  if (entries->size() >= kMaxKeys) {
    return tl::unexpected("there are " + std::to_string(kMaxKeys) +
                          " keys already, the most that a file may hold; remove some by hand.");
  }
  std::string edited(text);
  if (!edited.empty() && edited.back() != '\n') edited += '\n';
  edited += edited.empty() ? "[[keys]]\n" : "\n[[keys]]\n";
  append_field(edited, "id", entry.node.id);
  append_field(edited, "public", entry.public_id);
  append_field(edited, "team", entry.node.team);
  append_field(edited, "hash", hash_text(entry.hash));
  if (entry.created) append_field(edited, "created", timestamp(*entry.created));
  if (entry.expires) append_field(edited, "expires", timestamp(*entry.expires));
  append_field(edited, "state", "active");
  if (entry.node.max_class) append_field(edited, "max_class", *entry.node.max_class);
  entries->push_back(entry);
  return checked(std::move(edited), {*std::move(entries), {}, {}});
}

tl::expected<std::string, std::string> with_revoked(std::string_view text, std::string_view id,
                                                    bool cancel) {
  KeysReading reading = read_legible_keys(text, kFile);
  // An id that stands twice is revoked twice: whichever its author takes away, no key is left open.
  std::vector<KeyEntry*> found;
  for (std::vector<KeyEntry>* list : {&reading.entries, &reading.repeats}) {
    for (KeyEntry& entry : *list) {
      if (entry.node.id == id) found.push_back(&entry);
    }
  }
  if (found.empty() && !reading.errors.empty()) {
    return tl::unexpected(to_string(reading.errors.front()));
  }
  if (found.empty()) {
    return tl::unexpected("there is no key with id '" + policy::plain_text(id) +
                          "'; 'turnstile keys list' shows them.");
  }
  std::vector<std::string> lines = split_lines(text);
  // From below: a line that is added moves those under it.
  std::ranges::sort(found, std::greater(), &KeyEntry::line);
  for (KeyEntry* entry : found) {
    const std::size_t header = entry->line - 1;
    set_field(lines, header, "state", "revoked");
    if (cancel) set_field(lines, header, "on_revoke", "cancel");
    entry->state = KeyState::Revoked;
    if (cancel) entry->on_revoke = OnRevoke::Cancel;
  }

  std::string edited;
  for (const std::string& line : lines) edited.append(line).append("\n");
  return checked(std::move(edited), reading);
}

}  // namespace turnstile::gateway
