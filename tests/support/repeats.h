// repeats.h: how much of a random or exhaustive test runs.
//
// Under the address sanitizer the same code takes some ten times as long and each access is looked
// at once, so such a test does a part of its work there.
#pragma once

#include <cstdint>

namespace turnstile::tests {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

// An eighth of the repetitions, at least one, under the address sanitizer.
constexpr std::uint32_t repeats(std::uint32_t in_a_plain_build) {
  return kAddressSanitizer ? (in_a_plain_build + 7) / 8 : in_a_plain_build;
}

}  // namespace turnstile::tests
