//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/union_kl.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace routeopd::routing {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += static_cast<double>(std::exp(logit - largest));
  return static_cast<double>(largest) + std::log(total);
}

}  // namespace

double union_reverse_kl(std::span<const float> log_p_teacher, std::span<const float> current_logits,
                        float log_delta_p, double scale, std::span<float> grad) {
  if (current_logits.empty()) return 0;
  const double lse = log_sum_exp(current_logits);
  const auto log_ratio = [&](std::size_t i, double log_p) {
    return log_p - static_cast<double>(log_p_teacher[i] == kMinusInfinity ? log_delta_p : log_p_teacher[i]);
  };
  double divergence = 0;
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    if (current_logits[i] == kMinusInfinity) continue;
    const double log_p = static_cast<double>(current_logits[i]) - lse;
    divergence += std::exp(log_p) * log_ratio(i, log_p);
  }
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    const double log_p = static_cast<double>(current_logits[i]) - lse;
    const bool takes_part = current_logits[i] != kMinusInfinity;
    grad[i] =
        takes_part ? static_cast<float>(scale * std::exp(log_p) * (log_ratio(i, log_p) - divergence)) : 0.0F;
  }
  return scale * divergence;
}

double union_forward_kl(std::span<const float> log_p_teacher, std::span<const float> p_teacher,
                        std::span<const float> current_logits, double scale, std::span<float> grad) {
  if (current_logits.empty()) return 0;
  const double lse = log_sum_exp(current_logits);
  double divergence = 0;
  double teacher_mass = 0;  // on the ids that take part
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    if (current_logits[i] == kMinusInfinity || p_teacher[i] <= 0) continue;
    const auto p = static_cast<double>(p_teacher[i]);
    teacher_mass += p;
    divergence +=
        p * (static_cast<double>(log_p_teacher[i]) - (static_cast<double>(current_logits[i]) - lse));
  }
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    const bool takes_part = current_logits[i] != kMinusInfinity;
    const double p_current = std::exp(static_cast<double>(current_logits[i]) - lse);
    const double pull = teacher_mass * p_current - static_cast<double>(p_teacher[i]);
    grad[i] = takes_part ? static_cast<float>(scale * pull) : 0.0F;
  }
  return scale * divergence;
}

}  // namespace routeopd::routing
