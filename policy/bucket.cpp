#include "policy/bucket.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "policy/policy_set.h"

namespace turnstile::policy {
namespace {

// One microsecond at a rate of one token a minute earns one unit.
constexpr std::int64_t kUnitsPerToken = 60'000'000;

// A full bucket holds at most a minute's limit; the same again is left for debt.
static_assert(kMaxPerMinute <= INT64_MAX / kUnitsPerToken / 2,
              "levels of the largest bucket and its debt fit 64 bits");

}  // namespace

Bucket::Bucket(std::string name, std::string scope, std::optional<Limit> limit, Instant now)
    : name_(std::move(name)), scope_(std::move(scope)), limit_(limit) {
  level_.at = now;
  if (limit_) {
    assert(limit_->capacity >= 1 && limit_->per_minute >= 0 && "limits come from the reader");
    level_.units = limit_->capacity * kUnitsPerToken;
  }
}

Bucket::Level Bucket::level_at(Instant now) const {
  assert(now >= level_.at && "time does not go back");
  const std::int64_t full = limit_->capacity * kUnitsPerToken;
  const std::int64_t missing = full - level_.units;
  const std::int64_t elapsed_us = (now - level_.at).count() / 1000;
  if (limit_->per_minute == 0) return level_;
  if (elapsed_us > missing / limit_->per_minute) return {full, now};
  return {level_.units + elapsed_us * limit_->per_minute,
          level_.at + Duration{elapsed_us * 1000}};
}

Duration Bucket::time_to_earn(std::int64_t units, std::int64_t per_minute) {
  return std::chrono::microseconds((units + per_minute - 1) / per_minute);
}

bool Bucket::fits(Instant now, std::int64_t amount) const {
  if (!limit_) return true;
  return limit_->per_minute > 0 && level_at(now).units >= amount * kUnitsPerToken;
}

std::optional<Duration> Bucket::wait_for(Instant now, std::int64_t amount) const {
  return wait_after(now, 0, amount);
}

std::optional<Duration> Bucket::wait_after(Instant now, std::int64_t before_it,
                                           std::int64_t amount) const {
  if (fits(now, before_it + amount)) return Duration{0};
  if (limit_->per_minute == 0 || amount > limit_->capacity) return std::nullopt;
  const Level level = level_at(now);
  const std::int64_t missing = (before_it + amount) * kUnitsPerToken - level.units;
  return time_to_earn(missing, limit_->per_minute) - (now - level.at);
}

void Bucket::take(Instant now, std::int64_t amount) {
  assert(amount >= 0 && "a negative amount is given, not taken");
  held_ += amount;
  if (!limit_) return;
  level_ = level_at(now);
  level_.units -= amount * kUnitsPerToken;
}

void Bucket::give(Instant now, std::int64_t amount) {
  assert(amount >= 0 && amount <= held_ && "only what was taken can be given back");
  held_ -= amount;
  if (!limit_) return;
  level_ = level_at(now);
  const std::int64_t full = limit_->capacity * kUnitsPerToken;
  level_.units = std::min(full, level_.units + amount * kUnitsPerToken);
}

void Bucket::settle(std::int64_t amount) {
  assert(amount >= 0 && amount <= held_ && "only what was taken can be settled");
  held_ -= amount;
}

void Bucket::set_limit(Instant now, std::optional<Limit> limit) {
  if (limit == limit_) return;
  const bool was_limited = limit_.has_value();
  if (was_limited) level_ = level_at(now);
  limit_ = limit;
  if (!limit_) return;
  const std::int64_t full = limit_->capacity * kUnitsPerToken;
  level_ = {was_limited ? std::min(full, level_.units) : full, was_limited ? level_.at : now};
}

std::int64_t Bucket::available(Instant now) const {
  assert(limit_ && "only a limited bucket has a level");
  if (limit_->per_minute == 0) return 0;
  const std::int64_t units = level_at(now).units;
  return units >= 0 ? units / kUnitsPerToken : -((-units + kUnitsPerToken - 1) / kUnitsPerToken);
}

Duration Bucket::until_full(Instant now) const {
  assert(limit_ && "only a limited bucket has a level");
  if (limit_->per_minute == 0) return Duration{0};
  const Level level = level_at(now);
  const std::int64_t missing = limit_->capacity * kUnitsPerToken - level.units;
  if (missing <= 0) return Duration{0};
  return time_to_earn(missing, limit_->per_minute) - (now - level.at);
}

}  // namespace turnstile::policy
