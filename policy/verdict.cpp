#include "policy/verdict.h"

#include <cassert>

namespace turnstile::policy {

std::string_view to_string(RefusalCode code) {
  switch (code) {
    case RefusalCode::InvalidValue: return "invalid_value";
    case RefusalCode::ContextLengthExceeded: return "context_length_exceeded";
    case RefusalCode::InputTooLong: return "input_too_long";
    case RefusalCode::ExceedsBudgetCapacity: return "exceeds_budget_capacity";
    case RefusalCode::KeyDisabled: return "key_disabled";
    case RefusalCode::ModelNotAllowed: return "model_not_allowed";
    case RefusalCode::ModelNotFound: return "model_not_found";
    case RefusalCode::RateRequests: return "rate_requests";
    case RefusalCode::BudgetTokens: return "budget_tokens";
    case RefusalCode::QueueFull: return "queue_full";
    case RefusalCode::WouldMissDeadline: return "would_miss_deadline";
    case RefusalCode::Displaced: return "displaced";
    case RefusalCode::QueueDeadline: return "queue_deadline";
  }
  assert(false && "every refusal code has a name");
  return {};
}

std::string_view to_string(TicketUse use) {
  switch (use) {
    case TicketUse::None: return {};
    case TicketUse::Kept: return "kept";
    case TicketUse::Early: return "early";
    case TicketUse::Mismatch: return "mismatch";
    case TicketUse::Unknown: return "unknown";
  }
  assert(false && "every use of a ticket has a name");
  return {};
}

bool counts_as_refusal(RefusalCode code) {
  return code != RefusalCode::InvalidValue && code != RefusalCode::ContextLengthExceeded;
}

namespace {

// "the limit of team/lab", or "the limit" when nobody in particular owns it.
std::string limit_of(const Refusal& refusal) {
  const std::string number = std::to_string(refusal.limit);
  return refusal.scope.empty() ? number : number + " (" + refusal.scope + ")";
}

}  // namespace

std::string sentence(const Refusal& refusal) {
  const std::string limit = limit_of(refusal);
  const std::string asked = std::to_string(refusal.asked);
  switch (refusal.code) {
    case RefusalCode::InvalidValue:
      if (refusal.param == "class") return "The requested class does not exist.";
      return refusal.param + (refusal.param == "n" ? " (times the prompts) is " : " is ") + asked +
             ", above the limit of " + limit + ".";
    case RefusalCode::ContextLengthExceeded:
      return "The request needs " + asked + " tokens of context; the limit is " + limit + ".";
    case RefusalCode::InputTooLong:
      return "The prompt has " + asked + " tokens; the limit is " + limit + ".";
    case RefusalCode::ExceedsBudgetCapacity:
      return "The request would reserve " + asked + " tokens, more than a full budget of " + limit +
             " holds; send a shorter prompt or a smaller max_tokens.";
    case RefusalCode::KeyDisabled: return "This key may not be used at present.";
    case RefusalCode::ModelNotAllowed: return "This key may not use the requested model.";
    case RefusalCode::ModelNotFound: return "The requested model does not exist.";
    case RefusalCode::RateRequests:
      return "Too many requests: the limit per minute is " + limit + ".";
    case RefusalCode::BudgetTokens:
      return "The token budget is used up: the limit per minute is " + limit + ".";
    case RefusalCode::QueueFull:
      return "No place to wait: the limit of " + refusal.meter + " is " + limit + ".";
    case RefusalCode::WouldMissDeadline:
      return "The first token is predicted after " + asked + " ms; the limit in ms is " + limit +
             ".";
    case RefusalCode::Displaced:
      return "The queue was full and a request of a higher class took this place.";
    case RefusalCode::QueueDeadline:
      return "The request waited " + std::to_string(refusal.limit) +
             " ms without being started; its first token could no longer come in time.";
  }
  assert(false && "every refusal code has a sentence");
  return {};
}

Duration with_jitter(Duration wait, std::uint64_t seed) {
  assert(wait.count() >= 0 && "a wait is not negative");
  // The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014) spreads consecutive ids evenly.
  std::uint64_t hash = seed + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  hash ^= hash >> 31;
  const auto share = static_cast<std::int64_t>(hash % 251);  // 0 ... 250 thousandths
  return wait + Duration{wait.count() / 1000 * share};
}

}  // namespace turnstile::policy
