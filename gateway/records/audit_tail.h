// audit_tail.h: what a killed server left to write: ends of requests, here or in requests.jsonl.
//
//   admitted, no ended             its end is written, here and there
//   admitted, no ended, but its    that end is written here
//     line in requests.jsonl
//   ended or refused, but no line  the line is written there
//
// Each checkpoint says how many admitted requests had not ended and where the oldest of them stands
// (audit.h), so only the log from there is read: at most the last kMaxTailFiles files, which take
// about a second. A request that was admitted before those stays without an end; `audit verify`
// counts it.
//
// A record of the log and the line of requests.jsonl are written one after the other. What came
// between them took at most the lines that the writer had in hand, so the last kMaxUnlisted ends
// are held against the last lines there. Only what stands behind the last one that has its line is
// missing: each file keeps its order. Where none has, somebody has moved the file away, and nothing
// is written; a power failure may take more, for requests.jsonl is not synced.
//
// Thread: main, before the log is opened. Memory: the records of the open requests, and
// kMaxUnlistedBytes.
// Errors: a sentence with the path.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "gateway/records/audit.h"
#include "gateway/records/audit_folder.h"
#include "gateway/records/line_writer.h"

namespace turnstile::gateway {

inline constexpr std::size_t kMaxTailFiles = 4;
inline constexpr std::size_t kMaxTailRequests = 16'384;  // many times what a server has open

// Requests whose `admitted` no `ended` follows, in their order; `files` as list_audit_files().
// A disk that is full may have taken the end in `requests_file` and not in the log, so as much of
// its end is searched as the writer keeps waiting.
inline constexpr std::uint64_t kMaxTailBytes = LineWriter::kHighMarkBytes;
tl::expected<std::vector<UnendedRequest>, std::string> unended_requests(
    std::span<const NumberedFile> files, const std::filesystem::path& requests_file);

inline constexpr std::size_t kMaxUnlisted = LineWriter::kBatchLines;
inline constexpr std::uint64_t kMaxUnlistedBytes = 4 << 20;

// The `ended` and `refused` records that have no line in state_dir/requests.jsonl, in their order.
tl::expected<std::vector<std::string>, std::string> unlisted_ends(
    std::span<const NumberedFile> files, const std::filesystem::path& state_dir);

}  // namespace turnstile::gateway
