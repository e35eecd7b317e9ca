#include "tests/support/spine_world.h"

#include <charconv>
#include <stdexcept>
#include <utility>

#include "gateway/keys/key_secret.h"
#include "gateway/keys/keys_file.h"
#include "gateway/spine_turn.h"
#include "policy/policy_file.h"
#include "tests/support/toy_tokenizer.h"

namespace turnstile::tests {
namespace {

using namespace gateway;

constexpr std::string_view kPepper = "0123456789012345678901234567890123456789";
constexpr std::string_view kEngineName = "toy";
// Every message followed by a space; the words of the client only.
constexpr std::string_view kTemplate =
    "{% for message in messages %}{{ message.content }} {% endfor %}";

std::shared_ptr<const policy::PolicySet> read_policy_text(const std::string& text) {
  auto result = policy::read_policy({.text = text,
                                     .file_name = "policies.toml",
                                     .revision = "r1-00000001",
                                     .engine_models = std::vector<std::string>{"toy"}});
  if (!result.policy) throw std::runtime_error(policy::format_error(result.errors.front()));
  return result.policy;
}

std::vector<std::string> make_secrets(std::size_t count, RandomSource& random) {
  std::vector<std::string> secrets;
  for (std::size_t i = 0; i < count; ++i) secrets.push_back(make_secret(random));
  return secrets;
}

KeyStore make_keys(const SpineWorldOptions& options, const std::vector<std::string>& secrets) {
  std::string text;
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    KeyEntry entry;
    entry.node.id = options.keys[i].first;
    entry.node.team = options.keys[i].second;
    entry.public_id = *public_id_of(secrets[i]);
    entry.hash = KeyHasher(kPepper).hash(secrets[i]);
    text = *with_key(text, entry);
  }
  auto store = KeyStore::from_text(text + options.more_keys, kPepper);
  if (!store) throw std::runtime_error(to_string(store.error().errors.front()));
  return std::move(*store);
}

policy::EngineFacts engine_facts(const SpineWorldOptions& options) {
  return {.kv_blocks = static_cast<std::int64_t>(options.engine.blocks),
          .block_tokens = FakeEngine::kBlockTokens,
          .sequence_slots = options.engine.sequences,
          .max_model_len = options.max_model_len,
          .model_name = std::string(kEngineName)};
}

MetricsLabels labels_of(const policy::PolicySet& policy) {
  MetricsLabels labels{.model_name = std::string(kEngineName), .teams = {}, .classes = {}};
  for (const auto& team : policy.teams) labels.teams.push_back(team.name);
  for (const auto& rules : policy.classes) labels.classes.push_back(rules.name);
  return labels;
}

}  // namespace

SpineWorld::SpineWorld(SpineWorldOptions options)
    : engine(clock, options.engine),
      text_workers(options.text_workers),
      options_(std::move(options)),
      random_(options_.seed),
      secrets_(make_secrets(options_.keys.size(), random_)),
      ids_(random_),
      keys_(make_keys(options_, secrets_)),
      admission_(read_policy_text(options_.policy), engine_facts(options_)),
      parser_(JsonLimits{}),
      tokenizer_(toy_tokenizer()),
      template_(*engine::ChatTemplate::compile(kTemplate, "", "")),
      model_{.vocab_size = tokenizer_->vocab_size(),
             .max_model_len = options_.max_model_len,
             .max_prompt_tokens = options_.engine.blocks * FakeEngine::kBlockTokens},
      audit_(clock, lines, AuditStart{}),
      metrics_(labels_of(admission_.policy())),
      bodies_(options_.limits.max_inflight_body_bytes,
              options_.limits.max_team_inflight_body_bytes),
      drain_(options_.drain_delay, options_.drain_timeout),
      texts_(text_workers, options_.long_text),
      context{.clock = clock,
              .executor = io_.get_executor(),
              .limits = options_.limits,
              .deadlines = deadlines_,
              .random = random_,
              .ids = ids_,
              .keys = keys_,
              .admission = admission_,
              .parser = parser_,
              .tokenizer = *tokenizer_,
              .chat_template = &template_,
              .model = model_,
              .engine_model = kEngineName,
              .started = clock.wall(),
              .engine = engine,
              .live = live_,
              .texts = texts_,
              .audit = audit_,
              .records = lines,
              .metrics = metrics_,
              .bodies = bodies_,
              .drain = drain_},
      sessions(std::make_unique<SessionSet>(context)) {
  admission_.set_keys(clock.now(), keys_.nodes());
}

SpineWorld::~SpineWorld() {
  sessions->abandon_all();
  settle();
}

MemoryClient SpineWorld::connect(ListenerKind listener, PeerAddress peer) {
  MemoryClient client;
  sessions->adopt(client.connect(std::move(peer)), listener);
  settle();
  return client;
}

bool SpineWorld::turn(std::size_t most_handlers) {
  io_.restart();
  std::size_t handlers = 0;
  while (handlers < most_handlers && io_.poll_one() != 0) ++handlers;
  end_turn(context);
  return handlers > 0;
}

void SpineWorld::settle() {
  // The end of a turn may have put something into a mailbox, so one quiet turn is not enough.
  for (int quiet = 0; quiet < 2;) {
    const bool has_worked = !holds_texts && text_workers.step();
    quiet = turn() || has_worked ? 0 : quiet + 1;
  }
}

void SpineWorld::advance(policy::Duration by) {
  clock.advance(by);
  settle();
}

void SpineWorld::run_engine() {
  settle();
  while (engine.step()) settle();
}

std::string SpineWorld::post(std::string_view path, std::string_view body, std::size_t key,
                             std::string_view more) const {
  std::string text = "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n";
  text += "Authorization: Bearer " + secrets_[key] + "\r\n";
  text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
  text += "\r\n" + std::string(more) + "\r\n" + std::string(body);
  return text;
}

std::string SpineWorld::get(std::string_view path, std::size_t key) const {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer " +
         secrets_[key] + "\r\n\r\n";
}

std::size_t SpineWorld::audit_count(std::string_view kind) const {
  const std::string wanted = "\"kind\":\"" + std::string(kind) + "\"";
  std::size_t count = 0;
  for (const std::string& line : lines.lines(LineStream::Audit)) {
    if (line.find(wanted) != std::string::npos) ++count;
  }
  return count;
}

std::string SpineWorld::metrics_text() { return metrics_.text(); }

double SpineWorld::metric(std::string_view family, std::string_view labels) {
  const std::string text = metrics_.text();
  double sum = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.starts_with(family) || line.size() == family.size()) continue;
    const char after = line[family.size()];
    if ((after != '{' && after != ' ') || line.find(labels) == std::string_view::npos) continue;
    const std::string_view value = line.substr(line.rfind(' ') + 1);
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    sum += number;
  }
  return sum;
}

}  // namespace turnstile::tests
