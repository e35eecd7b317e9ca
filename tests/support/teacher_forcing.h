// teacher_forcing.h: what a model predicts at each position of a known text.
//
// The text is fed as it stands, whatever the model would have chosen, so one legitimate difference
// does not change everything after it. Positions whose prediction is wanted become slices of one
// token; several slices of one sequence may share a step, since a layer writes the K and V of all
// rows before any row attends.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/model.h"
#include "engine/token_id.h"

namespace turnstile::tests {

// Steps of at most this many rows and logits rows; reserve() the model with at least these.
inline constexpr std::size_t kForcingRows = 128;
inline constexpr std::size_t kForcingLogitsRows = 64;

// Calls predicted(i, logits) for every i in [first, ids.size()): the logits that predict ids[i]
// from ids[0..i). `first` >= 1. Uses blocks 0, 1, 2, ... of the model's pool.
void for_each_prediction(
    engine::Model& model, std::span<const engine::TokenId> ids, std::size_t first,
    const std::function<void(std::size_t, std::span<const float>)>& predicted);

// The logits after the last of `ids`, fed in chunks of at most `chunk` tokens.
std::vector<float> last_logits(engine::Model& model, std::span<const engine::TokenId> ids,
                               std::size_t chunk = kForcingRows);

// log(sum(exp(logits))), in double: the log-probability of a token is its logit minus this.
double log_sum_exp(std::span<const float> logits);

engine::TokenId argmax(std::span<const float> logits);

}  // namespace turnstile::tests
