#include "gateway/plain_routes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gateway/authenticate.h"
#include "gateway/api/generation_response.h"
#include "gateway/health.h"
#include "gateway/log.h"
#include "gateway/records/records.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"
#include "gateway/token_routes.h"

namespace turnstile::gateway {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

void answer_health(Session& session, std::string_view word) {
  std::string body(word);
  body += '\n';
  session.respond(word == kHealthy ? 200 : 503, kText, "cache-control: no-store\r\n", body);
}

void answer_metrics(Session& session, SpineContext& context) {
  const auto meters =
      context.admission.meters(context.clock.now(), policy::Admission::Detail::Shared);
  context.metrics.set_meters(meters);
  session.respond(200, kPrometheus, {}, context.metrics.text());
}

// 202: requests are served until the delay is over, and running ones to their end.
void answer_drain(Session& session, SpineContext& context) {
  if (context.drain.phase() == ServePhase::Serving) {
    log_info("draining: asked for by POST /admin/drain");
    EventLog(context.clock, context.records).write("drain", "admin", {});
    context.drain.begin(context.clock.now());
  }
  session.respond(202, kJson, {}, R"({"result":"draining"})");
}

// Whether the admin listener may answer; if not, it has.
bool is_admitted(Session& session, SpineContext& context) {
  const auto refusal = context.admin.refusal(session.head());
  if (!refusal) return true;
  context.metrics.on_auth_failure();
  context.audit.stranger(session.peer().text, to_string(refusal->code), refusal->status());
  session.respond_error(*refusal);
  return false;
}

ModelCard card_of(const SpineContext& context, std::string_view key_id, std::string_view alias) {
  ModelCard card{.id = alias,
                 .created_unix_s = std::chrono::system_clock::to_time_t(context.started),
                 .root = context.engine_model,
                 .max_model_len = context.model.max_model_len,
                 .max_input_tokens = std::nullopt,
                 .max_output_tokens = std::nullopt};
  const auto resolved = context.admission.resolve(
      context.clock.now(), {.key_id = key_id, .requested_class = std::nullopt, .model = alias});
  if (resolved && resolved->max_input) card.max_input_tokens = resolved->max_input->tokens;
  if (resolved && resolved->max_output) card.max_output_tokens = resolved->max_output->tokens;
  return card;
}

void answer_models(Session& session, SpineContext& context, const Principal& principal) {
  const std::vector<std::string> aliases = context.admission.models_for(principal.key_id);
  std::vector<ModelCard> cards;
  for (const std::string& alias : aliases) {
    cards.push_back(card_of(context, principal.key_id, alias));
  }
  std::string body;
  append_model_list(body, cards);
  session.respond(200, kJson, {}, body);
}

void answer_model(Session& session, SpineContext& context, const Principal& principal,
                  std::string_view alias) {
  const std::vector<std::string> aliases = context.admission.models_for(principal.key_id);
  if (std::find(aliases.begin(), aliases.end(), alias) == aliases.end()) {
    return session.respond_error(
        make_error(ApiCode::ModelNotFound, "There is no such model for this key.", "model"));
  }
  std::string body;
  append_model(body, card_of(context, principal.key_id, alias));
  session.respond(200, kJson, {}, body);
}

}  // namespace

Awaitable<void> answer_plain(Session& session, SpineContext& context, RouteMatch route) {
  Principal principal;
  if (!route.is_open_to_all() && session.needs_keys()) {
    auto known = authenticate(session, context);
    if (!known) co_return session.respond_error(known.error());
    principal = std::move(*known);
  } else if (!route.is_open_to_all() && !is_admitted(session, context)) {
    co_return;
  }
  if (route.route == Route::NotFound) {
    co_return session.respond_error(make_error(ApiCode::NotFound, "There is no such route."));
  }
  if (!route.allows(session.head().method)) {
    if (route.generates()) session.standing_lines().begin(principal.key_id);
    co_return session.respond_error(
        make_error(ApiCode::MethodNotAllowed, "This route does not know the method."),
        "allow: " + std::string(route.allowed) + "\r\n");
  }
  switch (route.route) {
    case Route::Health:
    case Route::Livez: co_return answer_health(session, liveness(context));
    case Route::Readyz: co_return answer_health(session, readiness(context));
    case Route::Metrics: co_return answer_metrics(session, context);
    case Route::AdminDrain: co_return answer_drain(session, context);
    case Route::Models: co_return answer_models(session, context, principal);
    case Route::Model: co_return answer_model(session, context, principal, route.argument);
    case Route::Tokenize:
    case Route::Detokenize:
      co_await answer_tokens(session, context, principal, route.route);
      co_return;
    case Route::ChatCompletions:
    case Route::Completions:
    case Route::NotFound: break;
  }
}

}  // namespace turnstile::gateway
