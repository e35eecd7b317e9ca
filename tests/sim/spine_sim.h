// spine_sim.h: the real spine driven through random lives.
//
// One seed makes a world (policy, keys, limits, engine) and chooses, turn by turn, who moves: a
// client that connects, sends a piece of its request, stops reading, leaves or resets; a turn of
// the I/O thread, of one handler or of several; a worker that counts a text; one engine step; the
// clock; a key that is closed, with or without what it has; now and then a drain, an engine that
// fails, a disk that is full. So a cancel and a fault meet the spine wherever it waits.
//
// After each move: policy's invariants, live requests against permits and places, the engine's
// limits (the fake engine throws), the frames of every client. At the end everything is let go of
// and the books must be empty and agree: metrics, audit, requests.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace turnstile::tests {

struct SpineSimCounts {
  std::uint64_t moves = 0;
  std::uint64_t arrived = 0;
  std::uint64_t refused = 0;
  std::uint64_t completed = 0;
  std::uint64_t client_gone = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t fault = 0;
};

struct SpineSimResult {
  std::optional<std::string> failure;  // the sentence that is broken, and at which move
  std::uint64_t log_hash = 0;          // of everything that was recorded
  SpineSimCounts counts;
};

inline constexpr std::uint64_t kAllMoves = 1'000'000;

// `most_moves`: so many of the seed's moves, and then everything comes to its end.
SpineSimResult run_spine_sim(std::uint64_t seed, std::uint64_t most_moves = kAllMoves);

}  // namespace turnstile::tests
