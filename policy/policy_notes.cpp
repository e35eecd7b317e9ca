#include "policy/policy_notes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace turnstile::policy {
namespace {

// Edit distance in which two neighbours that changed places count once (optimal string alignment,
// Damerau 1964): swapped letters are the commonest slip.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string format_note(const PolicyFileNote& note, std::string_view severity) {
  std::string text = note.file;
  text += ':';
  text += std::to_string(note.line);
  text += ':';
  text += std::to_string(note.column);
  text += ": ";
  text += severity;
  text += ": ";
  text += note.message;
  return text;
}

}  // namespace

std::string format_error(const PolicyFileNote& note) { return format_note(note, "error"); }
std::string format_warning(const PolicyFileNote& note) { return format_note(note, "warning"); }

std::string dotted(std::string_view path, std::string_view name) {
  std::string text(path);
  if (!text.empty()) text += '.';
  text += name;
  return text;
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  // A key that is nothing like a known one gets no suggestion; long garbage is not even compared.
  if (name.size() > 64) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view meant = nearest_name(name, known);
  if (meant.empty()) return {};
  std::string text = "; did you mean \"";
  text += meant;
  text += "\"?";
  return text;
}

void PolicyNotes::error(Position at, std::string message) {
  errors_.push_back({file_, at.line, at.column, std::move(message)});
}

void PolicyNotes::warning(Position at, std::string message) {
  warnings_.push_back({file_, at.line, at.column, std::move(message)});
}

void PolicyNotes::unread_key(const DocumentValue::Member& member, std::string_view path,
                             std::span<const std::string_view> known,
                             std::span<const std::string_view> later) {
  std::string message = dotted(path, member.name);
  if (std::ranges::find(later, member.name) != later.end()) {
    message += " is not enforced by this version; remove it until a later version does";
    error(member.at, std::move(message));
    return;
  }
  message += " is not a known key";
  if (const std::string_view meant = nearest_name(member.name, known); !meant.empty()) {
    message += "; did you mean ";
    message += meant;
    message += '?';
  }
  error(member.at, std::move(message));
}

std::vector<PolicyFileNote> PolicyNotes::take_errors() { return take(errors_); }
std::vector<PolicyFileNote> PolicyNotes::take_warnings() { return take(warnings_); }

std::vector<PolicyFileNote> PolicyNotes::take(std::vector<PolicyFileNote>& notes) const {
  std::ranges::stable_sort(notes, {}, [](const PolicyFileNote& note) {
    return std::pair(note.line, note.column);
  });
  if (notes.size() > kMaxPolicyErrors) {
    const std::size_t more = notes.size() - kMaxPolicyErrors;
    notes.resize(kMaxPolicyErrors);
    PolicyFileNote last = notes.back();
    last.message = std::to_string(more) + " more are not shown";
    notes.push_back(std::move(last));
  }
  return std::exchange(notes, {});
}

}  // namespace turnstile::policy
