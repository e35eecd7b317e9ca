// text_methods.h: str methods of Python on marked texts. Shared by methods and filters.
//
// Cost: O(bytes) each, counted against the budget; forward searches are two-way, never quadratic.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/template/marked_text.h"
#include "engine/template/render_context.h"
#include "engine/template/value.h"

namespace turnstile::engine {

enum class Side : std::uint8_t { Left = 1, Right = 2, Both = 3 };

// Removes white space, or with `chars` any of its characters.
MarkedText strip(RenderContext& context, const MarkedText& text, Side side,
                 const MarkedText* chars);

// At white space, or with `separator` at that; at most `max_splits` cuts, from the left or right.
std::vector<Value> split(RenderContext& context, const MarkedText& text,
                         const MarkedText* separator, std::optional<std::uint64_t> max_splits,
                         Side from);
std::vector<MarkedText> split_lines(RenderContext& context, const MarkedText& text);

MarkedText replace(RenderContext& context, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, std::optional<std::uint64_t> max_count);

// Where `part` occurs, bytes from `begin` on, or npos.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t begin);

// There is no linear search from the right in the library, so what is searched must be short.
inline constexpr std::size_t kMaxBackwardPartBytes = 256;
void check_backward_part(const RenderContext& context, std::string_view part);

// Only ASCII letters change case: the names that templates compare are ASCII.
MarkedText to_lower(const MarkedText& text);
MarkedText to_upper(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);

}  // namespace turnstile::engine
