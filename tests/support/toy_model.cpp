#include "tests/support/toy_model.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace turnstile::tests {
namespace {

constexpr std::size_t kBlockTokens = kernels::kKvBlockTokens;

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  std::uint64_t x = (state ^ word) + 0x9e37'79b9'7f4a'7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return x ^ (x >> 31);
}

}  // namespace

ToyModel::ToyModel(const ToyModelOptions& options, ToyModelLog* log)
    : options_(options), log_(log) {}

std::size_t ToyModel::kv_block_bytes() const { return kBlockTokens * sizeof(std::uint64_t); }

bool ToyModel::reserve(std::size_t kv_blocks, std::size_t max_step_tokens,
                       std::size_t max_logits_rows) {
  assert(cells_.empty() && "reserve() is called once");
  cells_.assign(kv_blocks * kBlockTokens, 0);
  writes_.reserve(max_step_tokens);
  max_logits_rows_ = max_logits_rows;
  if (log_ != nullptr) log_->slice_rows.reserve(max_step_tokens);
  return true;
}

bool ToyModel::forward(std::span<const engine::StepSlice> slices, std::span<float> logits,
                       engine::StepWatch* watch) {
  assert(!slices.empty() && "a step computes something");
  writes_.clear();
  if (log_ != nullptr) {
    ++log_->forward_calls;
    log_->slice_rows.clear();
  }
  std::size_t logits_row = 0;
  for (const engine::StepSlice& slice : slices) {
    assert(!slice.tokens.empty() && "a slice has tokens");
    assert(slice.blocks.size() * kBlockTokens >= slice.first_position + slice.tokens.size() &&
           "the block table covers the slice");
    std::uint64_t digest = options_.weights;
    for (std::size_t p = 0; p < slice.first_position; ++p) {
      const std::size_t cell = slice.blocks[p / kBlockTokens] * kBlockTokens + p % kBlockTokens;
      digest = mix(digest, cells_[cell]);
    }
    std::size_t position = slice.first_position;
    assert(slice.logits_rows <= slice.tokens.size() && "logits are of the slice's own tokens");
    const std::size_t silent = slice.tokens.size() - slice.logits_rows;
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      const engine::TokenId token = slice.tokens[i];
      const std::uint64_t content = mix(digest, position << 32 | token) | 1;
      writes_.push_back(
          {slice.blocks[position / kBlockTokens] * kBlockTokens + position % kBlockTokens,
           content});
      digest = mix(digest, content);
      ++position;
      if (i < silent) continue;
      const std::size_t size = options_.vocab_size;
      compute_logits(digest, token, logits.subspan(logits_row * size, size));
      ++logits_row;
    }
    if (log_ != nullptr) {
      log_->rows += slice.tokens.size();
      log_->slice_rows.push_back(slice.tokens.size());
    }
  }
  assert(writes_.size() <= writes_.capacity() && logits_row <= max_logits_rows_ &&
         logits.size() == logits_row * options_.vocab_size && "the step fits what was reserved");
  const bool finished = watch == nullptr || watch->is_wanted();
  for (const Write& write : writes_) cells_[write.cell] = finished ? write.content : ~write.content;
  return finished;
}

void ToyModel::compute_logits(std::uint64_t digest, engine::TokenId last,
                              std::span<float> row) const {
  if (options_.fault_after == last) {
    std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  for (std::size_t v = 0; v < row.size(); ++v) {
    row[v] = static_cast<float>(mix(digest, v + 1) >> 40) * 0x1p-21F - 4.0F;  // [-4, 4)
  }
  if (options_.habit != 0.0F) row[(last + 1) % options_.habit_period] += options_.habit;
  if (options_.always) {
    std::fill(row.begin(), row.end(), 0.0F);
    row[*options_.always] = 1.0F;
  }
}

void ToyModel::copy_block(kernels::BlockId from, kernels::BlockId to) {
  std::copy_n(cells_.begin() + static_cast<std::ptrdiff_t>(from * kBlockTokens), kBlockTokens,
              cells_.begin() + static_cast<std::ptrdiff_t>(to * kBlockTokens));
  if (log_ != nullptr) ++log_->copies;
}

}  // namespace turnstile::tests
