// audit_verify.h: whether an audit log is whole and unchanged. Needs no server and no key.
//
// Found, each with file and line:
//
//   an edited line                  its hash does not fit its bytes
//   a removed, added or moved line  `seq` does not follow, or `prev` is not the line before
//   a missing file                  the numbers of the files have a gap, or the first one is gone
//   text that is not a record       a damaged or foreign line, bytes after a line
//   a torn last line                the last file ends in part of a line: what a crash leaves.
//                                   Reported, and not counted as damage.
//   a request without an end        `admitted` without `ended`: it runs, or the server was killed
//                                   and not started since. Counted, and not counted as damage.
//
// Not found: whole lines taken off the end. Nothing in the log can show that; compare the last
// sequence number and head with a copy kept elsewhere.
//
// After a damaged place the check goes on with what the line itself says, so that each damage is
// reported once.
//
// Cost: reads the log once, line by line; memory for two lines and the ids of the open requests,
//       of which kMaxOpenTold are told apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace turnstile::gateway {

inline constexpr std::size_t kMaxAuditProblems = 100;
inline constexpr std::size_t kMaxOpenTold = 100'000;

struct AuditProblem {
  std::filesystem::path file;
  std::uint64_t line = 0;  // from 1; 0: the file as a whole
  std::string what;        // a sentence
};
std::string to_string(const AuditProblem& problem);  // "FILE:LINE: sentence"

struct AuditReport {
  std::uint64_t files = 0;
  std::uint64_t records = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;
  std::string head;                    // hash of the last record
  std::uint64_t open = 0;              // requests without an end; kMaxOpenTold: or more
  std::vector<AuditProblem> problems;  // empty: the chain is whole; at most kMaxAuditProblems
  std::vector<AuditProblem> notes;     // a torn last line; files with other names
};

// `folder` is the audit folder or a state_dir. The error (a sentence): no log there, unreadable,
// or something that is no regular file under the name of one.
tl::expected<AuditReport, std::string> verify_audit(const std::filesystem::path& folder);

}  // namespace turnstile::gateway
