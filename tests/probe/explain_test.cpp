// An explanation against the routing reference on full distributions, for a tiny pair.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "routeopd/engine/local_engine.h"
#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_sampling.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;
using reference::Values;
using ::testing::HasSubstr;

constexpr std::int32_t kRealIds = 90;
constexpr std::uint64_t kSeed = 5;
// Single precision in the two forwards (decoding and scoring), amplified by the softmaxes.
constexpr double kClose = 2e-5;

class Explain : public ::testing::Test {
 protected:
  Rollout written() {
    Prompt prompt;
    prompt.ids = {5, 3};
    const engine::Sampling sampling{.n = 1, .decoding = {0.7}, .max_new_tokens = 12, .seed = kSeed};
    return student.generate(std::span(&prompt, 1), sampling,
                            {.k = std::min(options.k, kRealIds), .hidden = true});
  }

  // Every real id's logit at every state.
  static std::vector<Values> logits_of(engine::LocalEngine& engine, const Rollout& rollout) {
    std::vector<std::int32_t> every;
    for (std::int64_t n = 0; n < rollout.states(); ++n)
      for (std::int32_t id = 0; id < kRealIds; ++id) every.push_back(id);
    const auto values =
        engine.score(rollout, {.k = 1, .gather_ids_NG = every, .gather_columns = kRealIds}).gathered_NG;
    std::vector<Values> rows;
    for (auto row = values.begin(); row != values.end(); row += kRealIds)
      rows.emplace_back(row, row + kRealIds);
    return rows;
  }

  void expect_reference(const Rollout& rollout, const std::vector<ExplainedToken>& tokens) {
    const std::vector<Values> z_student = logits_of(student, rollout),
                              z_teacher = logits_of(teacher, rollout);
    ASSERT_EQ(tokens.size(), z_student.size());
    for (std::size_t n = 0; n < tokens.size(); ++n)
      expect_state(z_student[n], z_teacher[n], rollout.address_N[n], rollout.id_N[n], tokens[n]);
  }

