// Every arm through the one interface: loss and gradients against float64 autograd of the plain formula on
// full logits, on both backends; and what must not change a result.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/objective/objective.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "routeopd/routing/route_states.h"
#include "routing/random_states.h"

namespace routeopd::objective {
namespace {

using model::Backend;
using model::HeadGradient;
using routing::Loss;
using routing::ObjectiveOptions;
using routing::testing::FullState;
using routing::testing::OwnedBatch;

constexpr std::int64_t kTokens = 23;
constexpr std::int64_t kHidden = 12;
constexpr std::int64_t kReal = 50;  // ids
constexpr std::int64_t kRows = 57;  // with padding
constexpr std::int64_t kTeacherHidden = 9;
constexpr std::int64_t kTeacherRows = 64;

at::Tensor random_tensor(at::IntArrayRef sizes, double scale) {
  return at::randn(sizes, at::kFloat) * scale;
}

// A learner some way from the behaviour student, with everything that any arm reads. Some states are not
// valid.
struct World {
  at::Tensor hidden_TH, weight_VH, old_hidden_TH, old_weight_VH, teacher_hidden_TX, teacher_weight_UX;
  at::Tensor old_TR, teacher_TR;  // logits, float64 of float32 values
  std::vector<std::int32_t> action_T;
  std::vector<float> old_logprob_T, teacher_logprob_T;
  std::vector<Validity> validity_T;
  Routes routes;
  double denominator = 31;  // states elsewhere in the batch count too

  World(const ObjectiveOptions& options, at::ScalarType dtype) {
    at::manual_seed(5);
    old_hidden_TH = random_tensor({kTokens, kHidden}, 1);
    old_weight_VH = random_tensor({kRows, kHidden}, 0.5);
    hidden_TH = (old_hidden_TH + random_tensor({kTokens, kHidden}, 0.2)).to(dtype);
    weight_VH = (old_weight_VH + random_tensor({kRows, kHidden}, 0.05)).to(dtype);
    teacher_hidden_TX = random_tensor({kTokens, kTeacherHidden}, 1).to(dtype);
    teacher_weight_UX = random_tensor({kTeacherRows, kTeacherHidden}, 0.6).to(dtype);
    old_TR = logits(old_hidden_TH, old_weight_VH).to(at::kFloat).to(at::kDouble);
    teacher_TR = logits(teacher_hidden_TX, teacher_weight_UX).to(at::kFloat).to(at::kDouble);

    const at::Tensor old_logprobs = at::log_softmax(old_TR, 1);
    const at::Tensor teacher_logprobs = at::log_softmax(teacher_TR, 1);
    std::vector<FullState> states;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const auto row = [](const at::Tensor& tensor) {
        const at::Tensor flat = tensor.contiguous();
        return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
      };
      states.push_back({row(old_TR[t]), row(teacher_TR[t])});
      const bool valid = t % 7 != 3;
      const std::int64_t action = (t * 11) % kReal;
      validity_T.push_back(valid ? Validity::kValid : Validity::kNotGenerated);
      action_T.push_back(valid ? static_cast<std::int32_t>(action) : -1);
      old_logprob_T.push_back(old_logprobs[t][action].item<float>());
      teacher_logprob_T.push_back(teacher_logprobs[t][action].item<float>());
    }
    teacher_logprob_T[2] = -std::numeric_limits<float>::infinity();
    OwnedBatch batch(states, options, 9);
    batch.view.validity_N = validity_T.data();
    routes = routing::route_states(batch.view, options, 9, 1);
  }

  static at::Tensor logits(const at::Tensor& hidden, const at::Tensor& weight) {
    return at::matmul(hidden.to(at::kDouble), weight.to(at::kDouble).slice(0, 0, kReal).t());
  }

