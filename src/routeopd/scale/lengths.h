// How long responses are: log-normal, cut at the longest that is allowed. Two numbers say it, the mean after
// the cut and the spread; the third follows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace routeopd::scale {

class Lengths {
 public:
  // All responses have `longest` tokens where the mean is 0 or not below it.
  Lengths(double mean, double longest, double spread);

  double mean() const { return mean_; }
  double longest() const { return longest_; }

  // Of the square of the length: attention grows with it.
  double mean_square() const;

  // The share of the responses that have `tokens` or more; 0 past the longest.
  double reach(double tokens) const;

  // What the longest of `count` responses is expected to have: the quantile 1 - 1 / (count + 1).
  double longest_of(double count) const;

 private:
  double moment(double power, double median_log) const;

  double mean_ = 0, longest_ = 0, spread_ = 0;
  double median_log_ = 0;  // log of the median before the cut
  bool all_alike_ = true;
};

}  // namespace routeopd::scale
