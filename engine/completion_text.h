// completion_text.h: the text of one choice on its way from token bytes to what may be sent.
//
//   token bytes --> whole characters --> searched for stop strings --> out
//                   (Detokenizer)        (StopMatcher)
//                   holds <= 3 bytes     holds what may still become a stop string
//
// What has come out never changes and never contains a part of a stop string that ended the text,
// unless the request wants the stop string itself.
//
// Thread: engine thread; one for each choice. Tests: tests/engine/completion_text_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/stop_matcher.h"
#include "engine/tokenizer/detokenizer.h"

namespace turnstile::engine {

class CompletionText {
 public:
  // `stops` outlives this object.
  CompletionText(const StopStrings& stops, bool include_stop_string);

  // Appends to `out` what may be sent now. With searches_stops false the text passes unsearched
  // (min_tokens). Returns the index of the stop string that ended the text.
  std::optional<std::uint32_t> push(std::string_view token_bytes, bool searches_stops,
                                    std::string& out);

  // The text ends: appends what was held back. A character cut short becomes U+FFFD, which may
  // itself complete a stop string.
  std::optional<std::uint32_t> finish(bool searches_stops, std::string& out);

 private:
  std::optional<std::uint32_t> search(std::size_t searched_bytes, std::string& out);

  const StopStrings* stops_;
  bool include_stop_string_;
  Detokenizer characters_;
  StopMatcher matcher_;
  std::string held_;  // whole characters
};

}  // namespace turnstile::engine
