// json_text.h: appends JSON scalars to a buffer; escaping is Boost.JSON's.
//
// For texts whose shape is fixed (error bodies, stream chunks, records), where a tree of values
// would cost more than the text itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace turnstile::gateway {

// `text` must be valid UTF-8.
void append_json_string(std::string& out, std::string_view text);

void append_json_int(std::string& out, std::int64_t value);
void append_json_uint(std::string& out, std::uint64_t value);

// Milliseconds or other decimals with three digits after the point.
void append_json_decimal(std::string& out, double value);

// The shortest text that reads back as the same float; log-probabilities have a floor of -9999,
// as in vLLM, because JSON has no infinity.
void append_json_logprob(std::string& out, float value);

}  // namespace turnstile::gateway
