// render_limits.h: bounds on what a template may cost.
//
// A step is one expression or statement, one loop turn, one element that a function looks at or
// makes, or kBytesPerStep bytes of text that are copied, searched or compared. With these numbers
// the worst template ends in about a tenth of a second; a prompt of 4 MiB needs a tenth of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile::engine {

struct RenderLimits {
  static constexpr std::uint64_t kMaxSteps = 500'000;
  static constexpr std::size_t kBytesPerStep = 256;
  static constexpr std::size_t kMaxCallDepth = 64;           // macros inside macros
  static constexpr std::size_t kMaxEvaluationDepth = 1'000;  // nested nodes; bounds the stack
  static constexpr std::size_t kMaxOutputBytes = 8u << 20;   // of the prompt and of any string
  static constexpr std::size_t kMaxListItems = 262'144;      // of any list
  static constexpr std::uint32_t kMaxValueDepth = 100;       // containers inside containers
  static constexpr std::size_t kMaxSourceBytes = 1u << 20;   // the largest in use has 60 KiB
  static constexpr std::uint32_t kMaxExpressionDepth = 200;  // nodes inside nodes
  static constexpr std::uint32_t kMaxStatementDepth = 64;    // if and for inside each other
};

}  // namespace turnstile::engine
