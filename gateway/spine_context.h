// spine_context.h: what the coroutines of the I/O thread work with, in one place.
//
// References only; serve.cpp owns the things and builds this once, the simulator builds it over a
// manual clock and a fake engine. The counters are the I/O thread's own.
//
// Thread: I/O.
#pragma once

#include <cstddef>

#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/admin_access.h"
#include "gateway/records/audit.h"
#include "gateway/http/body_budget.h"
#include "gateway/cache_salt.h"
#include "gateway/clock.h"
#include "gateway/config/config.h"
#include "gateway/deadlines.h"
#include "gateway/drain.h"
#include "gateway/engine_port.h"
#include "gateway/api/generation_request.h"
#include "gateway/http/http_date.h"
#include "gateway/ids.h"
#include "gateway/keys/keys.h"
#include "gateway/live_requests.h"
#include "gateway/mailbox.h"
#include "gateway/metrics/metrics.h"
#include "gateway/prefix_hints.h"
#include "gateway/tickets.h"
#include "gateway/text_pool.h"
#include "policy/admission.h"

namespace turnstile::gateway {

struct SpineContext {
  const Clock& clock;
  IoExecutor executor;
  const LimitsConfig& limits;
  Deadlines& deadlines;
  RandomSource& random;
  RequestIds& ids;

  KeyStore& keys;
  policy::Admission& admission;
  RequestParser& parser;
  const engine::Tokenizer& tokenizer;
  const engine::ChatTemplate* chat_template;  // null: the model file has none
  const ModelFacts& model;
  std::string_view engine_model;  // the engine's name
  WallTime started;
  EnginePort& engine;
  LiveRequests& live;
  TextPool& texts;

  AuditLog& audit;
  LineSink& records;
  Metrics& metrics;
  BodyBudget& bodies;
  Drain& drain;

  AdminAccess admin{};
  HttpDate date{};
  TicketTexts tickets{};
  CacheSalts salts{};
  PrefixHints prefixes{};
  bool engine_has_failed = false;    // its requests were told
  std::size_t open_requests = 0;     // from a complete header to a written answer
  std::size_t open_connections = 0;  // sessions
  std::size_t handshakes = 0;        // sessions whose TLS handshake is not done
};

}  // namespace turnstile::gateway
