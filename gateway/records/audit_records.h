// audit_records.h: what a RequestRecord says in the audit log.
//
// Enough to explain the decision and to count, and no text of a prompt or a completion. Members are
// appended to an object that has its head already (seq, prev, ts, kind).
//
//   refused   who, what was asked for, the meter that said no, its limit and what was in it
//   admitted  who, the checks that passed, the place in the queue, why this request was next
//   ended     who, tokens, times, how it ended, what stays charged
#pragma once

#include <cstdint>

#include "gateway/api/json_object.h"
#include "gateway/records/records.h"

namespace turnstile::gateway {

void append_refused(JsonObject& line, const RequestRecord& record, std::uint64_t count);
void append_admitted(JsonObject& line, const RequestRecord& record);
void append_ended(JsonObject& line, const RequestRecord& record);

}  // namespace turnstile::gateway
