#include "policy/length_quantile.h"

#include <algorithm>

namespace turnstile::policy {
namespace {

// Largest length of a bucket: 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
std::int64_t upper_bound_of(std::size_t bucket) {
  if (bucket < 2) return static_cast<std::int64_t>(bucket) + 1;
  const std::int64_t octave = std::int64_t{1} << (bucket / 2);
  return bucket % 2 == 0 ? octave + octave / 2 : octave * 2;
}

}  // namespace

void LengthQuantile::learn(std::int64_t tokens) {
  std::size_t bucket = 0;
  while (bucket + 1 < kBuckets && upper_bound_of(bucket) < tokens) bucket += 1;
  counts_[bucket] += 1;
  total_ += 1;
  if (total_ < kMostSamples) return;
  total_ = 0;
  for (std::int64_t& count : counts_) {
    count /= 2;
    total_ += count;
  }
}

std::optional<std::int64_t> LengthQuantile::at(std::int64_t ppm, std::int64_t generated) const {
  std::size_t first = 0;
  std::int64_t longer = total_;
  while (first < kBuckets && upper_bound_of(first) <= generated) longer -= counts_[first++];
  if (longer < kFewestSamples) return std::nullopt;
  const std::int64_t wanted = (longer * ppm + 999'999) / 1'000'000;
  std::int64_t seen = 0;
  for (std::size_t bucket = first; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen >= wanted && seen > 0) return upper_bound_of(bucket);
  }
  return std::nullopt;
}

}  // namespace turnstile::policy
