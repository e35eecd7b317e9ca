#include "gateway/completion.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/authenticate.h"
#include "gateway/engine_requests.h"
#include "gateway/entry_check.h"
#include "gateway/api/generation_limits.h"
#include "gateway/health.h"
#include "gateway/live_request.h"
#include "gateway/live_requests.h"
#include "gateway/request_end.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"
#include "gateway/text_work.h"

namespace turnstile::gateway {
namespace {

RequestRecord begin_record(const Session& session, const RouteMatch& route,
                           const Principal& principal) {
  RequestRecord record;
  record.request_id = session.request_id();
  if (is_acceptable_client_id(session.head().client_request_id)) {
    record.client_request_id = session.head().client_request_id;
  }
  record.route = route.name;
  record.address = session.peer().text;
  record.team = principal.team;
  record.key_id = principal.key_id;
  return record;
}

// What admission decides on: how much is asked, and what the cache may save of it.
policy::TokenFacts token_facts(SpineContext& context, const GenerationRequest& request,
                               const policy::Resolved& resolved,
                               const std::vector<TokenIds>& prompts, Api api,
                               std::optional<policy::Duration> client_deadline) {
  policy::TokenFacts facts;
  const engine::CacheSalt salt = context.salts.of(resolved.team, request.cache_salt);
  for (const TokenIds& prompt : prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.size());
    facts.prompt_tokens += tokens;
    facts.cached_prompt_tokens +=
        static_cast<std::int64_t>(context.prefixes.known_tokens(salt, prompt));
    facts.longest_prompt_tokens = std::max(facts.longest_prompt_tokens, tokens);
  }
  facts.max_tokens = request.max_tokens;
  facts.client_deadline = client_deadline;
  if (api == Api::Completions) facts.route_default_max_tokens = kCompletionsDefaultMaxTokens;
  facts.choices = static_cast<std::int64_t>(request.choices * prompts.size());
  return facts;
}

// 8. Until admission has decided. Absent: the request has its permit.
Awaitable<std::optional<RequestEnd>> wait_for_permit(Session& session, LiveRequest& live) {
  for (;;) {
    const EventKind event = co_await session.mailbox().next();
    if (event == EventKind::Dispatched) co_return std::nullopt;
    if (event == EventKind::Refused) co_return RequestEnd::refused(live.record().refusal->code);
    if (const auto end = end_of_waiting(session, event)) co_return end;
  }
}

// 10 and 11. Until the engine is done or something ends the request. Sends as tokens come.
Awaitable<RequestEnd> generate(Session& session, SpineContext& context, LiveRequest& live,
                               TokenStream& stream, const GenerationLimits& limits) {
  const policy::Duration comment_after = context.limits.stream_wait_comment;
  policy::Instant last_sent = limits.dispatched;
  for (;;) {
    const GenerationLimits::Limit limit = limits.next(live.last_token_at(), live.is_paused());
    policy::Instant wake = limit.at;
    if (session.has_answered()) wake = std::min(wake, last_sent + comment_after);
    if (const auto write_limit = session.write_limit()) wake = std::min(wake, *write_limit);
    session.deadline().set(wake);

    const EventKind event = co_await session.mailbox().next();
    const policy::Instant now = context.clock.now();
    switch (event) {
      case EventKind::Progress:
        if (live.engine_is_done()) {
          const bool went_well = !stream.has_fault() && !live.engine_has_failed();
          co_return went_well ? RequestEnd::completed() : RequestEnd::engine_fault();
        }
        if (stream.pending().empty()) break;
        if (!session.has_answered()) session.begin_stream();
        session.send_events(stream.pending());
        stream.pending().clear();
        session.flush();
        last_sent = now;
        break;
      case EventKind::Readable: session.receive(); break;
      case EventKind::Writable: session.flush(); break;
      case EventKind::Deadline:
        if (now >= limit.at) co_return RequestEnd::timed_out(limit.code);
        if (session.has_answered() && now >= last_sent + comment_after) {
          // Nobody is told to wait for an engine that is stuck.
          if (liveness(context) == kHealthy) {
            session.send_events(kSseWait);
            session.flush();
          }
          last_sent = now;
        }
        break;
      case EventKind::KeyRevoked: co_return RequestEnd::key_revoked();
      case EventKind::Shutdown: co_return RequestEnd::draining();
      case EventKind::EngineFault: co_return RequestEnd::engine_fault();
      case EventKind::Dispatched:
      case EventKind::Refused:
      case EventKind::TextDone: break;
    }
    if (session.is_gone()) co_return RequestEnd::client_gone();
    if (session.reader_is_too_slow(now)) co_return RequestEnd::client_slow();
  }
}

// The permit returns when the engine has confirmed the end, within one step.
Awaitable<void> wait_for_engine(Session& session, LiveRequest& live) {
  while (!live.engine_is_done()) {
    const EventKind event = co_await session.mailbox().next();
    if (event == EventKind::Readable) session.receive();
  }
}

// Ended while its text was counted: it has arrived and got no verdict.
void end_uncounted(Session& session, SpineContext& context, LiveRequest& live,
                   RequestRecord& record, const RequestEnd& end, const ParamNames& names) {
  live.release(end.end_kind());
  context.metrics.on_arrived(record);
  finish_record(record, end, false, context);
  if (!end.client_is_here()) return session.hang_up();
  session.respond_error(end.error(names, record));
}

void write_answer(Session& session, TokenStream& stream, const LiveRequest& live,
                  const RequestRecord& record) {
  const Explained explained = explain(record);
  std::string out;
  if (!stream.is_streamed()) {
    stream.append_body(out, live.usage(), explained);
    return session.respond(200, "application/json", {}, out);
  }
  if (!session.has_answered()) session.begin_stream();
  stream.append_end(stream.pending(), live.usage(), explained);
  session.send_events(stream.pending());
  session.end_stream();
  session.flush();
}

void write_error(Session& session, const ApiError& error) {
  if (!session.has_answered()) return session.respond_error(error);
  std::string out;
  append_error_event(out, error, session.request_id());
  out += kSseDone;
  session.send_events(out);
  session.end_stream();
  session.flush();
}

}  // namespace

