#include "engine/kv_cache.h"

#include <algorithm>
#include <cassert>

namespace turnstile::engine {
namespace {

constexpr std::size_t kBlockTokens = kernels::kKvBlockTokens;

}  // namespace

KvCache::KvCache(std::size_t block_count, bool enable_prefix_caching)
    : pool_(block_count),
      prefixes_(enable_prefix_caching ? block_count : 0),
      prefix_caching_(enable_prefix_caching) {
  found_.reserve(block_count);
}

void KvCache::extend_keys(BlockTable& table, std::span<const TokenId> tokens,
                          std::size_t blocks) const {
  while (table.keys.size() < blocks) {
    const PrefixKey parent = table.keys.empty() ? root_key(table.salt) : table.keys.back();
    const std::size_t first = table.keys.size() * kBlockTokens;
    table.keys.push_back(chain_key(parent, tokens.subspan(first).first<kBlockTokens>()));
  }
}

BlockContent KvCache::content(const BlockTable& table, std::span<const TokenId> tokens,
                              std::size_t index, std::span<const kernels::BlockId> chain) {
  return {.parent = index > 0 ? std::optional(chain[index - 1]) : std::nullopt,
          .salt = table.salt,
          .tokens = tokens.subspan(index * kBlockTokens).first<kBlockTokens>()};
}

KvCache::Prefix KvCache::find_prefix(BlockTable& table, std::span<const TokenId> tokens) {
  assert(!tokens.empty() && "a sequence has a prompt");
  found_.clear();
  Prefix prefix;
  if (!prefix_caching_) return prefix;
  const std::size_t most = (tokens.size() - 1) / kBlockTokens;
  extend_keys(table, tokens, tokens.size() / kBlockTokens);
  while (found_.size() < most) {
    const std::size_t index = found_.size();
    const auto block = prefixes_.find(table.keys[index], content(table, tokens, index, found_));
    if (!block) break;
    found_.push_back(*block);
    prefix.idle += pool_.holders(*block) == 0 ? 1 : 0;
  }
  prefix.blocks = found_;
  return prefix;
}

void KvCache::adopt(BlockTable& table, const Prefix& prefix) {
  assert(table.blocks.empty() && "a prefix comes first");
  for (const kernels::BlockId block : prefix.blocks) {
    pool_.share(block);
    table.blocks.push_back(block);
  }
  table.published = static_cast<std::uint32_t>(prefix.blocks.size());
}

kernels::BlockId KvCache::take() {
  const auto taken = pool_.try_take();
  assert(taken && "the scheduler asks available() first");
  if (taken->was_cached) prefixes_.erase(taken->block);
  return taken->block;
}

void KvCache::extend(BlockTable& table, std::size_t tokens) {
  while (table.blocks.size() < blocks_for(tokens)) table.blocks.push_back(take());
}

void KvCache::shrink(BlockTable& table, std::size_t tokens) {
  assert(table.published <= blocks_for(tokens) && "what others can find is kept");
  while (table.blocks.size() > blocks_for(tokens)) {
    pool_.release(table.blocks.back());
    table.blocks.pop_back();
  }
}

void KvCache::publish(BlockTable& table, std::span<const TokenId> tokens, std::size_t computed) {
  if (!prefix_caching_) return;
  const std::size_t full = computed / kBlockTokens;
  if (table.published >= full || table.collided) return;
  extend_keys(table, tokens, full);
  while (table.published < full) {
    const std::size_t index = table.published;
    const kernels::BlockId mine = table.blocks[index];
    const auto known = prefixes_.insert(table.keys[index],
                                        content(table, tokens, index, table.blocks), mine);
    if (!known) {
      table.collided = true;
      return;
    }
    if (*known == mine) {
      pool_.mark_cached(mine);
    } else {
      pool_.share(*known);
      pool_.release(mine);
      table.blocks[index] = *known;
    }
    ++table.published;
  }
}

std::optional<std::pair<kernels::BlockId, kernels::BlockId>> KvCache::fork(const BlockTable& from,
                                                                           BlockTable& to,
                                                                           std::size_t computed) {
  assert(to.blocks.empty() && from.blocks.size() >= blocks_for(computed) && "fork what is there");
  const std::size_t full = computed / kBlockTokens;
  for (std::size_t i = 0; i < full; ++i) {
    pool_.share(from.blocks[i]);
    to.blocks.push_back(from.blocks[i]);
  }
  to.salt = from.salt;
  to.keys.assign(from.keys.begin(),
                 from.keys.begin() + static_cast<std::ptrdiff_t>(std::min(full, from.keys.size())));
  to.published = std::min(from.published, static_cast<std::uint32_t>(full));
  to.collided = from.collided;
  if (computed % kBlockTokens == 0) return std::nullopt;
  const kernels::BlockId copy = take();
  to.blocks.push_back(copy);
  return std::pair(from.blocks[full], copy);
}

void KvCache::release(BlockTable& table) {
  for (auto block = table.blocks.rbegin(); block != table.blocks.rend(); ++block) {
    pool_.release(*block);
  }
  table.blocks.clear();
  table.published = 0;
  table.collided = false;
}

void KvCache::check_invariants() const {
  pool_.check_invariants();
  prefixes_.check_invariants();
  std::size_t cached = 0;
  for (kernels::BlockId block = 0; block < pool_.total(); ++block) {
    cached += pool_.is_cached(block) ? 1 : 0;
  }
  assert(cached == prefixes_.size() && "a block is cached iff the prefix cache knows it");
}

}  // namespace turnstile::engine
