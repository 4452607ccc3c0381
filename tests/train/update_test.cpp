// One update of each arm on a tiny Qwen3 against a PyTorch script (goldens/make_model_goldens.py): routes,
// loss, the gradient of every tensor before the optimizer, and the change of every tensor after it.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/train/learner.h"
#include "routeopd/train/route_rollout.h"
#include "tiny_models.h"
#include "train/golden_rollout.h"

namespace routeopd::train {
namespace {

constexpr double kGradientTolerance = 1e-4;  // relative, per tensor
// Relative. A routed loss is the square of a difference of float32 logits: residuals of 0.06 from logits good
// to 6e-7.
constexpr double kLossTolerance = 2e-5;
constexpr double kUpdateTolerance = 1e-3;

const Json& golden_batch() {
  static const Json batch = tiny_json("batch.json");
  return batch;
}

// A step on the golden batch, up to its gradients.
struct Step {
  Recipe recipe;
  model::Model student = model::load_model(tiny("student"));
  model::Model teacher = model::load_model(tiny("teacher"));
  Rollout rollout = golden_rollout(golden_batch(), 0);
  Scores scores;
  Routes routes;
  std::unique_ptr<Learner> learner;
  BatchResult result;

  explicit Step(const std::string& arm, std::int64_t micro_tokens = 16384,
                const Json& more = Json::object()) {
    const Json& settings = golden_batch()["settings"];
    const auto real_ids = settings["real_ids"].get<std::int32_t>();
    recipe = golden_recipe(settings, arm, more);
    recipe.train.micro_tokens = micro_tokens;
    engine::LocalEngine student_engine(student, real_ids), teacher_engine(teacher, real_ids);
    const Heads heads{student.head_VH, teacher.head_VH, real_ids};
    if (!recipe.sft()) {
      scores = engine::score_rollout(student_engine, teacher_engine, rollout,
                                     score_options(recipe.objective, rollout, true, recipe.seed, real_ids));
      routes = route_rollout(rollout, scores, recipe.objective, recipe.seed, heads);
    }
    learner = std::make_unique<Learner>(student, teacher.head_VH, real_ids, recipe);
    result = learner->loss_gradients().accumulate(experience(), 0, rollout.responses_B.size());
  }

  Experience experience() const {
    return recipe.sft() ? Experience{.rollout = &rollout} : Experience{&rollout, &scores, &routes};
  }
};

class OneUpdate : public ::testing::TestWithParam<const char*> {
 protected:
  formats::Safetensors file_{tiny(fmt::format("update_{}.safetensors", GetParam()))};

  // The largest relative error of any tensor's gradient, as if the objective had the given sign.
  double gradient_error(const std::vector<at::Tensor>& gradients, const Step& step, double sign) const {
    double worst = 0;
    const auto parameters = model::parameters(step.student);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      worst = std::max(worst,
                       relative_error(sign * gradients[i], tensor_of(file_, "grad." + parameters[i].name)));
    }
    return worst;
  }

  // The same of the change that one optimizer step makes.
  double update_error(Step& step, double sign) const {
    const auto parameters = model::parameters(step.student);
    std::vector<at::Tensor> before, gradients;
    for (const auto& parameter : parameters) before.push_back(parameter.tensor.detach().clone());
    for (const at::Tensor& gradient : step.learner->loss_gradients().gradients())
      gradients.push_back(sign * gradient);
    AdamW optimizer(parameters, step.recipe.optimizer);
    optimizer.step(gradients, step.recipe.optimizer.lr);
    double worst = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor change = parameters[i].tensor.detach() - before[i];
      worst = std::max(worst, relative_error(change, tensor_of(file_, "delta." + parameters[i].name)));
    }
    return worst;
  }
};

TEST_P(OneUpdate, LossAndGradientsEqualPyTorch) {
  Step step(GetParam());
  const Json& expected = golden_batch()["arms"][GetParam()];
  EXPECT_NEAR(step.result.loss, expected["loss"].get<double>(),
              kLossTolerance * std::abs(expected["loss"].get<double>()));
  EXPECT_LT(gradient_error(step.learner->loss_gradients().gradients(), step, 1), kGradientTolerance);
  EXPECT_GT(gradient_error(step.learner->loss_gradients().gradients(), step, -1), 1.0)
      << "a flipped sign must fail";
}

