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
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>
#include <tl/expected.hpp>

#include "gateway/records/audit.h"
#include "gateway/records/audit_folder.h"
#include "gateway/records/records.h"

namespace turnstile::gateway {

inline constexpr std::size_t kMaxTailFiles = 4;
inline constexpr std::size_t kMaxTailRequests = 16'384;  // many times what a server has open

// Requests whose `admitted` no `ended` follows, in their order; `files` as list_audit_files().
// A disk that is full may have taken the end in `requests_file` and not in the log, so its last
// kMaxTailBytes are searched.
inline constexpr std::uint64_t kMaxTailBytes = 16 << 20;
tl::expected<std::vector<UnendedRequest>, std::string> unended_requests(
    std::span<const AuditFileName> files, const std::filesystem::path& requests_file);

// The record of a request with the end that is written for it: that of its line in requests.jsonl,
// else `fault`.
class RecoveredRecord {
 public:
  // False when the line is not that of an admitted request.
  bool read(const UnendedRequest& request);
  const RequestRecord& record() const { return record_; }

 private:
  void read_end(const boost::json::object& line);

  RequestRecord record_;
  std::string code_;  // what the record only points to
  std::string finish_reason_;
};

}  // namespace turnstile::gateway
