#include "gateway/token_routes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/detokenizer.h"
#include "gateway/api/generation_response.h"
#include "gateway/entry_check.h"
#include "gateway/keys/keys.h"
#include "gateway/prompt_tokens.h"
#include "gateway/session.h"
#include "gateway/spine_context.h"
#include "gateway/text_work.h"

namespace turnstile::gateway {
namespace {

// Whether the key may use the model that the body names; an empty name is the default model.
std::optional<ApiError> check_model(const SpineContext& context, const Principal& principal,
                                    const std::string& model) {
  const policy::Ask ask{.key_id = principal.key_id,
                        .requested_class = std::nullopt,
                        .model = model.empty() ? std::nullopt
                                               : std::optional<std::string_view>(model)};
  const auto resolved = context.admission.resolve(context.clock.now(), ask);
  if (resolved) return std::nullopt;
  return from_refusal(resolved.error(), ParamNames{}, context.admission.policy().revision);
}

// From the body to the answer. Whether the key may have it is policy's to say, on its own thread.
class TokensTask final : public TextTask {
 public:
  TokensTask(Route route, std::string body, const JsonLimits& limits,
             const PromptEncoder& encoder)
      : route_(route), body_(std::move(body)), limits_(limits), encoder_(encoder) {}

  void run() override {
    RequestParser parser(limits_);
    answer_ = route_ == Route::Tokenize ? tokenize(parser) : detokenize(parser);
    body_ = {};
  }
  const std::optional<std::string>& model() const { return model_; }  // absent: invalid body
  const tl::expected<std::string, ApiError>& answer() const { return answer_; }

 private:
  tl::expected<std::string, ApiError> tokenize(RequestParser& parser) {
    auto request = parser.parse_tokenize(body_);
    if (!request) return tl::unexpected(request.error());
    model_ = request->model;
    const auto ids = encoder_.encode(*request);
    if (!ids) return tl::unexpected(ids.error());
    std::vector<std::string> strings;
    if (request->return_token_strs) {
      for (const engine::TokenId id : *ids) {
        strings.emplace_back(encoder_.tokenizer.token_bytes(id));
      }
    }
    std::string text;
    append_tokenize_body(text, *ids, encoder_.model.max_model_len, strings,
                         request->return_token_strs);
    return text;
  }

  tl::expected<std::string, ApiError> detokenize(RequestParser& parser) {
    auto request = parser.parse_detokenize(body_, encoder_.model);
    if (!request) return tl::unexpected(request.error());
    model_ = request->model;
    engine::Detokenizer detokenizer;
    std::string plain;
    for (const engine::TokenId id : request->tokens) {
      detokenizer.append(encoder_.tokenizer.token_bytes(id), plain);
    }
    detokenizer.flush(plain);
    std::string text;
    append_detokenize_body(text, plain);
    return text;
  }

  Route route_;
  std::string body_;
  JsonLimits limits_;
  PromptEncoder encoder_;
  std::optional<std::string> model_;
  tl::expected<std::string, ApiError> answer_;
};

}  // namespace

Awaitable<void> answer_tokens(Session& session, SpineContext& context, const Principal& principal,
                              Route route) {
  const InvalidRequest invalid(session, context);
  if (auto refused = check_before_body(session.head(), context)) co_return invalid.answer(*refused);
  const auto charge =
      context.bodies.try_charge(principal.team, declared_body_bytes(session.head(), context));
  if (!charge) co_return invalid.answer(no_room_for_body());
  const auto body = co_await session.read_body();
  if (!body) co_return invalid.answer(body.error());

  const bool is_long = session.body().size() > context.texts.long_text().text_bytes;
  const PromptEncoder encoder{context.tokenizer, context.chat_template, context.model,
                              context.clock.wall()};
  std::unique_ptr<TextTask> task = std::make_unique<TokensTask>(
      route, std::move(session.body()), context.parser.limits(), encoder);
  if (is_long) {
    TextTicket ticket(context.texts, session.mailbox());
    const std::size_t class_index = likely_class(session, context, principal.key_id);
    if (!ticket.try_start(class_index, principal.team, std::move(task))) {
      co_return invalid.answer(no_room_for_text());
    }
    const auto end = co_await wait_for_text(session, ticket);
    if (end) co_return invalid.answer(end->answer_before_arrival());
    task = ticket.take();
  } else {
    task->run();
  }
  const auto& done = static_cast<const TokensTask&>(*task);
  if (done.model()) {
    const auto error = check_model(context, principal, *done.model());
    if (error) co_return invalid.answer(*error);
  }
  if (!done.answer()) co_return invalid.answer(done.answer().error());
  session.respond(200, "application/json", {}, *done.answer());
}

}  // namespace turnstile::gateway
