// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace routeopd::engine {
namespace {

constexpr double kGreedy = 1e-30;         // below this temperature a quotient of logits would overflow
constexpr double kRounding = 1e-6;        // a share this close to top_p has reached it, so that a tie does
constexpr std::int32_t kCandidates = 64;  // most likely ids looked at first for top-p

// The id at which the weights relative to exp(top), summed over ascending ids, pass `wanted`.
std::int32_t invert(std::span<const float> logits, double top, double wanted, std::int32_t first_id) {
  double sum = 0;
  std::int32_t last = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto weight =
        static_cast<double>(std::exp(static_cast<float>(static_cast<double>(logits[i]) - top)));
    if (weight == 0) continue;
    sum += weight;
    last = first_id + static_cast<std::int32_t>(i);
    if (wanted < sum) return last;
  }
  return last;  // the parts may fall short of their sum by rounding
}

// From the tiles' sums: which tile, then which id in it.
std::int32_t invert_tiles(const LogitRow& row, double uniform) {
  const auto tiles = (std::ssize(row.logits) + row.width - 1) / row.width;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < tiles; ++i)
    if (row.sums[i * row.stride].scaled > 0) highest = std::max(highest, row.sums[i * row.stride].exponent);
  const auto weight = [&](std::int64_t i) {
    const kernels::LogSum& sum = row.sums[i * row.stride];
    return sum.scaled > 0 ? sum.scaled * std::exp2(sum.exponent - highest) : 0.0;
  };
  double total = 0;
  for (std::int64_t i = 0; i < tiles; ++i) total += weight(i);
  double left = uniform * total;
  std::int64_t tile = -1;
  for (std::int64_t i = 0; i < tiles; ++i) {
    if (weight(i) == 0) continue;
    tile = i;
    if (left < weight(i)) break;
    left -= weight(i);
  }
  if (tile < 0) return -1;
  const auto first = static_cast<std::size_t>(tile * row.width);
  const std::span part =
      row.logits.subspan(first, std::min(static_cast<std::size_t>(row.width), row.logits.size() - first));
  const double top = static_cast<double>(*std::max_element(part.begin(), part.end()));
  // 2^highest in the units of exp(top).
  const double unit = std::exp(highest / static_cast<double>(kernels::LogSum::kLog2e) - top);
  return invert(part, top, left * unit, static_cast<std::int32_t>(first));
}

// The most likely ids of `scaled`, descending, as far as top-k and then top-p keep them.
std::vector<std::int32_t> most_likely(std::span<const float> scaled, const Decoding& decoding,
                                      std::vector<double>& weights) {
  const auto all = static_cast<std::int32_t>(scaled.size());
  const std::int32_t most = decoding.top_k > 0 ? std::min(decoding.top_k, all) : all;
  for (std::int32_t k = decoding.top_k > 0 ? most : std::min(kCandidates, all);; k = std::min(most, 8 * k)) {
    std::vector<float> values(static_cast<std::size_t>(k));
    std::vector<std::int32_t> ids(values.size());
    float logsumexp = 0;
    kernels::topk_logsumexp(scaled.data(), 1, all, all, k, values.data(), ids.data(), &logsumexp);
    weights.clear();
    double total = 0;  // of what top-k keeps
    for (const float value : values)
      total += weights.emplace_back(std::exp(static_cast<double>(value) - static_cast<double>(values[0])));
    if (decoding.top_k == 0)
      total = std::exp(static_cast<double>(logsumexp) - static_cast<double>(values[0]));
    std::size_t kept = 0;
    double sum = 0;
    const double enough = decoding.top_p * total * (1 - kRounding);  // a tie counts as reached
    while (kept < ids.size() && (decoding.top_p == 1 || sum < enough)) sum += weights[kept++];
    if (decoding.top_p < 1 && sum < enough && k < most) continue;
    ids.resize(std::max<std::size_t>(kept, 1));
    weights.resize(ids.size());
    return ids;
  }
}

// The ids that top-k and then top-p keep, ascending: the smallest set of most likely ids whose share reaches
// top_p.
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
    while (kept < ids.size() && sum < decoding.top_p * total * (1 - kRounding))
      sum += weights[static_cast<std::size_t>(ids[kept++])];
    ids.resize(std::max<std::size_t>(kept, 1));
  }
  std::sort(ids.begin(), ids.end());
}

// A row at another temperature, with its own tiles' sums.
std::int32_t sample_scaled(const LogitRow& row, const Decoding& decoding, float uniform) {
  thread_local std::vector<float> scaled;
  const auto scale = static_cast<float>(1 / decoding.temperature);
  const float top =
      row.logits[static_cast<std::size_t>(row.best)];  // subtracted first, so that no quotient overflows
  scaled.resize(row.logits.size());
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = (row.logits[i] - top) * scale;
  if (decoding.top_k > 0 || decoding.top_p < 1) {
    thread_local std::vector<double> weights;
    const std::vector<std::int32_t> ids = most_likely(scaled, decoding, weights);
    std::vector<std::size_t> ascending(ids.size());
    double total = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ascending[i] = i;
      total += weights[i];
    }
    std::sort(ascending.begin(), ascending.end(),
              [&](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
    double sum = 0;
    std::int32_t last = ids.front();
    for (const std::size_t i : ascending) {
      if (weights[i] == 0) continue;
      sum += weights[i];
      last = ids[i];
      if (static_cast<double>(uniform) * total < sum) break;
    }
    return last;
  }
  std::vector<kernels::LogSum> sums;
  for (std::int64_t first = 0; first < std::ssize(scaled); first += row.width) {
    std::uint64_t keys[kernels::row_topk_capacity(1)];
    kernels::RowTopk ignored(keys, 1);
    const std::int64_t width = std::min(row.width, std::ssize(scaled) - first);
    kernels::row_topk_scan(&ignored, &sums.emplace_back(), scaled.data() + first, 1, width, width, 0);
  }
  return invert_tiles({scaled, sums.data(), 1, row.width, row.best}, static_cast<double>(uniform));
}

}  // namespace

std::int32_t sample_row(const LogitRow& row, const Decoding& decoding, float uniform) {
  if (row.best < 0) return -1;
  if (decoding.temperature < kGreedy) return row.best;
  if (decoding.is_plain()) return invert_tiles(row, static_cast<double>(uniform));
  return sample_scaled(row, decoding, uniform);
}

std::int32_t reference_sample(std::span<const float> logits, const Decoding& decoding, float uniform) {
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
