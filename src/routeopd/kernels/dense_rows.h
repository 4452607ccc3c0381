// The arithmetic of dense objectives on one row of full-vocabulary logits (Highway, chosen at run time). Each
// function reads a row of logits and leaves the gradient of its loss in the same memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace routeopd::kernels {

// A log-partition in two parts: the largest logit, and the log of the sum relative to it.
struct RowLse {
  float top;  // -inf for a row of -inf, NaN where the row has NaN or +inf
  double log_sum;

  // log-probability of a logit of the row, without rounding at the size of the logits.
  double log_prob(float logit) const {
    return (static_cast<double>(logit) - static_cast<double>(top)) - log_sum;
  }
};

RowLse row_logsumexp(std::span<const float> logits);

// logits[v] <- scale * softmax(logits)[v].
void row_softmax(std::span<float> logits, RowLse lse, double scale);

// KL(pi_theta || pi_T) * scale; `logits` holds the current student's logits and then the gradient on them. A
// teacher value of -inf counts as log_delta_p (`floored` counts them where the student has mass); student ids
// at -inf take no part.
double row_reverse_kl(std::span<float> logits, std::span<const float> teacher, float log_delta_p,
                      double scale, std::int64_t* floored);

// KL(pi_T || pi_theta) * scale, the same way.
double row_forward_kl(std::span<float> logits, std::span<const float> teacher, double scale);

}  // namespace routeopd::kernels