  LearnerBatch batch(std::int64_t begin = 0, std::int64_t end = kTokens) const {
    LearnerBatch part;
    part.hidden_TH = hidden_TH.slice(0, begin, end);
    part.weight_VH = weight_VH;
    part.real_ids = kReal;
    part.denominator = denominator;
    part.routes = &routes;
    part.first_state = begin;
    part.sampled_id_N = action_T.data();
    part.sampled_old_logprob_N = old_logprob_T.data();
    part.sampled_teacher_logprob_N = teacher_logprob_T.data();
    part.teacher_hidden_TX = teacher_hidden_TX.slice(0, begin, end);
    part.teacher_weight_UX = teacher_weight_UX;
    return part;
  }
};

at::Tensor huber(const at::Tensor& residual, double kappa) {
  const at::Tensor size = residual.abs();
  return at::where(size <= kappa, residual * residual / 2, kappa * (size - kappa / 2));
}

// The plain formula of the arm, in float64, as a function of full current logits: what autograd
// differentiates.
at::Tensor naive_loss(const World& world, const ObjectiveOptions& options, const at::Tensor& logits_TR) {
  const at::Tensor log_p = at::log_softmax(logits_TR, 1);
  const at::Tensor log_teacher = at::log_softmax(world.teacher_TR, 1);
  const Routes& routes = world.routes;
  at::Tensor total = at::zeros({}, at::kDouble);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const auto n = static_cast<std::size_t>(t);
    if (world.validity_T[n] != Validity::kValid) continue;
    if (options.loss == Loss::kFullRkl) {
      total = total + (log_p[t].exp() * (log_p[t] - log_teacher[t])).sum();
    } else if (options.loss == Loss::kFullFkl) {
      total = total + (log_teacher[t].exp() * (log_teacher[t] - log_p[t])).sum();
    } else if (options.loss == Loss::kSft) {
      total = total - log_p[t][world.action_T[n]];
    } else if (options.loss == Loss::kSampledRkl) {
      const double old = world.old_logprob_T[n];
      const double teacher =
          std::isfinite(world.teacher_logprob_T[n]) ? world.teacher_logprob_T[n] : std::log(options.delta_p);
      const double advantage = teacher - old;
      const at::Tensor ratio = (log_p[t][world.action_T[n]] - old).exp();
      at::Tensor gain = ratio * advantage;
      if (options.ratio_clip > 0) {
        gain = at::minimum(gain, ratio.clamp(1 - options.ratio_clip, 1 + options.ratio_clip) * advantage);
      }
      total = total - gain;
    } else if (options.loss == Loss::kUnionRkl || options.loss == Loss::kUnionFkl ||
               options.pairs == routing::Pairs::kExact) {
      const auto begin = routes.support.offsets_N1[n], end = routes.support.offsets_N1[n + 1];
      at::Tensor ids = at::empty({end - begin}, at::kLong);
      for (std::int64_t i = begin; i < end; ++i)
        ids[i - begin] = routes.support.ids_L[static_cast<std::size_t>(i)];
      const at::Tensor z = logits_TR[t].index_select(0, ids);
      const at::Tensor z_old = world.old_TR[t].index_select(0, ids);
      const at::Tensor p_teacher = at::softmax(world.teacher_TR[t].index_select(0, ids), 0);
      const at::Tensor p_student = at::softmax(z_old, 0);
      const at::Tensor log_q = at::log_softmax(z, 0);
      if (options.loss == Loss::kUnionRkl) {
        total = total + (log_q.exp() * (log_q - p_teacher.log())).sum();
      } else if (options.loss == Loss::kUnionFkl) {
        total = total + (p_teacher * (p_teacher.log() - log_q)).sum();
      } else if (routes.routed_N[n]) {
        const at::Tensor excess = (p_student - p_teacher).clamp_min(0),
                         deficit = (p_teacher - p_student).clamp_min(0);
        const at::Tensor g = p_teacher.log() - p_student.log();
        const double budget = routes.budget_N[n];
        const at::Tensor u = z - z_old - budget / 2 * at::tanh(2 * g / budget);
        const at::Tensor residual_ba = u.unsqueeze(1) - u.unsqueeze(0);
        const at::Tensor coupling =
            (deficit / deficit.sum()).unsqueeze(1) * (excess / excess.sum()).unsqueeze(0);
        total = total + static_cast<double>(routes.weight_N[n]) *
                            (coupling * huber(residual_ba, options.kappa)).sum();
      }
    } else if (routes.routed_N[n]) {
      for (std::int64_t i = 0; i < routes.pairs; ++i) {
        const auto at = static_cast<std::size_t>(t * routes.pairs + i);
        const at::Tensor a = log_p[t][routes.source_NM[at]], b = log_p[t][routes.destination_NM[at]];
        const at::Tensor value = options.side == routing::Side::kPair     ? b - a
                                 : options.side == routing::Side::kSource ? a
                                                                          : b;
        const at::Tensor residual =
            value - static_cast<double>(routes.old_NM[at]) - static_cast<double>(routes.target_NM[at]);
        total = total + static_cast<double>(routes.weight_N[n]) / static_cast<double>(routes.pairs) *
                            huber(residual, options.kappa);
      }
    }
  }
  return total / world.denominator;
}

