// How far the learner's values are from those of the engine that wrote: two forwards over the same weights
// that round differently. Measured at the first forward of a step, from values that the objective has at
// hand: pair log-odds, or the log-probability of the token taken where the whole row of logits is there.
//
// Shapes: T states of a micro-batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace routeopd::objective {

// Of one value, in nats. A quarter of the smallest budget (log 1.2): what rounding alone moves further than
// this is no longer small beside a target.
inline constexpr double kEngineGapThreshold = 0.05;

// Sums over states.
struct EngineGap {
  double logprob_squares = 0;  // learner's - engine's, of the token taken
  std::int64_t logprobs = 0;
  double log_odds_squares = 0;  // the same of pair log-odds
  std::int64_t log_odds = 0;
  std::int64_t states = 0;  // with at least one value compared
  std::int64_t past = 0;    // those of them with a gap past the threshold

  void add(const EngineGap& more);
};

// Collects the gaps of a micro-batch; different states from any thread.
class GapMeter {
 public:
  // `tokens` states, or none where nothing is to be measured: what is told then is dropped.
  explicit GapMeter(std::int64_t tokens) : gaps_T_(static_cast<std::size_t>(tokens)) {}

  void logprob(std::int64_t t, double learner, double engine);
  void log_odds(std::int64_t t, double learner, double engine);

  EngineGap total() const;  // in the order of the states: the same bits for any number of threads

 private:
  EngineGap* at(std::int64_t t) { return gaps_T_.empty() ? nullptr : &gaps_T_[static_cast<std::size_t>(t)]; }

  std::vector<EngineGap> gaps_T_;
};

}  // namespace routeopd::objective
