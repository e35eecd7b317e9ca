// audit_line.h: one line of the audit log: how it is sealed, and how it is taken apart.
//
//   {"seq":7,"prev":"<64 hex>", ... ,"hash":"<64 hex>"}
//
// The hash covers the exact bytes before `,"hash"`. Writer and verifier share this file, and
// nothing else: the verifier reads bytes, not what the program remembers.
//
// Thread: any; AuditSealer keeps a hash context and a buffer, so one object is for one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/records/sha256.h"

namespace turnstile::gateway {

inline constexpr std::size_t kHashChars = 64;
inline constexpr std::size_t kMaxAuditLineBytes = 64 << 10;

// What the bytes of a line say about the chain.
struct AuditLine {
  std::uint64_t seq = 0;
  std::string_view prev;    // 64 hexadecimal digits
  std::string_view hash;    // as written
  std::string_view hashed;  // the bytes that the hash covers
};

// `line` without its line feed. Absent when it has not the form above.
std::optional<AuditLine> take_apart(std::string_view line);

// What a record is about. All before these two is ours: nothing a client sends stands there.
struct AuditSubject {
  std::string_view kind;        // "admitted", "ended", ...; empty: no record of ours
  std::string_view request_id;  // empty for kinds that are of no request
};
AuditSubject subject_of(std::string_view line);

// Appends `,"hash":"..."}` and a line feed to an object that lacks its closing brace.
// Returns the hash as hexadecimal.
std::string seal(std::string& open_object, Sha256& sha256);

}  // namespace turnstile::gateway
