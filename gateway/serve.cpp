#include "gateway/serve.h"

#include <csignal>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include "gateway/records/audit_folder.h"
#include "gateway/engine_thread.h"
#include "gateway/event_loop.h"
#include "gateway/api/json_text.h"
#include "gateway/key_watch.h"
#include "gateway/log.h"
#include "gateway/server.h"
#include "gateway/config/speculative_config.h"
#include "gateway/records/sha256.h"
#include "gateway/spine_context.h"
#include "gateway/text_threads.h"
#include "gateway/whole_file.h"
#include "policy/policy_file.h"

namespace turnstile::gateway {
namespace {

using PolicyPointer = std::shared_ptr<const policy::PolicySet>;

struct PolicyOnDisk {
  PolicyPointer rules;
  std::string sha256;  // of the file's bytes
};

tl::expected<PolicyOnDisk, ExitCode> read_policy_file(const Config& config, std::ostream& err) {
  const std::string name = config.policy.file.string();
  const auto text = read_whole_file(config.policy.file);
  if (!text) {
    err << text.error() << " 'turnstile init DIR' makes one.\n";
    return tl::unexpected(ExitCode::Environment);
  }
  const Sha256Digest digest = Sha256().digest(*text);
  const std::string revision = policy::revision_text(1, digest);
  const auto result = policy::read_policy({.text = *text,
                                           .file_name = name,
                                           .revision = revision,
                                           .engine_models = std::vector<std::string>{
                                               model_name(config.models.front())}});
  for (const auto& warning : result.warnings) err << policy::format_warning(warning) << '\n';
  for (const auto& error : result.errors) err << policy::format_error(error) << '\n';
  if (result.policy == nullptr) return tl::unexpected(ExitCode::No);
  return PolicyOnDisk{result.policy, hex_text(digest)};
}

tl::expected<KeyStore, ExitCode> read_keys(const Config& config, std::ostream& err) {
  auto keys = KeyStore::load(config.policy.keys, config.policy.pepper);
  if (keys) return std::move(*keys);
  return tl::unexpected(end_for(keys.error(), err));
}

ExitCode environment_fault(std::ostream& err, const std::string& sentence) {
  err << sentence << '\n';
  return ExitCode::Environment;
}

// Each connection needs a descriptor; some stay reserved for files and the admin listener.
void raise_descriptor_limit(const LimitsConfig& limits) {
  constexpr rlim_t kReserved = 64;
  rlimit allowed{};
  if (::getrlimit(RLIMIT_NOFILE, &allowed) != 0) return;
  const rlim_t wanted = rlim_t{limits.max_connections} * 4 + kReserved;
  allowed.rlim_cur = std::min(std::max(allowed.rlim_cur, wanted), allowed.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &allowed);
  if (allowed.rlim_cur < rlim_t{limits.max_connections} + kReserved) {
    log_warning("the system allows " + std::to_string(allowed.rlim_cur) +
                " descriptors, fewer than max_connections needs; raise LimitNOFILE");
  }
}

std::string effective_json(const Config& config) {
  std::string json = "{";
  for (const EffectiveSetting& setting : effective(config)) {
    if (json.size() > 1) json += ',';
    append_json_string(json, setting.key);
    json += R"(:{"value":)";
    append_json_string(json, setting.value);
    json += R"(,"origin":)";
    append_json_string(json, to_string(setting.origin));
    json += '}';
  }
  return json + "}";
}

policy::EngineFacts engine_facts(const ServedModel& served) {
  return {.kv_blocks = static_cast<std::int64_t>(served.limits.kv_cache_blocks),
          .sequence_slots = served.limits.max_num_seqs,
          .max_model_len = served.limits.max_model_len,
          .model_name = served.name};
}

JsonLimits json_limits(const LimitsConfig& limits) {
  return {.max_depth = limits.max_json_depth,
          .max_keys = limits.max_json_keys,
          .max_messages = limits.max_messages,
          .max_prompt_bytes = limits.max_prompt_bytes};
}

MetricsLabels metrics_labels(const policy::PolicySet& policy, const ServedModel& served) {
  MetricsLabels labels{.model_name = served.name, .teams = {}, .classes = {}};
  labels.speculation = method_name(served.limits.speculation);
  for (const policy::Team& team : policy.teams) labels.teams.push_back(team.name);
  for (const policy::ClassRules& rules : policy.classes) labels.classes.push_back(rules.name);
  return labels;
}

struct Prepared {
  PolicyPointer policy;
  std::string policy_sha256;
  KeyStore keys;
  AdminAccess admin;
  std::unique_ptr<TlsContext> tls;  // null: plain HTTP
};

// What can be checked without a socket and without packing weights.
tl::expected<Prepared, ExitCode> prepare(const Config& config, std::ostream& err) {
  if (config.models.empty()) {
    err << "no model: name one as `turnstile serve MODEL`, or as path below [[models]] in "
           "turnstile.toml\n";
    return tl::unexpected(ExitCode::Environment);
  }
  auto policy = read_policy_file(config, err);
  if (!policy) return tl::unexpected(policy.error());
  auto keys = read_keys(config, err);
  if (!keys) return tl::unexpected(keys.error());
  if (auto listen = Listener::check(config.server.admin_listen, "admin_listen"); !listen) {
    return tl::unexpected(environment_fault(err, listen.error()));
  }
  auto admin = AdminAccess::load(config.server);
  if (!admin) return tl::unexpected(environment_fault(err, admin.error()));
  Prepared prepared{std::move(policy->rules), std::move(policy->sha256), std::move(*keys),
                    std::move(*admin), nullptr};
  if (config.server.has_tls()) {
    auto tls = TlsContext::load(config.server.tls_cert, config.server.tls_key);
    if (!tls) return tl::unexpected(environment_fault(err, tls.error()));
    prepared.tls = std::move(*tls);
  }
  return prepared;
}

void watch_certificate(TlsContext* tls, EventLog& events) {
  if (tls == nullptr) return;
  switch (tls->reload_if_changed()) {
    case TlsContext::Reload::Unchanged: return;
    case TlsContext::Reload::Applied: events.write("tls_reload", "file", {}); return;
    case TlsContext::Reload::Rejected:
      log_warning(tls->reload_error() + "; the certificate read before stays in use");
      events.write("tls_rejected", "file", {});
      return;
  }
}

}  // namespace

ExitCode check_serve(const Config& config, Surroundings around, const ModelLoader& load) {
  const auto prepared = prepare(config, around.err);
  if (!prepared) return prepared.error();
  // Nothing less finds a tensor that is missing or a context that does not fit the KV cache.
  const auto served = load(config.models.front(), around.err);
  if (!served) return environment_fault(around.err, served.error());
  policy::Admission admission(prepared->policy, engine_facts(*served));
  for (const policy::KeyProblem& problem :
       admission.set_keys(around.clock.now(), prepared->keys.nodes())) {
    around.err << config.policy.keys.string() << ": warning: key " << problem.key_id << ": "
               << problem.what << '\n';
  }
  for (const EffectiveSetting& setting : effective(config)) {
    around.out << setting.key << " = " << setting.value << "  (" << to_string(setting.origin)
               << ")\n";
  }
  return ExitCode::Done;
}

ExitCode serve(const Config& config, Surroundings around, const ModelLoader& load) {
  // A closed socket and a file at the process's size limit are errors of that write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Tools that rotate logs send these out of habit; nothing here is rotated by others.
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
  auto prepared = prepare(config, around.err);
  if (!prepared) return prepared.error();
  raise_descriptor_limit(config.limits);

  // The sockets come before the model: a port that is taken is told within milliseconds.
  EventLoop loop(around.clock);
  auto open_to_all = Listener::open(loop, config.server.listen, "listen");
  if (!open_to_all) return environment_fault(around.err, open_to_all.error());
  auto admin = Listener::open(loop, config.server.admin_listen, "admin_listen");
  if (!admin) return environment_fault(around.err, admin.error());
  const std::string scheme = prepared->tls ? "https://" : "http://";
  const std::string public_url = scheme + (*open_to_all)->address().text();
  const std::string admin_url = "http://" + (*admin)->address().text();

  const auto audit_lock = lock_audit_folder(config.server.state_dir);
  if (!audit_lock) return environment_fault(around.err, audit_lock.error());

  auto served = load(config.models.front(), around.err);
  if (!served) return environment_fault(around.err, served.error());

  auto audit_start = open_audit_folder(config.server.state_dir);
  if (!audit_start) return environment_fault(around.err, audit_start.error());
  if (!audit_start->unended.empty()) {
    log_warning("the server before ended without the ends of " +
                std::to_string(audit_start->unended.size()) +
                " requests; the records get their ends now, as `recovered`");
  }
  if (!audit_start->unlisted.empty()) {
    log_warning("requests.jsonl lacks the last " + std::to_string(audit_start->unlisted.size()) +
                " requests of the audit log; it gets them now, as `recovered`");
  }
  auto writer = LineWriter::open({.state_dir = config.server.state_dir,
                                  .audit_file_number = audit_start->file_number});
  if (!writer) return environment_fault(around.err, writer.error());
  EventLog events(around.clock, **writer);
  AuditLog audit(around.clock, **writer, std::move(*audit_start));
  events.write_json("start", "serve", "configuration", effective_json(config));
  audit.policy(prepared->policy->revision, prepared->policy_sha256, config.policy.file.string());

  Metrics metrics(metrics_labels(*prepared->policy, *served));
  metrics.set_policy_revision(prepared->policy->revision);
  const policy::EngineFacts facts = engine_facts(*served);
  policy::Admission admission(prepared->policy, facts);
  const ModelFacts model{.vocab_size = served->tokenizer->vocab_size(),
                         .max_model_len = served->limits.max_model_len,
                         .max_prompt_tokens = static_cast<std::size_t>(facts.kv_blocks *
                                                                       facts.block_tokens)};
  RequestParser parser(json_limits(config.limits));
  Deadlines deadlines;
  RequestIds ids(around.random);
  LiveRequests live;
  BodyBudget bodies(config.limits.max_inflight_body_bytes,
                    config.limits.max_team_inflight_body_bytes);
  Drain drain(config.server.drain_delay, config.server.drain_timeout);
  TextThreads text_threads(TextThreads::count_for(std::thread::hardware_concurrency()));
  TextPool texts(text_threads);
  EngineThread engine(std::move(served->engine), around.clock,
                      most_engine_requests(served->limits, config.limits));

  SpineContext context{
      .clock = around.clock,
      .executor = loop.context().get_executor(),
      .limits = config.limits,
      .deadlines = deadlines,
      .random = around.random,
      .ids = ids,
      .keys = prepared->keys,
      .admission = admission,
      .parser = parser,
      .tokenizer = *served->tokenizer,
      .chat_template = served->chat_template ? &*served->chat_template : nullptr,
      .model = model,
      .engine_model = served->name,
      .started = around.clock.wall(),
      .engine = engine,
      .live = live,
      .texts = texts,
      .audit = audit,
      .records = **writer,
      .metrics = metrics,
      .bodies = bodies,
      .drain = drain,
      .admin = std::move(prepared->admin),
  };
  KeyWatch key_watch(context, events);
  TlsContext* tls = prepared->tls.get();
  Server server(loop, context, {std::move(*open_to_all), std::move(*admin)}, tls, [&] {
    key_watch.tick();
    watch_certificate(tls, events);
  });
  server.watch(engine.ready_fd(), [&engine] { engine.clear_ready(); });
  server.watch(text_threads.ready_fd(), [&text_threads] { text_threads.clear_ready(); });
  loop.on_signal([&](int number) {
    if (number != SIGHUP) events.write("drain", "signal", {});
    server.on_signal(number);
  });
  around.out << "admin " << admin_url << "\nready " << public_url << std::endl;
  server.run();

  const auto fault = engine.fault();
  if (fault) {
    log_error("the engine failed: " + *fault);
    const std::pair<std::string_view, std::string> fields[] = {{"reason", *fault}};
    events.write("engine_fault", "serve", fields);
  }
  audit.close();
  events.write("stop", "serve", {});
  if (const std::size_t lost = (*writer)->close(); lost > 0) {
    log_error(config.server.state_dir.string() + ": the disk did not take the last " +
              std::to_string(lost) +
              " records; free space there: the next start writes an end for each request that "
              "has none");
    if (!fault) return ExitCode::Environment;
  }
  return fault ? ExitCode::EngineFault : ExitCode::Done;
}

}  // namespace turnstile::gateway
