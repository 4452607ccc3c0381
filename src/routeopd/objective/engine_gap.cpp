// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/engine_gap.h"

#include <cmath>

namespace routeopd::objective {
namespace {

// A gap that is not finite is past every threshold, and would leave no mean.
void note(EngineGap& state, double gap, double& squares, std::int64_t& count) {
  state.states = 1;
  if (!(std::abs(gap) <= kEngineGapThreshold)) state.past = 1;
  if (!std::isfinite(gap)) return;
  squares += gap * gap;
  ++count;
}

}  // namespace

void EngineGap::add(const EngineGap& more) {
  logprob_squares += more.logprob_squares;
  logprobs += more.logprobs;
  log_odds_squares += more.log_odds_squares;
  log_odds += more.log_odds;
  states += more.states;
  past += more.past;
}

void GapMeter::logprob(std::int64_t t, double learner, double engine) {
  if (EngineGap* state = at(t)) note(*state, learner - engine, state->logprob_squares, state->logprobs);
}

void GapMeter::log_odds(std::int64_t t, double learner, double engine) {
  if (EngineGap* state = at(t)) note(*state, learner - engine, state->log_odds_squares, state->log_odds);
}

EngineGap GapMeter::total() const {
  EngineGap all;
  for (const EngineGap& state : gaps_T_) all.add(state);
  return all;
}

}  // namespace routeopd::objective