  void expect_state(const Values& z_student, const Values& z_teacher, const StateAddress& address,
                    std::int32_t taken, const ExplainedToken& token) {
    const auto at_ids = [](const reference::Ids& ids, const Values& values) {
      Values out;
      for (const std::int32_t id : ids) out.push_back(values[static_cast<std::size_t>(id)]);
      return out;
    };
    const reference::Ids ids = reference::support(z_student, z_teacher, options.k);
    const reference::Transport state =
        reference::transport(ids, at_ids(ids, z_student), at_ids(ids, z_teacher), options);
    ASSERT_TRUE(state.routed);
    EXPECT_EQ(token.not_routed, "");
    EXPECT_EQ(token.id, taken);
    EXPECT_EQ(token.support, std::ssize(ids));
    EXPECT_EQ(token.n_deficit, state.n_deficit);
    EXPECT_NEAR(token.mass, state.mass, kClose);
    EXPECT_NEAR(token.concentration, state.concentration, kClose);
    EXPECT_NEAR(token.budget, state.budget, kClose);

    // pi(U), and the potential-wide step, in the whole vocabulary.
    const Values pi_student = reference::softmax(z_student), pi_teacher = reference::softmax(z_teacher);
    Values moved_logits = z_student;
    for (std::size_t i = 0; i < ids.size(); ++i)
      moved_logits[static_cast<std::size_t>(ids[i])] += state.bounded[i];
    const Values moved = reference::softmax(moved_logits);
    double student_mass = 0, teacher_mass = 0, moved_mass = 0;
    for (const std::int32_t id : ids) {
      student_mass += pi_student[static_cast<std::size_t>(id)];
      teacher_mass += pi_teacher[static_cast<std::size_t>(id)];
      moved_mass += moved[static_cast<std::size_t>(id)];
    }
    EXPECT_NEAR(token.student_mass, student_mass, kClose);
    EXPECT_NEAR(token.teacher_mass, teacher_mass, kClose);
    EXPECT_NEAR(token.student_mass_after, moved_mass, kClose);
    EXPECT_NEAR(token.pi_student, pi_student[static_cast<std::size_t>(taken)], kClose);
    EXPECT_NEAR(token.pi_teacher, pi_teacher[static_cast<std::size_t>(taken)], kClose);

    double mass_after = 0;
    EXPECT_EQ(token.ids.size(), ids.size());
    for (std::size_t row = 0; row < token.ids.size(); ++row) {
      const ExplainedId& shown = token.ids[row];
      const auto i = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), shown.id) - ids.begin());
      ASSERT_LT(i, ids.size());
      EXPECT_NEAR(shown.p_student, state.p_student[i], kClose);
      EXPECT_NEAR(shown.p_teacher, state.p_teacher[i], kClose);
      EXPECT_NEAR(shown.q_minus, state.q_minus[i], 2e-4);  // divided by the mass
      EXPECT_NEAR(shown.q_plus, state.q_plus[i], 2e-4);
      EXPECT_NEAR(shown.potential, state.potential[i], 2e-4);  // a difference of logarithms
      EXPECT_NEAR(shown.bounded, state.bounded[i], 2e-4);
      EXPECT_NEAR(shown.p_after, moved[static_cast<std::size_t>(shown.id)] / moved_mass, kClose);
      mass_after += std::abs(moved[static_cast<std::size_t>(shown.id)] / moved_mass - state.p_teacher[i]) / 2;
      if (row > 0) {
        const ExplainedId& before = token.ids[row - 1];
        EXPECT_LE(std::abs(shown.p_teacher - shown.p_student), std::abs(before.p_teacher - before.p_student));
      }
    }
    EXPECT_NEAR(token.mass_after, mass_after, kClose);
    expect_pairs(state, token);
    expect_drawn(reference::sample_pairs(state, {}, options, kSeed, address), token);
  }

  void expect_pairs(const reference::Transport& state, const ExplainedToken& token) {
    // The most likely pairs of the whole coupling, by walking all of them.
    Values coupling;
    for (const double minus : state.q_minus)
      for (const double plus : state.q_plus)
        if (minus > 0 && plus > 0) coupling.push_back(minus * plus);
    std::sort(coupling.rbegin(), coupling.rend());
    EXPECT_EQ(static_cast<std::size_t>(token.n_excess) * static_cast<std::size_t>(token.n_deficit),
              coupling.size());
    ASSERT_EQ(token.pairs.size(), std::min(coupling.size(), kExplainedPairs));
    for (std::size_t i = 0; i < token.pairs.size(); ++i) {
      const ExplainedPair& pair = token.pairs[i];
      EXPECT_NEAR(pair.coupling, coupling[i], 2e-4);
      EXPECT_NEAR(pair.target, reference::pair_target(state, pair.source, pair.destination, options), 2e-4);
      const reference::Ids& ids = state.ids;
      Values alone = state.student_logits;
      for (std::size_t j = 0; j < ids.size(); ++j)
        alone[j] += ids[j] == pair.destination ? pair.target / 2
                    : ids[j] == pair.source    ? -pair.target / 2
                                               : 0;
      const Values after = reference::softmax(alone);
      for (std::size_t j = 0; j < ids.size(); ++j) {
        if (ids[j] == pair.source) {
          EXPECT_NEAR(pair.source_after.value(), after[j], kClose);
        } else if (ids[j] == pair.destination) {
          EXPECT_NEAR(pair.destination_after.value(), after[j], kClose);
        }
      }
    }
  }

  static void expect_drawn(const std::vector<reference::Pair>& drawn, const ExplainedToken& token) {
    ASSERT_EQ(token.drawn.size(), drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(std::tie(token.drawn[i].source, token.drawn[i].destination),
                std::tie(drawn[i].source, drawn[i].destination));
      EXPECT_NEAR(token.drawn[i].target, drawn[i].target, 2e-4);
      const auto same = [&](const auto& pair) {
        return pair.source == drawn[i].source && pair.destination == drawn[i].destination;
      };
      const auto times = std::count_if(drawn.begin(), drawn.end(), same);
      EXPECT_EQ(token.drawn[i].draws, times);
      for (const ExplainedPair& pair : token.pairs) {
        if (same(pair)) {
          EXPECT_EQ(pair.draws, times);
        }
      }
    }
  }

  const model::Model student_model = model::load_model(tiny("student")),
                     teacher_model = model::load_model(tiny("teacher"));
  engine::LocalEngine student{student_model, kRealIds}, teacher{teacher_model, kRealIds};
  routing::ObjectiveOptions options = [] {
    routing::ObjectiveOptions chosen;
    chosen.k = 6;
    chosen.m = 4;
    return chosen;
  }();
};

TEST_F(Explain, IsTheReferenceAtEveryStateOfAWrittenResponse) {
  Rollout rollout = written();
  ASSERT_GT(rollout.states(), 3);
  expect_reference(rollout, explain_rollout(student, teacher, rollout, options, kSeed));
}

TEST_F(Explain, IsTheReferenceAtEveryStateOfAGivenResponse) {
  Rollout rollout = given_rollout({5, 3}, {88, 1, 40, 41, 42, 7, 0});
  expect_reference(rollout, explain_rollout(student, teacher, rollout, options, kSeed));
}