struct Result {
  double loss;
  at::Tensor grad_hidden, grad_weight;  // float64
  ObjectiveResult statistics;
};

Result run(const World& world, const ObjectiveOptions& options, Backend backend,
           const std::vector<std::int64_t>& cuts) {
  HeadGradient gradient(at::zeros({kRows, kHidden}, at::kFloat));
  at::Tensor grad_hidden = at::full({kTokens, kHidden}, 99, at::kFloat);
  const auto objective = make_objective(options, backend);
  Result result{0, {}, {}, {}};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    at::Tensor part = grad_hidden.slice(0, cuts[i], cuts[i + 1]);
    result.statistics = objective->step(world.batch(cuts[i], cuts[i + 1]), part, gradient);
    result.loss += result.statistics.loss;
  }
  result.grad_hidden = grad_hidden.to(at::kDouble);
  result.grad_weight = gradient.tensor().to(at::kDouble).clone();
  return result;
}

double relative(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).norm() / expected.norm()).item<double>();
}

ObjectiveOptions options_of(const Json& settings) {
  Json all = {{"k", 8}, {"m", 3}, {"kappa", 0.3}};
  all.update(settings);
  return routing::objective_from(all);
}

std::vector<Json> arms() {
  std::vector<Json> settings;
  for (const std::string& name : routing::arm_names()) settings.push_back({{"arm", name}});
  settings.push_back({{"pairs", "exact"}});
  settings.push_back({{"pairs", "exact"}, {"kappa", 0.02}});
  settings.push_back({{"pairs", "exact"}, {"k", "full"}});
  settings.push_back({{"arm", "source_only"}, {"weight", "one"}});
  settings.push_back({{"arm", "sampled_rkl"}, {"ratio_clip", 0.2}});
  settings.push_back({{"k", "full"}, {"m", 1}});
  return settings;
}

class EveryArm : public ::testing::TestWithParam<Json> {};

TEST_P(EveryArm, LossAndGradientsEqualAutogradOfThePlainFormula) {
  const ObjectiveOptions options = options_of(GetParam());
  for (const at::ScalarType dtype :
       {at::kFloat, at::kBFloat16}) {  // bf16: the formula sees the rounded values too
    const World world(options, dtype);
    at::Tensor hidden = world.hidden_TH.to(at::kDouble).clone().requires_grad_(true);
    at::Tensor weight = world.weight_VH.to(at::kDouble).clone().requires_grad_(true);
    const at::Tensor expected = naive_loss(world, options, at::matmul(hidden, weight.slice(0, 0, kReal).t()));
    ASSERT_GT(std::abs(expected.item<double>()), 1e-6);
    expected.backward();

    for (const Backend backend : {Backend::kAuto, Backend::kAten}) {
      const Result result = run(world, options, backend, {0, kTokens});
      EXPECT_NEAR(result.loss, expected.item<double>(), 2e-6 * (1 + std::abs(expected.item<double>())));
      EXPECT_LT(relative(result.grad_hidden, hidden.grad()), 2e-5);
      EXPECT_LT(relative(result.grad_weight, weight.grad()), 2e-5);
      EXPECT_EQ(result.grad_weight.slice(0, kReal, kRows).abs().max().item<double>(), 0)
          << "padded rows moved";
      EXPECT_EQ(result.grad_hidden[3].abs().max().item<double>(), 0) << "an invalid state pulled";
    }
  }
}

TEST_P(EveryArm, AutogradEqualsFiniteDifferences) {
  const ObjectiveOptions options = options_of(GetParam());
  const World world(options, at::kFloat);
  at::Tensor logits = World::logits(world.hidden_TH, world.weight_VH).requires_grad_(true);
  naive_loss(world, options, logits).backward();
  const at::Tensor gradient = logits.grad();
  const double step = 1e-6;
  for (std::int64_t probe = 0; probe < 40; ++probe) {
    const std::int64_t t = probe % kTokens, v = (probe * 13) % kReal;
    const auto shifted = [&](double by) {
      at::Tensor moved = logits.detach().clone();
      moved[t][v] += by;
      return naive_loss(world, options, moved).item<double>();
    };
    EXPECT_NEAR(gradient[t][v].item<double>(), (shifted(step) - shifted(-step)) / (2 * step), 1e-7);
  }
}

