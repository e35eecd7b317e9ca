// audit_tail.h: which requests of a log have no end, as a killed server leaves them.
//
// Each checkpoint says how many admitted requests had not ended and where the oldest of them stands
// (audit.h), so only the log from there is read: at most the last kMaxTailFiles files, which take
// about a second. A request that was admitted before those stays without an end; `audit verify`
// counts it.
//
// Thread: main, before the log is opened. Memory: the records of the open requests.
// Errors: a sentence with the path.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/records/audit_folder.h"
#include "gateway/records/records.h"

namespace turnstile::gateway {

inline constexpr std::size_t kMaxTailFiles = 4;
inline constexpr std::size_t kMaxTailRequests = 16'384;  // many times what a server has open

// The `admitted` lines that no `ended` follows, in their order; `files` as list_audit_files().
tl::expected<std::vector<std::string>, std::string> unended_requests(
    std::span<const AuditFileName> files);

// What such a line says of its request, with the end that is written for it: `fault`. False when
// it is not the line of an admitted request.
bool read_admitted(std::string_view line, RequestRecord& record);

}  // namespace turnstile::gateway
