#include "engine/completion_text.h"

namespace turnstile::engine {

CompletionText::CompletionText(const StopStrings& stops, bool include_stop_string)
    : stops_(&stops), include_stop_string_(include_stop_string) {
  if (stops.count() > 0) held_.reserve(2 * kMaxStopStringBytes);
}

std::optional<std::uint32_t> CompletionText::push(std::string_view token_bytes,
                                                  bool searches_stops, std::string& out) {
  if (!searches_stops || stops_->count() == 0) {
    characters_.append(token_bytes, out);
    return std::nullopt;
  }
  const std::size_t already_searched = held_.size();
  characters_.append(token_bytes, held_);
  return search(already_searched, out);
}

std::optional<std::uint32_t> CompletionText::finish(bool searches_stops, std::string& out) {
  if (!searches_stops || stops_->count() == 0) {
    characters_.flush(out);
    return std::nullopt;
  }
  const std::size_t already_searched = held_.size();
  characters_.flush(held_);
  const auto stop = search(already_searched, out);
  out += held_;
  held_.clear();
  return stop;
}

std::optional<std::uint32_t> CompletionText::search(std::size_t searched_bytes, std::string& out) {
  const std::string_view fresh = std::string_view(held_).substr(searched_bytes);
  if (const auto match = matcher_.push(*stops_, fresh)) {
    const std::size_t end = searched_bytes + match->end;
    out.append(held_, 0, include_stop_string_ ? end : end - match->stop_bytes);
    held_.clear();
    return match->stop_index;
  }
  const std::size_t sendable = held_.size() - matcher_.held_bytes(*stops_);
  out.append(held_, 0, sendable);
  held_.erase(0, sendable);
  return std::nullopt;
}

}  // namespace turnstile::engine
