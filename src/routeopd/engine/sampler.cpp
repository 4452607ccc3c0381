//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace routeopd::engine {
namespace {

// The ids that top-k and then top-p leave, ascending: the smallest set of most likely ids whose share reaches top_p.
void keep_most_likely(const std::vector<double>& weights, const Decoding& decoding,
                      std::vector<std::int32_t>& ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return weights[static_cast<std::size_t>(a)] > weights[static_cast<std::size_t>(b)];
  });
  if (decoding.top_k > 0 && ids.size() > static_cast<std::size_t>(decoding.top_k))
    ids.resize(static_cast<std::size_t>(decoding.top_k));
  if (decoding.top_p < 1) {
    double total = 0;
    for (const std::int32_t id : ids) total += weights[static_cast<std::size_t>(id)];
    double sum = 0;
    std::size_t kept = 0;
    while (kept < ids.size() && sum < decoding.top_p * total)
      sum += weights[static_cast<std::size_t>(ids[kept++])];
    ids.resize(std::max<std::size_t>(kept, 1));
  }
  std::sort(ids.begin(), ids.end());
}

}  // namespace

std::int32_t sample_row(std::span<const float> logits, const Decoding& decoding, float uniform) {
  float top = -std::numeric_limits<float>::infinity();
  std::int32_t best = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) return -1;
    if (logits[i] > top) {
      top = logits[i];
      best = static_cast<std::int32_t>(i);
    }
  }
  if (!std::isfinite(top)) return -1;
  if (decoding.temperature == 0) return best;

  thread_local std::vector<double> weights;  // relative to the most likely id
  thread_local std::vector<std::int32_t> ids;
  weights.resize(logits.size());
  const double scale = 1 / decoding.temperature;
  for (std::size_t i = 0; i < logits.size(); ++i)
    weights[i] = std::exp((static_cast<double>(logits[i]) - static_cast<double>(top)) * scale);
  ids.resize(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  if (decoding.top_k > 0 || decoding.top_p < 1) keep_most_likely(weights, decoding, ids);

  double total = 0;
  for (const std::int32_t id : ids) total += weights[static_cast<std::size_t>(id)];
  const double wanted = static_cast<double>(uniform) * total;
  double sum = 0;
  std::int32_t last = best;
  for (const std::int32_t id : ids) {
    const double weight = weights[static_cast<std::size_t>(id)];
    if (weight == 0) continue;
    sum += weight;
    last = id;
    if (wanted < sum) return id;
  }
  return last;  // the sum of the parts may fall short of the total by rounding
}

}  // namespace routeopd::engine
