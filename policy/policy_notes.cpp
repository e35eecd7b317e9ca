#include "policy/policy_notes.h"

#include <algorithm>
#include <utility>

#include "policy/plain_text.h"
#include "policy/slips.h"

namespace turnstile::policy {
namespace {

std::string format_note(const PolicyFileNote& note, std::string_view severity) {
  std::string text = note.file;
  text += ':';
  text += std::to_string(note.line);
  text += ':';
  text += std::to_string(note.column);
  text += ": ";
  text += severity;
  text += ": ";
  text += plain_text(note.message);
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

bool PolicyNotes::has_error_at(Position at) const {
  return std::ranges::any_of(errors_, [at](const PolicyFileNote& note) {
    return note.line == at.line && note.column == at.column;
  });
}

void PolicyNotes::warning(Position at, std::string message) {
  warnings_.push_back({file_, at.line, at.column, std::move(message)});
}

void PolicyNotes::unread_key(const DocumentValue::Member& member, std::string_view path,
                             std::span<const std::string_view> known,
                             std::span<const std::string_view> later, std::string_view home) {
  std::string message = dotted(path, member.name);
  if (std::ranges::find(later, member.name) != later.end()) {
    message += " is not enforced by this version; remove it until a later version does";
    error(member.at, std::move(message));
    return;
  }
  if (!home.empty()) {
    message += " does not stand here; it is a key of ";
    message += home;
    error(member.at, std::move(message));
    return;
  }
  message += " is not a known key";
  std::string_view meant = nearest_name(member.name, known);
  if (meant.empty()) meant = nearest_name(member.name, later);
  if (!meant.empty()) {
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
