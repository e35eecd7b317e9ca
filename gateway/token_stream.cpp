#include "gateway/token_stream.h"

#include <utility>

namespace turnstile::gateway {

TokenStream::TokenStream(const GenerationRequest& request, ResponseFormat format,
                         const engine::Tokenizer& tokenizer,
                         std::span<const std::vector<engine::TokenId>> prompts)
    : request_(request),
      format_(std::move(format)),
      tokenizer_(tokenizer),
      choices_(prompts.size() * request.choices) {
  if (request.return_token_ids) prompts_.assign(prompts.begin(), prompts.end());
}

void TokenStream::on_token(std::uint32_t choice, const engine::Event& event,
                           const engine::StepOutput& output, const Usage& usage) {
  if (is_muted_) return;
  add_text(choice, output.text_of(event), extras_of(event, output, usage));
}

void TokenStream::on_finished(std::uint32_t choice, const engine::Event& event,
                              const engine::StepOutput& output, const Usage& usage) {
  has_fault_ |= event.finish == engine::FinishReason::Fault;
  has_length_ |= event.finish == engine::FinishReason::Length;
  const bool went_well = event.finish != engine::FinishReason::Fault &&
                         event.finish != engine::FinishReason::Cancelled;
  if (is_muted_ || !went_well) return;
  ChoiceEnd end{.reason = event.finish, .stop_string = std::nullopt, .stop_token = std::nullopt};
  if (event.finish == engine::FinishReason::StopString) {
    end.stop_string = request_.stop.strings[event.stop_index];
  }
  if (event.finish == engine::FinishReason::StopToken &&
      !tokenizer_.is_end_of_generation(event.token)) {
    end.stop_token = event.token;
  }
  // The end token has no text, but it was generated: ids and log-probabilities are as many as usage
  // counts.
  const bool has_token = event.finish == engine::FinishReason::StopToken;
  ChunkExtras extras;
  if (has_token) extras = extras_of(event, output, usage);
  if (request_.continuous_usage_stats) extras.running_usage = &usage;
  add_text(choice, output.text_of(event), extras);
  has_content_ = true;
  if (!request_.stream) {
    choices_[choice].result.end = std::move(end);
    return;
  }
  if (!choices_[choice].has_begun) {
    choices_[choice].has_begun = true;
    extras.prompt_ids = prompt_of(choice);
    format_.first_chunk(pending_, choice, {}, extras);
  }
  format_.finish_chunk(pending_, choice, end, extras.running_usage);
}

// Of the token of an event; valid until the next call.
ChunkExtras TokenStream::extras_of(const engine::Event& event, const engine::StepOutput& output,
                                   const Usage& usage) {
  ChunkExtras extras;
  logprobs_.clear();
  if (request_.logprobs) logprobs_.push_back(logprob_of(event, output));
  if (request_.return_token_ids) extras.token_ids = std::span(&event.token, 1);
  extras.logprobs = logprobs_;
  if (request_.continuous_usage_stats) extras.running_usage = &usage;
  return extras;
}

void TokenStream::add_text(std::uint32_t choice, std::string_view text,
                           const ChunkExtras& extras) {
  has_content_ |= !text.empty();
  Choice& state = choices_[choice];
  if (!request_.stream) {
    state.result.text += text;
    state.result.logprobs.insert(state.result.logprobs.end(), extras.logprobs.begin(),
                                 extras.logprobs.end());
    state.result.token_ids.insert(state.result.token_ids.end(), extras.token_ids.begin(),
                                  extras.token_ids.end());
    return;
  }
  if (text.empty() && extras.logprobs.empty() && extras.token_ids.empty()) return;
  if (state.has_begun) {
    format_.chunk(pending_, choice, text, extras);
    return;
  }
  state.has_begun = true;
  ChunkExtras first = extras;
  first.prompt_ids = prompt_of(choice);
  format_.first_chunk(pending_, choice, text, first);
}

void TokenStream::mute() {
  is_muted_ = true;
  pending_.clear();
}

void TokenStream::append_end(std::string& out, const Usage& usage, const Explained& explained) {
  if (request_.include_usage) format_.usage_chunk(out, usage, explained);
  out += kSseDone;
}

void TokenStream::append_body(std::string& out, const Usage& usage, const Explained& explained) {
  std::vector<ChoiceResult> results;
  results.reserve(choices_.size());
  for (std::uint32_t i = 0; i < choices_.size(); ++i) {
    results.push_back(std::move(choices_[i].result));
    results.back().prompt_ids = prompt_of(i);
  }
  format_.body(out, results, usage, explained);
}

std::string_view TokenStream::finish_reason() const {
  return finish_reason_text(has_length_ ? engine::FinishReason::Length
                                        : engine::FinishReason::StopToken);
}

TokenLogprob TokenStream::logprob_of(const engine::Event& event,
                                     const engine::StepOutput& output) const {
  TokenLogprob chosen{.token = event.token,
                      .bytes = std::string(tokenizer_.token_bytes(event.token)),
                      .logprob = event.logprob,
                      .top = {}};
  for (const engine::TopLogprob& top : output.top_of(event)) {
    chosen.top.push_back({.token = top.token,
                          .bytes = std::string(tokenizer_.token_bytes(top.token)),
                          .logprob = top.logprob});
  }
  return chosen;
}

std::span<const engine::TokenId> TokenStream::prompt_of(std::uint32_t choice) const {
  if (prompts_.empty()) return {};
  return prompts_[choice / request_.choices];
}

}  // namespace turnstile::gateway