Awaitable<void> complete(Session& session, SpineContext& context, RouteMatch route) {
  // 5. auth: whose key is it? The body of a stranger is never read.
  const auto principal = authenticate(session, context);
  if (!principal) co_return session.respond_error(principal.error());
  session.standing_lines().begin(principal->key_id);
  RequestRecord record = begin_record(session, route, *principal);
  const InvalidRequest invalid(session, context);

  // 6. The body, within its limits, becomes a request.
  if (auto refused = check_before_body(session.head(), context)) co_return invalid.answer(*refused);
  std::optional<BodyCharge> charge =
      context.bodies.try_charge(principal->team, declared_body_bytes(session.head(), context));
  if (!charge) co_return invalid.answer(no_room_for_body());
  const auto body = co_await session.read_body();
  if (!body) co_return invalid.answer(body.error());
  record.arrived = context.clock.now();
  record.arrived_wall = context.clock.wall();
  const Api api = route.route == Route::ChatCompletions ? Api::Chat : Api::Completions;
  auto request = co_await read_request(session, context, api, *principal);
  if (!request) co_return invalid.answer(request.error());
  record.stream = request->stream;
  record.choices = request->choices;
  for (std::size_t i = 0; i < request->unknown_fields.size(); ++i) {
    context.metrics.on_unknown_field();
  }

  const auto client_deadline = asked_deadline(session.head());
  if (!client_deadline) co_return invalid.answer(client_deadline.error());

  //    Class and model: what may this key have?
  const ClassAsk asked = asked_class(session.head(), *request);
  const auto resolved = context.admission.resolve(
      context.clock.now(),
      {.key_id = principal->key_id,
       .requested_class = asked.name,
       .model = request->model.empty() ? std::nullopt
                                       : std::optional<std::string_view>(request->model),
       .ticket = shown_ticket(session.head(), context)});
  const ParamNames names{.prompt = request->prompt_name(),
                         .max_tokens = request->max_tokens_name,
                         .service_class = asked.param};
  if (!resolved) co_return refuse(session, context, record, resolved.error(), names);
  record.set_resolved(*resolved);
  session.standing_lines().set(resolved->class_name, resolved->revision);
  if (!request->model.empty()) record.model = request->model;

  //    Text becomes tokens. A long one takes a place before it costs anything.
  LiveRequest live(context, session.mailbox(), record);
  if (is_long(*request, context)) {
    const auto placed = live.take_place(*resolved);
    if (!placed) co_return refuse(session, context, record, placed.error(), names);
  }
  auto prompts = co_await count_tokens(session, context, *resolved, *request, record.arrived_wall);
  charge.reset();
  if (!prompts) {
    if (const auto* ended = std::get_if<RequestEnd>(&prompts.error())) {
      co_return end_uncounted(session, context, live, record, *ended, names);
    }
    live.withdraw();
    co_return invalid.answer(std::get<ApiError>(prompts.error()));
  }

  // 7. The verdict.
  const policy::TokenFacts facts =
      token_facts(context, *request, *resolved, *prompts, api, *client_deadline);
  record.prompts = static_cast<std::uint32_t>(prompts->size());
  record.prompt_tokens = static_cast<std::uint64_t>(facts.prompt_tokens);
  auto queued = live.ask(*resolved, facts);
  if (!queued) co_return refuse(session, context, record, std::move(queued.error()), names);
  record.queued = *queued;
  record.max_tokens = static_cast<std::uint64_t>(queued->max_tokens);
  context.metrics.on_arrived(record);
  context.metrics.on_queued(record);

  // 8. The waiting room.
  std::optional<RequestEnd> end;
  if (!session.receive()) end = RequestEnd::client_gone();
  if (!end) end = co_await wait_for_permit(session, live);
  session.standing_lines().keep_rates(context);

  // 9. The engine. From here on the request holds a permit and its record begins with `admitted`.
  ResponseFormat format(*request, record.request_id, record.model,
                        std::chrono::system_clock::to_time_t(record.arrived_wall));
  TokenStream stream(*request, std::move(format), context.tokenizer, *prompts);
  if (!end) {
    context.metrics.on_running(record);
    context.metrics.on_verdict(record, Metrics::Verdict::Admitted, {});
    context.audit.admitted(record);
    if (context.engine_has_failed) {
      end = RequestEnd::engine_fault();
    } else if (!live.submit(
                   engine_requests(context, live, *request, std::move(*prompts), *resolved,
                                   *client_deadline),
                   stream)) {
      end = RequestEnd::overloaded();
    }
  }

  // 10, 11. Steps come in, chunks go out.
  if (!end) {
    const GenerationLimits limits{resolved->timeouts, context.limits.request_timeout,
                                  *record.dispatched, facts.prompt_tokens};
    end = co_await generate(session, context, live, stream, limits);
  }
  if (!end->is_completed()) live.cancel();
  co_await wait_for_engine(session, live);

  // 12. Settle, record, and only then the last bytes.
  live.release(end->end_kind());
  record.finish_reason = end->is_completed() ? stream.finish_reason() : std::string_view();
  finish_record(record, *end, session.has_answered(), context);
  if (end->is_completed()) co_return write_answer(session, stream, live, record);
  if (end->client_is_here()) co_return write_error(session, end->error(names, record));
  session.hang_up();
}

}  // namespace turnstile::gateway
