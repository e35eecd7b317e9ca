#include "gateway/text_work.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gateway/keys/keys.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"

namespace turnstile::gateway {
namespace {

constexpr policy::Duration kTextRoomWait = std::chrono::seconds(1);

// Rendering a message without text costs as much as tokenizing so many bytes at their slowest.
constexpr std::size_t kMessageBytes = 16;

class ReadTask final : public TextTask {
 public:
  ReadTask(Api api, std::string body, const JsonLimits& limits, const ModelFacts& model)
      : api_(api), body_(std::move(body)), limits_(limits), model_(model) {}

  void run() override {
    RequestParser parser(limits_);
    request_.emplace(parser.parse(api_, body_, model_));
    body_ = {};
  }
  tl::expected<GenerationRequest, ApiError>& request() { return *request_; }

 private:
  Api api_;
  std::string body_;
  JsonLimits limits_;
  const ModelFacts& model_;
  std::optional<tl::expected<GenerationRequest, ApiError>> request_;
};

class CountTask final : public TextTask {
 public:
  CountTask(const PromptEncoder& encoder, GenerationRequest texts)
      : encoder_(encoder), texts_(std::move(texts)) {}

  void run() override {
    prompts_.emplace(encoder_.encode(texts_));
    texts_ = {};
  }
  tl::expected<std::vector<TokenIds>, ApiError>& prompts() { return *prompts_; }

 private:
  PromptEncoder encoder_;
  GenerationRequest texts_;
  std::optional<tl::expected<std::vector<TokenIds>, ApiError>> prompts_;
};

// Only what is counted.
GenerationRequest take_texts(GenerationRequest& request) {
  GenerationRequest texts;
  texts.api = request.api;
  texts.messages = std::exchange(request.messages, {});
  texts.prompts = std::exchange(request.prompts, {});
  texts.add_generation_prompt = request.add_generation_prompt;
  return texts;
}

}  // namespace

ApiError no_room_for_text() {
  ApiError error = make_error(ApiCode::Overloaded, "Too many long texts are being read at once.");
  error.retry_after = kTextRoomWait;
  return error;
}

std::size_t likely_class(const Session& session, const SpineContext& context,
                         std::string_view key_id) {
  const std::string& asked = session.head().service_class;
  const auto resolved = context.admission.resolve(
      context.clock.now(),
      {.key_id = key_id,
       .requested_class = asked.empty() ? std::nullopt : std::optional<std::string_view>(asked),
       .model = std::nullopt});
  return resolved ? resolved->class_index : context.admission.policy().classes.size();
}

Awaitable<std::optional<RequestEnd>> wait_for_text(Session& session, const TextTicket& ticket) {
  while (!ticket.is_done()) {
    const EventKind event = co_await session.mailbox().next();
    if (const auto end = end_of_waiting(session, event)) co_return end;
  }
  co_return std::nullopt;
}

Awaitable<tl::expected<GenerationRequest, std::optional<ApiError>>> read_request(
    Session& session, SpineContext& context, Api api, const Principal& principal) {
  using Failed = tl::unexpected<std::optional<ApiError>>;
  if (session.body().size() <= context.texts.long_text().body_bytes) {
    auto read = context.parser.parse(api, session.body(), context.model);
    if (!read) co_return Failed(std::move(read.error()));
    co_return std::move(*read);
  }
  TextTicket ticket(context.texts, session.mailbox());
  const std::size_t class_index = likely_class(session, context, principal.key_id);
  auto task = std::make_unique<ReadTask>(api, std::move(session.body()), context.parser.limits(),
                                         context.model);
  if (!ticket.try_start(class_index, principal.team, std::move(task))) {
    co_return Failed(no_room_for_text());
  }
  const auto end = co_await wait_for_text(session, ticket);
  if (end) co_return Failed(end->answer_before_arrival());
  const std::unique_ptr<TextTask> done = ticket.take();
  auto& read = static_cast<ReadTask&>(*done).request();
  if (!read) co_return Failed(std::move(read.error()));
  co_return std::move(*read);
}

bool is_long(const GenerationRequest& request, const SpineContext& context) {
  return text_bytes(request) + request.messages.size() * kMessageBytes >
         context.texts.long_text().text_bytes;
}

Awaitable<tl::expected<std::vector<TokenIds>, CountFailure>> count_tokens(
    Session& session, SpineContext& context, const policy::Resolved& resolved,
    GenerationRequest& request, WallTime now) {
  using Failed = tl::unexpected<CountFailure>;
  const PromptEncoder encoder{context.tokenizer, context.chat_template, context.model, now};
  if (!is_long(request, context)) {
    auto prompts = encoder.encode(request);
    if (!prompts) co_return Failed(std::move(prompts.error()));
    co_return std::move(*prompts);
  }
  TextTicket ticket(context.texts, session.mailbox());
  auto task = std::make_unique<CountTask>(encoder, take_texts(request));
  if (!ticket.try_start(resolved.class_index, resolved.team, std::move(task))) {
    co_return Failed(no_room_for_text());
  }
  const auto end = co_await wait_for_text(session, ticket);
  if (end) co_return Failed(*end);
  const std::unique_ptr<TextTask> done = ticket.take();
  auto& prompts = static_cast<CountTask&>(*done).prompts();
  if (!prompts) co_return Failed(std::move(prompts.error()));
  co_return std::move(*prompts);
}

}  // namespace turnstile::gateway
