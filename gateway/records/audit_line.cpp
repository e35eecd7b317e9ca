#include "gateway/records/audit_line.h"

#include <algorithm>
#include <charconv>

namespace turnstile::gateway {
namespace {

constexpr std::string_view kSeqBegin = "{\"seq\":";
constexpr std::string_view kPrevBegin = ",\"prev\":\"";
constexpr std::string_view kHashBegin = ",\"hash\":\"";
constexpr std::string_view kKindBegin = ",\"kind\":\"";
constexpr std::string_view kRequestBegin = "\",\"request_id\":\"";
constexpr std::string_view kLineEnd = "\"}";

bool is_hash(std::string_view text) {
  return text.size() == kHashChars && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::optional<AuditLine> take_apart(std::string_view line) {
  constexpr std::size_t kTail = kHashBegin.size() + kHashChars + kLineEnd.size();
  if (line.size() < kTail || !line.starts_with(kSeqBegin)) return std::nullopt;
  AuditLine parts;
  parts.hashed = line.substr(0, line.size() - kTail);
  const std::string_view tail = line.substr(parts.hashed.size());
  parts.hash = tail.substr(kHashBegin.size(), kHashChars);
  if (!tail.starts_with(kHashBegin) || !tail.ends_with(kLineEnd) || !is_hash(parts.hash)) {
    return std::nullopt;
  }
  const char* const begin = line.data() + kSeqBegin.size();
  const auto [end, error] = std::from_chars(begin, line.data() + parts.hashed.size(), parts.seq);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest = parts.hashed.substr(static_cast<std::size_t>(end - line.data()));
  if (!rest.starts_with(kPrevBegin)) return std::nullopt;
  parts.prev = rest.substr(kPrevBegin.size(), kHashChars);
  if (!is_hash(parts.prev)) return std::nullopt;
  return parts;
}

AuditSubject subject_of(std::string_view line) {
  AuditSubject subject;
  const std::size_t begin = line.find(kKindBegin);
  if (begin == std::string_view::npos) return subject;
  line.remove_prefix(begin + kKindBegin.size());
  subject.kind = line.substr(0, line.find('"'));
  line.remove_prefix(subject.kind.size());
  if (!line.starts_with(kRequestBegin)) return subject;
  line.remove_prefix(kRequestBegin.size());
  subject.request_id = line.substr(0, line.find('"'));
  return subject;
}

std::string seal(std::string& open_object, Sha256& sha256) {
  std::string hash = hex_text(sha256.digest(open_object));
  open_object += kHashBegin;
  open_object += hash;
  open_object += kLineEnd;
  open_object += '\n';
  return hash;
}

}  // namespace turnstile::gateway
