// recovered_record.h: a request of a server that was killed, as its own lines tell it.
//
// Thread: main, before the log goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "gateway/records/audit.h"
#include "gateway/records/records.h"

namespace turnstile::gateway {

class RecoveredRecord {
 public:
  // What was admitted, with the end that is written for it now: that of its line in requests.jsonl,
  // else `fault`. False when the line is not that of an admitted request.
  bool read(const UnendedRequest& request);

  // What an `ended` or `refused` record of the log says. False when it is neither.
  bool read_end_record(std::string_view line);

  const RequestRecord& record() const { return record_; }
  std::uint64_t count() const { return count_; }  // of a coalesced refusal, else 1

 private:
  bool read_request(const boost::json::object& object);
  void read_end(const boost::json::object& object);

  RequestRecord record_;
  std::uint64_t count_ = 1;
  std::string code_;  // what the record only points to
  std::string finish_reason_;
};

}  // namespace turnstile::gateway
