// kv_pool_size.h: how many KV blocks a model gets, from facts that the caller has measured.
//
//   memory that is left beside the weights
//   |-- reserve --|------ half of the rest ------|------------------------------|
//                 the pool, unless the sequences  for what else runs on the machine
//                 could never fill so much
//
// A pool whose size is written gets that size, or a sentence that says what is left, or that no
// sequence worth serving would fit. Nobody's laptop should stop answering because a server was
// started without a setting, so an unwritten one takes half; and its pages are touched when they
// are first needed (engine/model/llama.cpp), so it costs what the traffic makes of it.
//
// Thread: any; pure. Errors: a sentence without the file's name. Tests: kv_pool_size_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

namespace turnstile::engine {

// For the step workspace, the requests and answers in flight, and the system.
inline constexpr std::size_t kMemoryReserveBytes = std::size_t{512} << 20;
// Of what is left after the reserve: one part in so many.
inline constexpr std::size_t kPoolShareOfLeft = 2;
// Where nobody can say what is left.
inline constexpr std::size_t kPoolBytesUnknown = std::size_t{512} << 20;
// A pool that does not hold one sequence of so many tokens serves nobody.
inline constexpr std::size_t kFewestTokens = 256;

struct KvPoolFacts {
  std::optional<std::size_t> written_bytes;  // the setting kv_cache_memory_bytes
  std::optional<std::size_t> left_bytes;     // beside the weights; absent: not known
  std::size_t block_bytes = 0;               // of kernels::kKvBlockTokens positions, all layers
  std::size_t max_num_seqs = 0;
  std::size_t max_tokens = 0;                // that one sequence may have
};

tl::expected<std::size_t, std::string> kv_pool_blocks(const KvPoolFacts& facts);

}  // namespace turnstile::engine
