// request_size.h: does the request fit at all, and how large may it grow.
//
// Pure. Runs before any meter is looked at: what is refused here can never be served as asked, so
// waiting does not help. In the order of the interface: choices, max_tokens against policy,
// context, input limit.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>

#include "policy/facts.h"
#include "policy/verdict.h"

namespace turnstile::policy {

struct RequestSize {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = 0;  // per choice: as asked, or the smallest default and what is left
  std::int64_t choices = 1;
  std::int64_t kv_blocks = 0;   // choices * ceil((prompt + max_tokens) / block): the worst case

  std::int64_t max_completion_tokens() const { return choices * max_tokens; }
};

tl::expected<RequestSize, Refusal> size_request(const Resolved& resolved, const TokenFacts& tokens,
                                                const EngineFacts& engine);

}  // namespace turnstile::policy
