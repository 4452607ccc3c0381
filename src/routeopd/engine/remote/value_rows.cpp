// SPDX-License-Identifier: Apache-2.0
#include "routeopd/engine/remote/value_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace routeopd::engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr double kMostRounding = 1e-2;  // above 0: of bfloat16 logits near 1, at most

}  // namespace

ValueRows::ValueRows(std::int32_t real_ids, std::int32_t k)
    : real_ids_(real_ids), k_(std::min(k, real_ids)), place_(static_cast<std::size_t>(real_ids), {-1, 0}) {}

void ValueRows::begin(std::int64_t state) {
  state_ = state;
  listed_ = 0;
  nan_ = false;
  row_.clear();
}

void ValueRows::add(std::int32_t id, float value) {
  ++listed_;
  if (id >= real_ids_) {
    ++padded_;
    return;
  }
  Place& place = place_[static_cast<std::size_t>(id)];
  if (place.state == state_)
    throw BadAnswer(fmt::format("state {}: id {} is listed twice; expected once", state_, id));
  place = {state_, value};
  nan_ = nan_ || std::isnan(value);
  row_.push_back({value, id});
}

float ValueRows::log_probability(double sent) {
  if (sent > kMostRounding) {
    throw BadAnswer(
        fmt::format("state {}: {} is no log-probability; expected at most 0; does the server send logits?",
                    state_, sent));
  }
  if (sent > kSentinel || std::isnan(sent)) return static_cast<float>(sent);
  ++minus_inf_;
  return kImpossible;
}

std::optional<float> ValueRows::at(std::int32_t id) const {
  if (id < 0 || id >= real_ids_ || place_[static_cast<std::size_t>(id)].state != state_) return std::nullopt;
  return place_[static_cast<std::size_t>(id)].value;
}

void ValueRows::append_top(std::vector<std::int32_t>& ids_NK, std::vector<float>& logits_NK) {
  if (listed_ < k_)
    throw BadAnswer(fmt::format("state {}: {} values are listed; expected {}", state_, listed_, k_));
  const auto count = std::min(row_.size(), static_cast<std::size_t>(k_));
  const auto key = [](const Listed& one) { return std::isnan(one.value) ? kImpossible : one.value; };
  std::partial_sort(
      row_.begin(), row_.begin() + static_cast<std::int64_t>(count), row_.end(),
      [&](const Listed& a, const Listed& b) { return key(a) != key(b) ? key(a) > key(b) : a.id < b.id; });
  for (std::size_t j = 0; j < static_cast<std::size_t>(k_); ++j) {
    ids_NK.push_back(j < count ? row_[j].id : -1);
    logits_NK.push_back(j < count ? row_[j].value : kNotSent);
  }
}

void ValueRows::append_gathered(std::span<const std::int32_t> ids, StateValues& values) {
  for (const std::int32_t id : ids) {
    const std::optional<float> value = at(id);
    values.gathered_NG.push_back(value.value_or(kNotSent));
    values.known_NG.push_back(id < 0 || value ? 1 : 0);
    if (id >= 0 && !value) ++not_known_;
  }
}

float ValueRows::partition() const {
  return nan_ ? kNotSent : 0;
}

void ValueRows::count(Counts& counts) const {
  if (padded_ > 0) counts["padded_ids"] += padded_;
  if (minus_inf_ > 0) counts["minus_inf"] += minus_inf_;
  if (not_known_ > 0) counts["not_known"] += not_known_;
}

}  // namespace routeopd::engine
