// `turnstile serve` over a model that answers at once: what is left is the gateway's own cost.
//
//   instant_server serve --config FILE [the flags of `turnstile serve`]
//
// Everything is the product's own (sockets, spine, keys, policy, audit, metrics, tokenizer, the
// mailbox to the engine thread, scheduler, sampler) but for the arithmetic of the model: the file
// is loaded for its vocabulary and template, and a model takes its place whose forward() writes one
// fixed row of logits. So a first token costs what the gateway and the engine's bookkeeping cost.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/loader/load_model.h"
#include "gateway/clock.h"
#include "gateway/command_line.h"
#include "gateway/ids.h"
#include "gateway/serve.h"
#include "gateway/served_model.h"
#include "gateway/verbs/config_of_verb.h"

namespace {

using namespace turnstile;

// Greedy decoding repeats this token: a letter in every byte-level vocabulary.
constexpr engine::TokenId kAnswer = 66;

class InstantModel final : public engine::Model {
 public:
  InstantModel(std::size_t vocab_size, std::size_t context_length, std::size_t kv_block_bytes)
      : vocab_size_(vocab_size), context_length_(context_length), kv_block_bytes_(kv_block_bytes) {}

  std::size_t vocab_size() const override { return vocab_size_; }
  std::size_t context_length() const override { return context_length_; }
  std::size_t kv_block_bytes() const override { return kv_block_bytes_; }
  bool reserve(std::size_t, std::size_t, std::size_t) override { return true; }
  void copy_block(kernels::BlockId, kernels::BlockId) override {}
  bool forward(std::span<const engine::StepSlice>, std::span<float> logits,
               engine::StepWatch*) override {
    std::fill(logits.begin(), logits.end(), 0.0F);
    for (std::size_t row = 0; row < logits.size(); row += vocab_size_) logits[row + kAnswer] = 1.0F;
    return true;
  }

 private:
  std::size_t vocab_size_;
  std::size_t context_length_;
  std::size_t kv_block_bytes_;
};

tl::expected<gateway::ServedModel, std::string> load_instant_model(
    const gateway::ModelConfig& config, std::ostream&) {
  const std::string path = config.path.string();
  auto loaded = engine::load_model(path, {.threads = 1, .progress = {}});
  if (!loaded) return tl::unexpected(path + ": " + loaded.error().what);
  const engine::Model& real = *loaded->model;
  if (real.vocab_size() <= kAnswer) return tl::unexpected(path + ": the vocabulary is too small");
  loaded->model = std::make_unique<InstantModel>(real.vocab_size(), real.context_length(),
                                                 real.kv_block_bytes());
  return gateway::serve_loaded_model(config, std::move(*loaded));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace turnstile::gateway;
  const auto command = parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
  const ServeOptions* options = command ? std::get_if<ServeOptions>(&*command) : nullptr;
  if (options == nullptr) {
    std::cerr << "instant_server: give it the verb serve and its flags.\n";
    return static_cast<int>(ExitCode::WrongUsage);
  }
  const auto config = config_of_verb(options->config, options->overrides, std::cerr);
  if (!config) return static_cast<int>(config.error());
  const SystemClock clock;
  SystemRandom random;
  return static_cast<int>(
      serve(*config, {std::cout, std::cerr, clock, random}, load_instant_model));
}