TEST_F(Explain, AGivenResponseHasTheNumbersOfTheSameOneWritten) {
  Rollout rollout = written(), given = given_rollout({5, 3}, rollout.id_N);
  const auto tokens = explain_rollout(student, teacher, rollout, options, kSeed),
             again = explain_rollout(student, teacher, given, options, kSeed);
  ASSERT_EQ(tokens.size(), again.size());
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    EXPECT_NEAR(tokens[n].mass, again[n].mass, kClose);
    ASSERT_EQ(tokens[n].drawn.size(), again[n].drawn.size());
    for (std::size_t i = 0; i < tokens[n].drawn.size(); ++i)
      EXPECT_EQ(tokens[n].drawn[i].destination, again[n].drawn[i].destination);
  }
}

// Ids that both lists have keep what the forwards said of them: a gather, which sums in another order, would
// leave a little mass.
TEST_F(Explain, AModelMovesNothingToItself) {
  Rollout rollout = written();
  engine::LocalEngine itself(student_model, kRealIds);
  for (const ExplainedToken& token : explain_rollout(student, itself, rollout, options, kSeed)) {
    EXPECT_EQ(token.mass, 0);
    EXPECT_EQ(token.pi_student, token.pi_teacher);
  }
}

TEST_F(Explain, RefusesATeacherWithoutADistribution) {
  Rollout rollout = written();
  const model::Model broken = model::clone_model(teacher_model);
  broken.norm_H.fill_(std::numeric_limits<float>::quiet_NaN());
  engine::LocalEngine reader(broken, kRealIds);
  EXPECT_THAT(error_of([&] { explain_rollout(student, reader, rollout, options, kSeed); }),
              HasSubstr("NaN or infinite logits at token 0"));
}

TEST_F(Explain, TheFullSupportIsEveryRealId) {
  options.k = routing::kFullSupport;
  Rollout rollout = written();
  const auto tokens = explain_rollout(student, teacher, rollout, options, kSeed);
  expect_reference(rollout, tokens);
  EXPECT_EQ(tokens.front().support, kRealIds);
  EXPECT_NEAR(tokens.front().student_mass, 1, 1e-6);
}

TEST_F(Explain, TheExactCouplingDrawsNothing) {
  options.pairs = routing::Pairs::kExact;
  Rollout rollout = written();
  for (const ExplainedToken& token : explain_rollout(student, teacher, rollout, options, kSeed)) {
    EXPECT_EQ(token.not_routed, "");
    EXPECT_TRUE(token.drawn.empty());
    EXPECT_FALSE(token.pairs.empty());
  }
}

TEST_F(Explain, ABackgroundDestinationLiesOutsideTheDeficitAndOftenOutsideU) {
  options.destination = routing::Destination::kRandomBackground;
  Rollout rollout = written();
  int outside = 0;
  for (const ExplainedToken& token : explain_rollout(student, teacher, rollout, options, kSeed)) {
    ASSERT_EQ(token.drawn.size(), 4U);
    for (const ExplainedPair& pair : token.drawn) {
      EXPECT_TRUE(pair.source_before.has_value());
      EXPECT_EQ(pair.destination_before.has_value(), pair.destination_after.has_value());
      outside += pair.destination_before ? 0 : 1;
      for (const ExplainedId& row : token.ids) EXPECT_TRUE(row.id != pair.destination || row.q_plus == 0);
    }
  }
  EXPECT_GT(outside, 0);
}

TEST_F(Explain, ModelsThatAgreeMoveNothing) {
  Rollout rollout = written();
  for (const ExplainedToken& token : explain_rollout(student, student, rollout, options, kSeed)) {
    EXPECT_THAT(token.not_routed, HasSubstr("not above delta_m"));
    EXPECT_EQ(token.mass_after, token.mass);
    EXPECT_TRUE(token.pairs.empty() && token.drawn.empty());
    EXPECT_EQ(token.ids.size(), static_cast<std::size_t>(token.support));
  }
}

TEST_F(Explain, RefusesWhatMovesNoPairs) {
  for (const char* arm : {"full_rkl", "sampled_rkl", "union_fkl", "sft"})
    EXPECT_THAT(error_of([&] { check_explainable(routing::objective_from({{"arm", arm}})); }),
                HasSubstr(std::string(arm) + " moves no pairs"));
  EXPECT_THAT(error_of([&] { check_explainable(routing::objective_from({{"arm", "source_only"}})); }),
              HasSubstr("one side alone"));
  EXPECT_EQ(error_of([&] { check_explainable(routing::objective_from({{"arm", "rank_matched"}})); }), "");
}

}  // namespace
}  // namespace routeopd::probe
