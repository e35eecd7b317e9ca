#include "gateway/config/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace turnstile::gateway {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestName = 64;
  if (name.size() > kLongestName) return {};
  std::string_view best;
  std::size_t best_distance = kLongestName;
  for (const std::string_view candidate : known) {
    const std::size_t edits = distance(name, candidate);
    if (edits < best_distance) {
      best = candidate;
      best_distance = edits;
    }
  }
  if (best.empty() || best_distance * 3 > std::max(best.size(), std::size_t{3})) return {};
  return "; perhaps '" + std::string(best) + "' was meant";
}

}  // namespace turnstile::gateway