TEST_P(OneUpdate, UpdateEqualsTorchAdamW) {
  Step step(GetParam());
  EXPECT_LT(update_error(step, 1), kUpdateTolerance);
  Step flipped(GetParam());
  EXPECT_GT(update_error(flipped, -1), 0.5) << "a flipped sign must fail";
}

TEST_P(OneUpdate, LearnerMakesThatUpdate) {
  Step step(GetParam());
  step.learner->loss_gradients().clear();
  const auto parameters = model::parameters(step.student);
  std::vector<at::Tensor> before;
  for (const auto& parameter : parameters) before.push_back(parameter.tensor.detach().clone());
  const UpdateResult update = step.learner->update(step.experience());
  EXPECT_NEAR(update.grad_norm, golden_batch()["arms"][GetParam()]["grad_norm"].get<double>(),
              1e-4 * update.grad_norm);
  EXPECT_LT(update.capture_error.value_or(0), 1e-5);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_LT(relative_error(parameters[i].tensor.detach() - before[i],
                             tensor_of(file_, "delta." + parameters[i].name)),
              kUpdateTolerance)
        << parameters[i].name;
  }
}

TEST_P(OneUpdate, MicroBatchesDoNotMatter) {
  const Step whole(GetParam());
  for (const std::int64_t tokens : {1, 12, 30}) {
    const Step cut(GetParam(), tokens);
    EXPECT_NEAR(cut.result.loss, whole.result.loss, kLossTolerance * std::abs(whole.result.loss)) << tokens;
    EXPECT_LT(gradient_error(cut.learner->loss_gradients().gradients(), cut, 1), kGradientTolerance)
        << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(Main, OneUpdate,
                         ::testing::Values("routeopd", "fixed_mid", "sampled_rkl", "full_rkl", "full_fkl",
                                           "union_rkl", "union_fkl", "sft"),
                         [](const auto& arm) { return std::string(arm.param); });

TEST(GoldenRoutes, PairsAndStatisticsEqualTheScripts) {
  const Step step("routeopd");
  const Json& states = golden_batch()["states"];
  ASSERT_EQ(states.size(), step.rollout.id_N.size());
  for (std::size_t n = 0; n < states.size(); ++n) {
    EXPECT_NEAR(step.routes.mass_N[n], states[n]["mass"].get<double>(), 1e-5);
    EXPECT_NEAR(step.routes.concentration_N[n], states[n]["concentration"].get<double>(), 1e-4);
    EXPECT_NEAR(step.routes.budget_N[n], states[n]["budget"]["routeopd"].get<double>(), 1e-4);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(step.routes.source_NM[2 * n + i], states[n]["pairs"][i][0].get<int>()) << "state " << n;
      EXPECT_EQ(step.routes.destination_NM[2 * n + i], states[n]["pairs"][i][1].get<int>()) << "state " << n;
      EXPECT_NEAR(step.routes.target_NM[2 * n + i], states[n]["target"]["routeopd"][i].get<double>(), 1e-4);
    }
  }
}

// Cut into minibatches without moving, a step's loss is that of the whole: every response counts once, by its
// states.
TEST(Minibatches, CoverEveryResponseOnce) {
  Step whole("routeopd");
  for (const std::int32_t parts : {2, 3, 6}) {
    Step cut("routeopd");
    cut.recipe.train.minibatches = parts;
    cut.recipe.optimizer.lr = 1e-30;
    Learner learner(cut.student, cut.teacher.head_VH, 90, cut.recipe);
    cut.learner->loss_gradients().clear();
    const UpdateResult update = learner.update(cut.experience());
    EXPECT_NEAR(update.loss, whole.result.loss, kLossTolerance * whole.result.loss) << parts;
    EXPECT_EQ(learner.optimizer().updates(), parts);
  }
}

// A forward in bfloat16 (8 bits of precision) over float32 weights: near the float32 gradient, summed in
// float32 however the batch is cut, and the weights that AdamW keeps are not rounded.
class InBfloat16 : public ::testing::TestWithParam<const char*> {};

TEST_P(InBfloat16, GradientsAreNearAndWeightsStayFloat32) {
  Step exact(GetParam());
  // Rounding of 2^-9 per value, through two layers; the other arms learn from the difference of two models
  // that are near each other, to which it is larger.
  const double tolerance = exact.recipe.sft() ? 0.03 : 0.15;
  std::vector<at::Tensor> truth;
  for (const at::Tensor& gradient : exact.learner->loss_gradients().gradients())
    truth.push_back(gradient.clone());
  exact.learner->loss_gradients().clear();
  for (const std::int64_t tokens : {16384, 12}) {
    exact.recipe.student.dtype = Dtype::kBfloat16;
    exact.recipe.train.micro_tokens = tokens;
    Learner learner(exact.student, exact.teacher.head_VH, 90, exact.recipe);
    const BatchResult result =
        learner.loss_gradients().accumulate(exact.experience(), 0, exact.rollout.responses_B.size());
    EXPECT_NEAR(result.loss, exact.result.loss, tolerance / 2 * std::abs(exact.result.loss));
    // All tensors together: where teacher and student nearly agree, single ones are small differences.
    std::vector<at::Tensor> mine, theirs;
    const std::vector<at::Tensor> rounded = learner.loss_gradients().gradients();
    for (std::size_t i = 0; i < truth.size(); ++i) {
      EXPECT_EQ(rounded[i].scalar_type(), at::kFloat);
      mine.push_back(rounded[i].flatten());
      theirs.push_back(truth[i].flatten());
    }
    EXPECT_LT(relative_error(at::cat(mine), at::cat(theirs)), tolerance) << tokens;
  }
  // A learning rate under bfloat16's resolution moves the weights all the same, update by update.
  const at::Tensor before = exact.student.layers[0].q_proj_QH.detach().clone();
  exact.recipe.optimizer.lr = 1e-6;
  Learner learner(exact.student, exact.teacher.head_VH, 90, exact.recipe);
  for (int i = 0; i < 3; ++i) learner.update(exact.experience());
  const at::Tensor moved = (exact.student.layers[0].q_proj_QH.detach() - before).abs();
  EXPECT_GT(moved.median().item<double>(), 1e-6);
  EXPECT_LT(moved.max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Arms, InBfloat16, ::testing::Values("sampled_rkl", "union_rkl", "full_rkl", "sft"),
                         [](const auto& arm) { return std::string(arm.param); });

// A state that is not valid counts neither above nor below the line. At the first update the sampled loss is
// -mean A.
TEST(Validity, InvalidStatesLeaveTheMean) {
  Step step("sampled_rkl");
  step.learner->loss_gradients().clear();
  double sum = 0, count = 0;
  for (std::size_t n = 0; n < step.rollout.id_N.size(); ++n) {
    if (n % 3 == 1) {
      step.routes.validity_N[n] = Validity::kNonFinite;
      continue;
    }
    sum += static_cast<double>(step.scores.teacher_logprob_N[n]) -
           static_cast<double>(step.rollout.logprob_N[n]);
    ++count;
  }
  const BatchResult result =
      step.learner->loss_gradients().accumulate(step.experience(), 0, step.rollout.responses_B.size());
  EXPECT_EQ(result.states, static_cast<std::int64_t>(count));
  EXPECT_NEAR(result.loss, -sum / count, 1e-5 * std::abs(sum / count));
}

TEST(Validity, ABatchWithoutAValidStateMovesNothing) {
  Step step("sampled_rkl");
  step.learner->loss_gradients().clear();
  std::fill(step.routes.validity_N.begin(), step.routes.validity_N.end(), Validity::kNonFinite);
  const at::Tensor before = step.student.embed_VH.detach().clone();
  EXPECT_EQ(step.learner->update(step.experience()).skipped.total(), 1);
  EXPECT_TRUE(at::equal(step.student.embed_VH.detach(), before));
}

// An untied head has a gradient of its own: along each tensor's gradient the loss changes as it says.
TEST(UntiedHead, GradientsAreTheLossesSlopes) {
  model::Model student = model::load_model(tiny("untied"));
  Recipe recipe;
  recipe.objective = routing::objective_from({{"arm", "sft"}});
  Rollout rollout = golden_rollout(golden_batch(), 0);
  for (auto& ids : rollout.prompt_ids_P)
    for (std::int32_t& id : ids) id %= 60;
  for (std::int32_t& id : rollout.id_N) id %= 60;
  Learner learner(student, {}, 60, recipe);
  const Experience experience{.rollout = &rollout, .scores = nullptr, .routes = nullptr};
  const auto loss = [&] {
    return learner.loss_gradients().accumulate(experience, 0, rollout.responses_B.size()).loss;
  };
  loss();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& gradient : learner.loss_gradients().gradients())
    gradients.push_back(gradient.clone());
  auto parameters = model::parameters(student);
  ASSERT_EQ(parameters.back().name, "lm_head.weight");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double norm = gradients[i].norm().item<double>();
    ASSERT_GT(norm, 1e-3) << parameters[i].name;
    const c10::NoGradGuard no_grad;
    const at::Tensor start = parameters[i].tensor.clone(), step = gradients[i] * (2e-3 / norm);
    parameters[i].tensor.copy_(start + step);
    const double up = loss();
    parameters[i].tensor.copy_(start - step);
    const double down = loss();
    parameters[i].tensor.copy_(start);
    EXPECT_NEAR((up - down) / 4e-3, norm, 0.02 * norm) << parameters[i].name;
  }
}

