// json_members.h: what a line of a record file says, as far as a server can have written it.
//
// Who else writes to those files stops no start: a member that is missing or of another kind counts
// as absent.
//
// Thread: any; pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "policy/instant.h"

namespace turnstile::gateway {

// The object of a line; an empty one when it is none.
boost::json::object parsed_object(std::string_view line);

std::optional<std::uint64_t> count_at(const boost::json::object& object, std::string_view name);
std::optional<policy::Duration> ms_at(const boost::json::object& object, std::string_view name);

// Empty also for a text longer than any that the server writes.
std::string text_at(const boost::json::object& object, std::string_view name);

// An empty one when it is none.
const boost::json::object& object_at(const boost::json::object& object, std::string_view name);

}  // namespace turnstile::gateway