TEST_P(EveryArm, MicroBatchCutsDoNotChangeTheResult) {
  const ObjectiveOptions options = options_of(GetParam());
  const World world(options, at::kFloat);
  const Result whole = run(world, options, Backend::kAuto, {0, kTokens});
  const Result cut = run(world, options, Backend::kAuto, {0, 1, 9, 10, kTokens});
  EXPECT_NEAR(cut.loss, whole.loss, 1e-6 * std::abs(whole.loss));
  EXPECT_LT(relative(cut.grad_hidden, whole.grad_hidden), 1e-6);
  EXPECT_LT(relative(cut.grad_weight, whole.grad_weight), 1e-6);
}

TEST_P(EveryArm, RepeatsToTheBit) {
  const ObjectiveOptions options = options_of(GetParam());
  const World world(options, at::kFloat);
  const Result first = run(world, options, Backend::kAuto, {0, kTokens});
  const Result second = run(world, options, Backend::kAuto, {0, kTokens});
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_TRUE(at::equal(first.grad_hidden, second.grad_hidden));
  EXPECT_TRUE(at::equal(first.grad_weight, second.grad_weight));
}

std::string case_name(const ::testing::TestParamInfo<Json>& info) {
  std::string name;
  for (const auto& [key, value] : info.param.items())
    name += (name.empty() ? "" : "_") + key + "_" + shown(value);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Objective, EveryArm, ::testing::ValuesIn(arms()), case_name);

TEST(Objective, FlippingTheSignOfATargetIsSeen) {  // the comparison above can fail
  const ObjectiveOptions options = options_of({{"arm", "routeopd"}});
  World world(options, at::kFloat);
  const Result right = run(world, options, Backend::kAuto, {0, kTokens});
  for (float& target : world.routes.target_NM) target = -target;
  const Result wrong = run(world, options, Backend::kAuto, {0, kTokens});
  EXPECT_GT(relative(wrong.grad_hidden, right.grad_hidden), 1e-2);
}

TEST(Objective, FirstUpdatePullsByTheTargetAlone) {  // Delta = 0: the capture error is rounding
  const ObjectiveOptions options = options_of({{"arm", "routeopd"}, {"kappa", 1.0}});
  World world(options, at::kFloat);
  world.hidden_TH = world.old_hidden_TH;
  world.weight_VH = world.old_weight_VH;
  const Result result = run(world, options, Backend::kAuto, {0, kTokens});
  const ObjectiveResult& statistics = result.statistics;
  ASSERT_GT(statistics.changes, 0);
  EXPECT_LT(std::sqrt(statistics.change_squares / static_cast<double>(statistics.changes)), 1e-5);
  double expected = 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(kTokens); ++n) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double target = world.routes.target_NM[n * 3 + i];
      expected += world.routes.weight_N[n] / 3.0 * target * target / 2 / world.denominator;
    }
  }
  EXPECT_NEAR(result.loss, expected, 1e-6 * expected);
}

