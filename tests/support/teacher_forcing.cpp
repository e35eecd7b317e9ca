#include "tests/support/teacher_forcing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace turnstile::tests {

namespace {

std::vector<kernels::BlockId> first_blocks(std::size_t tokens) {
  std::vector<kernels::BlockId> blocks((tokens + kernels::kKvBlockTokens - 1) /
                                       kernels::kKvBlockTokens);
  std::iota(blocks.begin(), blocks.end(), kernels::BlockId{0});
  return blocks;
}

}  // namespace

void for_each_prediction(
    engine::Model& model, std::span<const engine::TokenId> ids, std::size_t first,
    const std::function<void(std::size_t, std::span<const float>)>& predicted) {
  const std::vector<kernels::BlockId> blocks = first_blocks(ids.size());
  const std::size_t vocab = model.vocab_size();
  std::vector<float> logits(kForcingLogitsRows * vocab);

  // Token `next` predicts id next + 1; the last id is never fed.
  std::size_t next = 0;
  while (next + 1 < ids.size()) {
    std::vector<engine::StepSlice> slices;
    std::size_t rows = 0;
    std::vector<std::size_t> targets;
    if (next + 1 < first) {
      const std::size_t count = std::min(first - 1 - next, kForcingRows);
      slices.push_back({ids.subspan(next, count), static_cast<std::uint32_t>(next), blocks, false});
      next += count;
      rows = count;
    }
    while (next + 1 >= first && next + 1 < ids.size() && rows < kForcingRows &&
           targets.size() < kForcingLogitsRows) {
      slices.push_back({ids.subspan(next, 1), static_cast<std::uint32_t>(next), blocks, true});
      targets.push_back(next + 1);
      ++next;
      ++rows;
    }
    model.forward(slices, std::span(logits).first(targets.size() * vocab));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      predicted(targets[i], std::span<const float>(logits).subspan(i * vocab, vocab));
    }
  }
}

std::vector<float> last_logits(engine::Model& model, std::span<const engine::TokenId> ids,
                               std::size_t chunk) {
  const std::vector<kernels::BlockId> blocks = first_blocks(ids.size());
  std::vector<float> logits(model.vocab_size());
  for (std::size_t next = 0; next < ids.size();) {
    const std::size_t count = std::min(chunk, ids.size() - next);
    const bool last = next + count == ids.size();
    const engine::StepSlice slice{ids.subspan(next, count), static_cast<std::uint32_t>(next),
                                  blocks, last};
    model.forward({&slice, 1}, last ? std::span(logits) : std::span<float>());
    next += count;
  }
  return logits;
}

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value) - largest);
  return largest + std::log(sum);
}

engine::TokenId argmax(std::span<const float> logits) {
  return static_cast<engine::TokenId>(std::max_element(logits.begin(), logits.end()) -
                                      logits.begin());
}

}  // namespace turnstile::tests
