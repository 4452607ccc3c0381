// The exact steps realise what they promise, on random states.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/reference_divergences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "routeopd/routing/reference_sampling.h"
#include "routing/random_states.h"
#include "testing_errors.h"

namespace routeopd::routing::reference {
namespace {

using routing::testing::FullState;

std::size_t place(const Transport& state, std::int32_t id) {
  return static_cast<std::size_t>(std::find(state.ids.begin(), state.ids.end(), id) - state.ids.begin());
}

double log_odds(const Transport& state, const Values& p, const Pair& pair) {
  return std::log(p[place(state, pair.destination)]) - std::log(p[place(state, pair.source)]);
}

template <class Check>
void for_routed_states(unsigned seed, const Check& check) {
  std::mt19937 random(seed);
  int routed = 0;
  for (int i = 0; i < 500; ++i) {
    const FullState full = routing::testing::random_state(random, 5 + static_cast<int>(random() % 40));
    const ObjectiveOptions options{.k = 6, .m = 4};
    const Transport state = routing::testing::transport_of(full, options);
    if (!state.routed) continue;
    ++routed;
    check(full, state, sample_pairs(state, {}, options, seed, {.position = static_cast<std::uint32_t>(i)}));
  }
  EXPECT_GT(routed, 450);
}

// Rounding of a softmax and two logarithms.
constexpr double kExact = 1e-12;

TEST(ExactSteps, PotentialWideMeetsEveryTargetAtOnce) {
  for_routed_states(1, [](const FullState& full, const Transport& state, const std::vector<Pair>& pairs) {
    const Values after = potential_wide_step(state);
    for (const Pair& pair : pairs)
      EXPECT_NEAR(log_odds(state, after, pair) - log_odds(state, state.p_student, pair), pair.target, kExact);
    EXPECT_LT(mass_after(state, after), state.mass);

    // The same step in the whole vocabulary.
    Values logits = full.student;
    for (std::size_t i = 0; i < state.ids.size(); ++i)
      logits[static_cast<std::size_t>(state.ids[i])] += state.bounded[i];
    const Values before = softmax(full.student), moved = softmax(logits);
    double retained_before = 0, retained = 0;
    for (const std::int32_t id : state.ids) {
      retained_before += before[static_cast<std::size_t>(id)];
      retained += moved[static_cast<std::size_t>(id)];
    }
    EXPECT_NEAR(retained_after(state, retained_before), retained, kExact);
    for (std::size_t i = 0; i < state.ids.size(); ++i)
      EXPECT_NEAR(moved[static_cast<std::size_t>(state.ids[i])] / retained, after[i], kExact);
  });
}

TEST(ExactSteps, PairIsolatedMeetsItsTargetAndMovesNoOtherOdds) {
  for_routed_states(2, [](const FullState&, const Transport& state, const std::vector<Pair>& pairs) {
    const Pair& pair = pairs.front();
    const Values after = pair_isolated_step(state, pair);
    EXPECT_NEAR(log_odds(state, after, pair) - log_odds(state, state.p_student, pair), pair.target, kExact);
    double sum = 0;
    for (const double p : after) sum += p;
    EXPECT_NEAR(sum, 1, kExact);
    for (std::size_t i = 0; i + 1 < state.ids.size(); ++i) {
      const Pair bystanders{state.ids[i], state.ids[i + 1], 0};
      bool touched = false;
      for (const std::int32_t id : {bystanders.source, bystanders.destination})
        touched = touched || id == pair.source || id == pair.destination;
      if (touched) continue;
      EXPECT_NEAR(log_odds(state, after, bystanders), log_odds(state, state.p_student, bystanders), kExact);
    }
    const auto moved = [&](std::int32_t id) {
      return std::log(after[place(state, id)] / state.p_student[place(state, id)]);
    };
    for (std::size_t i = 0; i < state.ids.size(); ++i) {  // half on either logit, seen from one that stays
      if (state.ids[i] == pair.source || state.ids[i] == pair.destination) continue;
      EXPECT_NEAR(moved(pair.destination) - moved(state.ids[i]), pair.target / 2, kExact);
      EXPECT_NEAR(moved(pair.source) - moved(state.ids[i]), -pair.target / 2, kExact);
    }
  });
}

TEST(ExactSteps, NothingMovesWhereTheModelsAgree) {
  const Values logits = {1, 0, -1};
  const Transport state = transport({4, 5, 9}, logits, logits, {});
  EXPECT_EQ(potential_wide_step(state), state.p_student);
  EXPECT_EQ(mass_after(state, state.p_student), 0);
  EXPECT_EQ(retained_after(state, 0.75), 0.75);
  EXPECT_NE(error_of([&] { pair_isolated_step(state, {4, 6, 0.1}); }).find("id 6 is not in the support"),
            std::string::npos);
}

}  // namespace
}  // namespace routeopd::routing::reference
