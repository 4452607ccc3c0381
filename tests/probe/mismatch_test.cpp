// The mismatch bank against a plain loop in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/mismatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "routeopd/engine/local_engine.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::probe {
namespace {

constexpr std::int32_t kMismatchRealIds = 90, kSupport = 6;

// Every real id's logit at every state.
std::vector<double> logits_of(engine::LocalEngine& engine, const Rollout& rollout) {
  std::vector<std::int32_t> every;
  for (std::int64_t n = 0; n < rollout.states(); ++n)
    for (std::int32_t id = 0; id < kMismatchRealIds; ++id) every.push_back(id);
  const auto values =
      engine.score(rollout, {.k = 1, .gather_ids_NG = every, .gather_columns = kMismatchRealIds}).gathered_NG;
  return {values.begin(), values.end()};
}

std::set<std::size_t> top(const std::vector<double>& logits, std::size_t n) {
  std::vector<std::size_t> ids(kMismatchRealIds);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::stable_sort(ids.begin(), ids.end(), [&](std::size_t a, std::size_t b) {
    return logits[n * kMismatchRealIds + a] > logits[n * kMismatchRealIds + b];
  });
  return {ids.begin(), ids.begin() + kSupport};
}

TEST(MismatchBank, IsTheMeanMassOnTheBasesSupports) {
  const model::Model base = model::load_model(tiny("student")), teacher = model::load_model(tiny("teacher"));
  model::Model later = model::clone_model(base);
  later.norm_H.mul_(1.2);
  engine::LocalEngine base_engine(base, kMismatchRealIds), teacher_engine(teacher, kMismatchRealIds),
      later_engine(later, kMismatchRealIds);
  std::vector<Prompt> prompts(6);
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    prompts[i].number = i;
    prompts[i].ids = {static_cast<std::int32_t>(5 + 7 * i), 3};
  }
  routing::ObjectiveOptions options;
  options.k = kSupport;
  const engine::Sampling sampling{.n = 1, .decoding = {}, .max_new_tokens = 12, .seed = 5};
  const Rollout rollout = base_engine.generate(prompts, sampling, {});
  const auto bank_of = [&](std::int64_t states) {
    return MismatchBank(base_engine, teacher_engine, prompts, states, 12, options, 5);
  };
  const MismatchBank bank = bank_of(rollout.states());  // all of them
  const std::vector<double> z_base = logits_of(base_engine, rollout),
                            z_teacher = logits_of(teacher_engine, rollout);
  double first_half = 0;
  for (engine::LocalEngine* student : {&base_engine, &later_engine}) {
    const std::vector<double> z = logits_of(*student, rollout);
    double total = 0;
    for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
      std::set<std::size_t> support = top(z_base, n);
      support.merge(top(z_teacher, n));
      double sum_student = 0, sum_teacher = 0, distance = 0;
      for (const std::size_t id : support) {
        sum_student += std::exp(z[n * kMismatchRealIds + id]);
        sum_teacher += std::exp(z_teacher[n * kMismatchRealIds + id]);
      }
      for (const std::size_t id : support) {
        distance += std::abs(std::exp(z[n * kMismatchRealIds + id]) / sum_student -
                             std::exp(z_teacher[n * kMismatchRealIds + id]) / sum_teacher);
      }
      total += distance / 2;
      if (student == &base_engine && n < rollout.id_N.size() / 2)
        first_half = total / static_cast<double>(n + 1);
    }
    EXPECT_NEAR(bank.mass(*student), total / static_cast<double>(rollout.states()), 1e-5);
  }
  EXPECT_GT(std::abs(bank.mass(base_engine) - bank.mass(later_engine)), 1e-4);
  EXPECT_GT(std::abs(bank_of(rollout.states() / 2).mass(base_engine) - first_half), 1e-4)
      << "the first, not drawn ones";
  EXPECT_THAT(error_of([&] { bank_of(1000); }), ::testing::HasSubstr("expected at least 1000"));
}

}  // namespace
}  // namespace routeopd::probe
