#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <utility>

#include "engine/engine_state.h"
#include "engine/model_drafter.h"
#include "engine/ngram_drafter.h"

namespace turnstile::engine {
namespace {

std::optional<std::string> find_mistake(const Model& model, const Tokenizer& tokenizer,
                                        const Limits& limits, const Model* draft_model) {
  const auto number = [](std::size_t n) { return std::to_string(n); };
  if (limits.max_model_len < 2) return "max_model_len must be at least 2: a prompt and an answer";
  if (limits.max_model_len > model.context_length()) {
    return "max_model_len is " + number(limits.max_model_len) + ", but the model was made for " +
           number(model.context_length()) + " tokens";
  }
  if (limits.max_num_seqs == 0) return "max_num_seqs must be at least 1";
  if (limits.max_num_batched_tokens < limits.max_num_seqs) {
    return "max_num_batched_tokens is " + number(limits.max_num_batched_tokens) +
           ", but a step needs a row for each of max_num_seqs = " + number(limits.max_num_seqs) +
           " sequences";
  }
  if (!limits.enable_chunked_prefill && limits.max_num_batched_tokens < limits.max_model_len) {
    return "without chunked prefill a prompt enters a step whole, so max_num_batched_tokens = " +
           number(limits.max_num_batched_tokens) + " must be at least max_model_len = " +
           number(limits.max_model_len);
  }
  const SpeculationLimits& speculation = limits.speculation;
  if (speculation.num_speculative_tokens > kMaxSpeculativeTokens) {
    return "num_speculative_tokens is " + number(speculation.num_speculative_tokens) +
           ", but at most " + number(kMaxSpeculativeTokens) + " are possible";
  }
  if (speculation.num_speculative_tokens > 0 &&
      speculation.method == SpeculationMethod::Ngram &&
      (speculation.prompt_lookup_min == 0 ||
       speculation.prompt_lookup_min > speculation.prompt_lookup_max ||
       speculation.prompt_lookup_max > kMaxLookupTokens)) {
    return "prompt_lookup_min = " + number(speculation.prompt_lookup_min) +
           " and prompt_lookup_max = " + number(speculation.prompt_lookup_max) +
           " must be in 1 to " + number(kMaxLookupTokens) + ", in this order";
  }
  if (limits.kv_cache_blocks > BlockPool::kMaxBlocks) {
    return "kv_cache_blocks is " + number(limits.kv_cache_blocks) + ", more than " +
           number(BlockPool::kMaxBlocks);
  }
  if (limits.kv_cache_blocks < blocks_for(limits.max_model_len)) {
    return "the KV cache has " + number(limits.kv_cache_blocks) + " blocks of " +
           number(kernels::kKvBlockTokens) + " tokens, but one sequence of max_model_len = " +
           number(limits.max_model_len) + " tokens needs " +
           number(blocks_for(limits.max_model_len));
  }
  if (tokenizer.vocab_size() == 0 || tokenizer.vocab_size() > model.vocab_size()) {
    return "the tokenizer has " + number(tokenizer.vocab_size()) + " tokens, the model " +
           number(model.vocab_size());
  }
  if (draft_model == nullptr) return std::nullopt;
  if (speculation.draft_kv_blocks == 0 || speculation.draft_kv_blocks > BlockPool::kMaxBlocks) {
    return "the draft model's KV cache has " + number(speculation.draft_kv_blocks) +
           " blocks, but it needs 1 to " + number(BlockPool::kMaxBlocks);
  }
  if (tokenizer.vocab_size() > draft_model->vocab_size()) {
    return "the tokenizer has " + number(tokenizer.vocab_size()) + " tokens, the draft model " +
           number(draft_model->vocab_size());
  }
  return std::nullopt;
}

void assert_valid(const Request& request, const Limits& limits, std::size_t vocabulary) {
  const auto is_token = [vocabulary](TokenId token) { return token < vocabulary; };
  assert(!request.prompt.empty() && "a prompt has tokens");
  assert(std::all_of(request.prompt.begin(), request.prompt.end(), is_token) &&
         "prompt tokens are in the vocabulary");
  assert(request.stop.max_tokens >= 1 && request.stop.max_tokens < limits.max_model_len &&
         request.prompt.size() <= limits.max_model_len - request.stop.max_tokens &&
         "prompt and max_tokens fit max_model_len");
  assert(request.choices >= 1 && request.choices <= kMaxChoices && "1 <= n <= kMaxChoices");
  const SamplingParams& sampling = request.sampling;
  assert(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0F && "temperature >= 0");
  assert(sampling.top_p > 0.0F && sampling.top_p <= 1.0F && "0 < top_p <= 1");
  assert(sampling.min_p >= 0.0F && sampling.min_p <= 1.0F && "0 <= min_p <= 1");
  assert(std::isfinite(sampling.repetition_penalty) && sampling.repetition_penalty > 0.0F &&
         "repetition_penalty > 0");
  assert(std::isfinite(sampling.presence_penalty) && std::isfinite(sampling.frequency_penalty) &&
         "penalties are numbers");
  assert(sampling.logit_bias.size() <= kMaxLogitBias && "logit_bias is bounded");
  assert(std::all_of(sampling.logit_bias.begin(), sampling.logit_bias.end(),
                     [&](const auto& entry) {
                       return is_token(entry.first) && std::isfinite(entry.second);
                     }) &&
         "logit_bias names tokens of the vocabulary");
  assert(sampling.top_logprobs.value_or(0) <= kMaxTopLogprobs && "top_logprobs is bounded");
  assert(std::all_of(request.stop.token_ids.begin(), request.stop.token_ids.end(), is_token) &&
         "stop tokens are in the vocabulary");
}

std::vector<TokenId> end_tokens_of(const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.is_end_of_generation(token)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

Engine::State::State(std::unique_ptr<Model> given_model,
                     std::shared_ptr<const Tokenizer> given_tokenizer, const Limits& given_limits,
                     std::unique_ptr<float[]> logits_memory, std::unique_ptr<Drafter> given_drafter)
    : limits(given_limits),
      model(std::move(given_model)),
      tokenizer(std::move(given_tokenizer)),
      file_end_tokens(end_tokens_of(*tokenizer)),
      model_vocabulary(model->vocab_size()),
      logits(std::move(logits_memory)),
      scheduler(given_limits, model->kv_block_bytes() / kernels::kKvBlockTokens),
      // A model may have more logits than the tokenizer has tokens; those are never chosen.
      sampling(tokenizer->vocab_size(), model_vocabulary,
               model->workers() != nullptr ? model->workers()->threads() : 1),
      drafter(std::move(given_drafter)) {
  if (drafter && !drafter->is_free()) typical_acceptance = Acceptance::hopeful();
  // A slice has at least one row, a step at most one slice a sequence and max_num_seqs sequences.
  plan.slices.reserve(limits.max_num_seqs);
  plan.admitted.reserve(limits.max_num_seqs);
  plan.paused.reserve(limits.max_num_seqs);
  slices.reserve(limits.max_num_seqs);
  drafting.reserve(limits.max_num_seqs);
}

std::size_t most_logits_rows(const Limits& limits) {
  const std::size_t drafts =
      std::size_t{limits.max_num_seqs} * limits.speculation.num_speculative_tokens;
  return limits.max_num_seqs + std::min<std::size_t>(drafts, kMaxDraftRows);
}

tl::expected<std::unique_ptr<Engine>, std::string> Engine::create(
    std::unique_ptr<Model> model, std::shared_ptr<const Tokenizer> tokenizer,
    const Limits& limits, std::unique_ptr<Model> draft_model) {
  assert(model && tokenizer && "an engine has a model and a tokenizer");
  const SpeculationLimits& speculation = limits.speculation;
  const bool speculates = speculation.num_speculative_tokens > 0;
  assert((draft_model != nullptr) ==
             (speculates && speculation.method == SpeculationMethod::DraftModel) &&
         "a draft model is there if the limits ask for it");
  if (auto mistake = find_mistake(*model, *tokenizer, limits, draft_model.get())) {
    return tl::unexpected(*std::move(mistake));
  }
  if (!model->reserve(limits.kv_cache_blocks, limits.max_num_batched_tokens,
                      most_logits_rows(limits))) {
    return tl::unexpected("there is not enough memory for a KV cache of " +
                          std::to_string(limits.kv_cache_blocks) + " blocks of " +
                          std::to_string(model->kv_block_bytes()) + " bytes");
  }
  const std::size_t logits_count = most_logits_rows(limits) * model->vocab_size();
  std::unique_ptr<float[]> logits(new (std::nothrow) float[logits_count]);
  if (!logits) {
    return tl::unexpected("there is not enough memory for the logits of max_num_seqs = " +
                          std::to_string(limits.max_num_seqs) + " sequences");
  }
  std::unique_ptr<Drafter> drafter;
  if (draft_model) {
    auto created =
        ModelDrafter::create(std::move(draft_model), tokenizer->vocab_size(), limits);
    if (!created) return tl::unexpected(std::move(created.error()));
    drafter = std::move(*created);
  } else if (speculates) {
    drafter = std::make_unique<NgramDrafter>(speculation);
  }
  auto state = std::make_unique<State>(std::move(model), std::move(tokenizer), limits,
                                       std::move(logits), std::move(drafter));
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

void Engine::add(Request request) {
  assert_valid(request, state_->limits, state_->tokenizer->vocab_size());
  const RequestId id = request.id;
  const std::uint32_t choices = request.choices;
  auto active = std::make_unique<ActiveRequest>(std::move(request), state_->arrivals++,
                                                state_->file_end_tokens,
                                                state_->limits.speculation.num_speculative_tokens);
  ActiveRequest& added = *active;
  for (Choice& choice : added.choices) {
    choice.sequence.acceptance =
        state_->first_acceptance(choice.sequence.order.arrival);
  }
  const bool is_new = state_->requests.emplace(id, std::move(active)).second;
  assert(is_new && "a request id is used once");
  state_->scheduler.add(added.choices.front().sequence, choices);
}

void Engine::cancel(RequestId id) {
  const auto found = state_->requests.find(id);
  if (found == state_->requests.end() || found->second->cancelled) return;
  found->second->cancelled = true;
  state_->cancelled.push_back(id);
}

void Engine::pause(RequestId id) { state_->pause_calls.push_back({id, true}); }

void Engine::resume(RequestId id) { state_->pause_calls.push_back({id, false}); }

bool Engine::has_work() const {
  return state_->scheduler.running_count() + state_->scheduler.waiting_count() > 0 ||
         !state_->cancelled.empty() || !state_->pause_calls.empty();
}

void Engine::step(StepOutput& out, StepMail* mail) {
  assert(out.events.empty() && "the caller has cleared the output");
  state_->end_cancelled(out);
  state_->apply_pauses(out);
  state_->scheduler.plan(state_->plan);
  state_->plan_drafts();
  state_->report_plan(out);
  if (state_->run_model(mail)) {
    state_->sample();
    state_->advance(out);
  } else {
    state_->give_up(out);
  }
  state_->close_step(out);
}

void Engine::observe_step(double duration_ms) {
  state_->scheduler.observe(state_->plan, duration_ms);
  if (state_->drafter) {
    state_->guess_cost.observe(state_->decode_step, duration_ms,
                               state_->scheduler.cost().terms().kv_byte_ms);
  }
}

const Limits& Engine::limits() const { return state_->limits; }

void Engine::check_invariants() const {
  state_->scheduler.check_invariants();
  if (state_->drafter) state_->drafter->check_invariants();
  std::size_t running = 0;
  std::size_t waiting = 0;
  for (const auto& [id, active] : state_->requests) {
    std::uint32_t open = 0;
    for (const Choice& choice : active->choices) {
      const SequencePhase phase = choice.sequence.phase;
      open += phase == SequencePhase::Finished ? 0 : 1;
      running += phase == SequencePhase::Running ? 1 : 0;
      waiting += phase == SequencePhase::Waiting ? 1 : 0;
      assert((phase == SequencePhase::Running || choice.sequence.table.blocks.empty()) &&
             "only running sequences hold blocks");
    }
    assert(active->request.id == id && open == active->open_choices && open > 0 &&
           "a request lives as long as a choice is open");
  }
  assert(running == state_->scheduler.running_count() &&
         waiting == state_->scheduler.waiting_count() && "the scheduler lists every sequence");
}

}  // namespace turnstile::engine