// The old values that record() keeps are those of a first step(), of the batch's own states and no others.
TEST(Objective, RecordKeepsWhatAFirstStepWouldAndNothingElse) {
  constexpr float kUntouched = 77;
  constexpr std::int64_t kFrom = 4, kTo = 13;
  for (const Json& settings : arms()) {
    const ObjectiveOptions options = options_of(settings);
    const World world(options, at::kFloat);
    for (const Backend backend : {Backend::kAuto, Backend::kAten}) {
      const auto objective = make_objective(options, backend);
      SCOPED_TRACE(settings.dump());
      const auto pairs = world.routes.source_NM.size(), ids = world.routes.support.ids_L.size();
      const auto tokens = static_cast<std::size_t>(kTokens);
      OldValues recorded{.pair_NM = std::vector<float>(pairs, kUntouched),
                         .support_L = std::vector<float>(ids, kUntouched),
                         .logprob_N = std::vector<float>(tokens, kUntouched)};
      OldValues stepped = recorded;
      LearnerBatch batch = world.batch(kFrom, kTo);
      batch.first = true;
      batch.old = &recorded;
      objective->record(batch);
      if (!objective->reads_old()) {
        for (const std::vector<float>* values : {&recorded.pair_NM, &recorded.support_L, &recorded.logprob_N})
          EXPECT_EQ(std::count(values->begin(), values->end(), kUntouched), std::ssize(*values));
        continue;
      }
      batch.old = &stepped;
      at::Tensor grad_hidden = at::zeros({kTo - kFrom, kHidden}, at::kFloat);
      HeadGradient gradient(at::zeros({kRows, kHidden}, at::kFloat));
      objective->step(batch, grad_hidden, gradient);
      std::size_t filled = 0;
      // Where a state has no such value record() writes 0 and a step leaves what it found.
      const auto compare = [&](const std::vector<float>& got, const std::vector<float>& wanted,
                               const std::vector<std::int64_t>& offsets) {
        for (std::size_t n = 0; n < tokens; ++n) {
          const bool inside = static_cast<std::int64_t>(n) >= kFrom && static_cast<std::int64_t>(n) < kTo;
          for (auto i = static_cast<std::size_t>(offsets[n]); i < static_cast<std::size_t>(offsets[n + 1]);
               ++i) {
            if (!inside) {
              EXPECT_EQ(got[i], kUntouched) << "state " << n;
            } else if (wanted[i] != kUntouched && got[i] != kUntouched) {
              EXPECT_NEAR(got[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << "state " << n;  // float32
              ++filled;
            }
          }
        }
      };
      std::vector<std::int64_t> by_pair, by_token;
      for (std::int64_t n = 0; n <= kTokens; ++n) {
        by_pair.push_back(n * world.routes.pairs);
        by_token.push_back(n);
      }
      if (pairs > 0) compare(recorded.pair_NM, stepped.pair_NM, by_pair);
      compare(recorded.logprob_N, stepped.logprob_N, by_token);
      if (ids > 0)
        compare(recorded.support_L, stepped.support_L,
                {world.routes.support.offsets_N1.begin(), world.routes.support.offsets_N1.end()});
      EXPECT_GT(filled, 0U);
      const OldValues kept = stepped;  // a later update compares with them and leaves them
      batch.first = false;
      batch.hidden_TH = batch.hidden_TH * 1.5;
      objective->step(batch, grad_hidden, gradient);
      EXPECT_EQ(stepped.pair_NM, kept.pair_NM);
      EXPECT_EQ(stepped.support_L, kept.support_L);
      EXPECT_EQ(stepped.logprob_N, kept.logprob_N);
    }
  }
}

TEST(Objective, FlooredTeacherValuesAreCounted) {
  const ObjectiveOptions options = options_of({{"arm", "sampled_rkl"}});
  const World world(options, at::kFloat);
  EXPECT_EQ(run(world, options, Backend::kAuto, {0, kTokens}).statistics.floored, 1);
}

// A teacher without mass at one id: the reverse KL floors it once at every valid state, the forward KL never.
TEST(Objective, FlooredTeacherLogitsOfTheFullKlAreCounted) {
  for (const char* arm : {"full_rkl", "full_fkl"}) {
    const ObjectiveOptions options = options_of({{"arm", arm}});
    World world(options, at::kFloat);
    for (const Backend backend : {Backend::kAuto, Backend::kAten})
      EXPECT_EQ(run(world, options, backend, {0, kTokens}).statistics.floored, 0) << arm;
    world.teacher_hidden_TX.select(1, 0).fill_(1);
    world.teacher_weight_UX[7][0] = -std::numeric_limits<float>::infinity();
    const auto valid = std::count(world.validity_T.begin(), world.validity_T.end(), Validity::kValid);
    for (const Backend backend : {Backend::kAuto, Backend::kAten}) {
      const Result result = run(world, options, backend, {0, kTokens});
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_EQ(result.statistics.floored, options.loss == Loss::kFullRkl ? valid : 0)
          << arm << ", backend " << static_cast<int>(backend);
    }
  }
}

TEST(Objective, OnlyDenseArmsSayTheyAreDense) {
  for (const Json& settings : arms()) {
    const ObjectiveOptions options = options_of(settings);
    const bool needs_partition = options.side != routing::Side::kPair || options.loss == Loss::kSampledRkl ||
                                 options.loss == Loss::kFullRkl || options.loss == Loss::kFullFkl ||
                                 options.loss == Loss::kSft;
    EXPECT_EQ(make_objective(options)->dense(), needs_partition) << settings;
  }
}

}  // namespace
}  // namespace routeopd::objective
