// Distances to the teacher against plain double-precision loops over whole rows.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/distance.h"

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bank_testing.h"
#include "routeopd/probe/state_scores.h"

namespace routeopd::probe {
namespace {

// [S, R] in double precision.
at::Tensor probabilities(const model::Model& model, const at::Tensor& hidden_SH) {
  return at::softmax(
      at::matmul(hidden_SH.to(at::kDouble), model.head_VH.to(at::kDouble).t()).slice(1, 0, kTinyIds), 1);
}

TEST(Distance, EqualsPlainLoopsOverTheVocabulary) {
  const TinyPair pair;
  const Bank bank = tiny_bank(pair);
  const c10::NoGradGuard no_grad;
  // Another student than the one that wrote the bank.
  model::Model moved = model::clone_model(pair.student);
  for (model::Parameter parameter : model::parameters(moved)) parameter.tensor.mul_(1.01);
  for (const model::Model* const student : {&pair.student, static_cast<const model::Model*>(&moved)}) {
    const Distances found = distances_at(bank, *student, pair.teacher.head_VH);
    const at::Tensor p_student = probabilities(*student, hidden_at(*student, bank.rollout, bank.states_S)),
                     p_teacher = probabilities(pair.teacher, bank.teacher_hidden_SX);
    ASSERT_EQ(found.mass_S.size(), bank.states());
    for (std::size_t s = 0; s < bank.states(); ++s) {
      const auto* const p = p_student[static_cast<std::int64_t>(s)].const_data_ptr<double>();
      const auto* const q = p_teacher[static_cast<std::int64_t>(s)].const_data_ptr<double>();
      double forward = 0, reverse = 0, on_u = 0, mass = 0;
      for (std::int64_t v = 0; v < kTinyIds; ++v) {
        forward += q[v] * std::log(q[v] / p[v]);
        reverse += p[v] * std::log(p[v] / q[v]);
      }
      const routing::reference::Transport& state = bank.frozen.transport_S[s];
      for (const std::int32_t id : state.ids) on_u += p[id];
      for (std::size_t i = 0; i < state.ids.size(); ++i)
        mass += std::abs(p[state.ids[i]] / on_u - state.p_teacher[i]) / 2;
      // Float32 logits.
      EXPECT_NEAR(found.forward_kl_S[s], forward, 2e-6);
      EXPECT_NEAR(found.reverse_kl_S[s], reverse, 2e-6);
      EXPECT_NEAR(found.mass_S[s], mass, 1e-6);
      EXPECT_GT(forward, 1e-3) << "the models are apart";
      if (student == &pair.student) {
        EXPECT_NEAR(found.mass_S[s], state.mass, 1e-6);
      }
    }
  }
}

TEST(Distance, OfTheTeacherItselfIsNone) {
  TinyPair pair;
  const Bank bank = tiny_bank(pair);
  const Distances found = distances_at(bank, pair.teacher, pair.teacher.head_VH);
  for (std::size_t s = 0; s < bank.states(); ++s) {
    EXPECT_NEAR(found.forward_kl_S[s], 0, 1e-9);
    EXPECT_NEAR(found.reverse_kl_S[s], 0, 1e-9);
    EXPECT_NEAR(found.mass_S[s], 0, 1e-6);
  }
}

}  // namespace
}  // namespace routeopd::probe
