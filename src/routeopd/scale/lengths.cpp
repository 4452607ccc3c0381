// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/lengths.h"

#include <algorithm>
#include <cmath>

namespace routeopd::scale {
namespace {

double normal_below(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

// Where an increasing function passes zero, to the last bit of a double.
template <class Function>
double root_of(double low, double high, const Function& function) {
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (function(middle) < 0 ? low : high) = middle;
  }
  return high;
}

}  // namespace

Lengths::Lengths(double mean, double longest, double spread)
    : mean_(mean > 0 ? std::min(mean, longest) : longest), longest_(longest), spread_(spread) {
  all_alike_ = mean_ >= longest_;
  if (all_alike_) return;
  // The cut mean grows with the median, from 0 to the longest.
  median_log_ = root_of(std::log(mean_) - 20, std::log(longest_) + 20 * spread_,
                        [&](double log) { return moment(1, log) - mean_; });
}

// E[min(X, c)^p] of log X ~ N(mu, s^2), c the longest:
//   exp(p mu + p^2 s^2 / 2) Phi((log c - mu - p s^2) / s) + c^p (1 - Phi((log c - mu) / s))
double Lengths::moment(double power, double median_log) const {
  const double cut = (std::log(longest_) - median_log) / spread_;
  return std::exp(power * median_log + power * power * spread_ * spread_ / 2) *
             normal_below(cut - power * spread_) +
         std::pow(longest_, power) * normal_below(-cut);
}

double Lengths::mean_square() const {
  return all_alike_ ? longest_ * longest_ : moment(2, median_log_);
}

double Lengths::reach(double tokens) const {
  if (tokens > longest_) return 0;
  if (all_alike_ || tokens <= 0) return 1;
  return normal_below(-(std::log(tokens) - median_log_) / spread_);
}

double Lengths::longest_of(double count) const {
  if (all_alike_) return longest_;
  const double share = count / (count + 1);
  const double z = root_of(-10, 10, [&](double at) { return normal_below(at) - share; });
  return std::clamp(std::exp(median_log_ + spread_ * z), mean_, longest_);
}

}  // namespace routeopd::scale