// With the support over the whole vocabulary the union KL is the full one.
TEST(FullSupport, UnionKlIsTheFullKl) {
  Step over_union("union_rkl", 16384, {{"k", "full"}}), full("full_rkl");
  EXPECT_NEAR(over_union.result.loss, full.result.loss, 1e-5 * full.result.loss);
  const auto a = over_union.learner->loss_gradients().gradients(),
             b = full.learner->loss_gradients().gradients();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(relative_error(a[i], b[i]), kGradientTolerance);
}

// Full support is routed in chunks of states: the same as a top-k of every id, in one piece.
TEST(FullSupport, ChunksOfStatesDoNotMatter) {
  const model::Model student = model::load_model(tiny("student")),
                     teacher = model::load_model(tiny("teacher"));
  engine::LocalEngine write(student, 90), read(teacher, 90);
  std::vector<Prompt> prompts(10);
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    prompts[i].number = i;
    prompts[i].ids = {static_cast<std::int32_t>(4 + 8 * i), 7};
  }
  const engine::Sampling sampling{.n = 4, .decoding = {}, .max_new_tokens = 20, .seed = 3};
  std::vector<Routes> both;
  for (const Json& k : {Json("full"), Json(90)}) {
    const routing::ObjectiveOptions options = routing::objective_from({{"k", k}, {"pairs", "sample"}});
    Rollout rollout = write.generate(prompts, sampling, capture_options(options));
    ASSERT_GT(rollout.states(), 2 * 256);
    Scores scores =
        engine::score_rollout(write, read, rollout, score_options(options, rollout, false, 1, 90));
    scores.validity_N[400] = Validity::kMisaligned;
    both.push_back(route_rollout(rollout, scores, options, 1, {student.head_VH, teacher.head_VH, 90}));
  }
  ASSERT_EQ(both[0].states, both[1].states);
  EXPECT_EQ(both[0].validity_N, both[1].validity_N);
  std::size_t different =
      0;  // a draw may fall otherwise only where its number lies within rounding of a step
  for (std::size_t i = 0; i < both[0].source_NM.size(); ++i) {
    different += both[0].source_NM[i] != both[1].source_NM[i] ||
                 both[0].destination_NM[i] != both[1].destination_NM[i];
  }
  EXPECT_LE(different, both[0].source_NM.size() / 200);
  for (std::size_t n = 0; n < both[0].mass_N.size(); ++n)
    EXPECT_NEAR(both[0].mass_N[n], both[1].mass_N[n], 1e-5);
}

// Every other arm of the method's table runs through the same stages and moves something.
TEST(EveryPreset, HasAGradient) {
  for (const std::string& arm : routing::arm_names()) {
    Step step(arm);
    EXPECT_TRUE(std::isfinite(step.result.loss)) << arm;
    double norm = 0;
    for (const at::Tensor& gradient : step.learner->loss_gradients().gradients())
      norm += gradient.norm().item<double>();
    EXPECT_GT(norm, 1e-3) << arm;
  }
}

}  // namespace
}  // namespace routeopd::train
