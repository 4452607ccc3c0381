// What a recipe may not ask for, with the reason.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/error.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {
namespace {

void need(const std::string& value, const char* name, const char* what) {
  if (value.empty()) throw UserError("{}: missing; expected {}", name, what);
}

// Settings under which every gradient is zero, or the frozen data is not that of the policy it is taken for.
void check_it_can_learn(const Recipe& recipe) {
  const routing::ObjectiveOptions& objective = recipe.objective;
  const bool behaviour_differs = recipe.rollout.top_p < 1 || recipe.rollout.temperature != 1;
  if (!recipe.sft() && behaviour_differs && recipe.rollout.old_scores == OldScores::kCapture) {
    throw UserError(
        "[rollout] old_scores: captured scores are those of sampling at temperature 1 and top_p 1; choose "
        "these or old_scores = \"rescore\"");
  }
  if (objective.loss == routing::Loss::kRouted && objective.delta_m >= 1)
    throw UserError(
        "[objective] delta_m: no state's mismatch mass exceeds 1, so none would be routed and the loss has "
        "no gradient; choose a number below 1, such as 1e-6");
  if (objective.needs_pool() && objective.k == routing::kFullSupport)
    throw UserError(
        "[objective] k: a full support leaves no background to draw destinations from; choose a number");
}

}  // namespace

void check_recipe(const Recipe& recipe) {
  need(recipe.out, "out", "the run's directory (or --out DIR)");
  need(recipe.student.path, "[student] path", "a Hugging Face model directory");
  need(recipe.data.prompts, "[data] prompts", "a JSONL file of prompts");
  if (!recipe.sft()) need(recipe.teacher.path, "[teacher] path", "a Hugging Face model directory");
  routing::check_objective(recipe.objective);
  check_it_can_learn(recipe);
  if (recipe.eval.every > 0 && recipe.eval.suites.empty())
    throw UserError("[eval] suites: missing; expected {{ name = \"file.jsonl\" }}, or every = 0");
  if (recipe.probe.every > 0 && recipe.sft())
    throw UserError("[probe] every: the sft arm has no teacher to differ from; choose 0");
  if (recipe.train.minibatches > recipe.responses())
    throw UserError("[train] minibatches: {} exceed the {} responses of a step", recipe.train.minibatches,
                    recipe.responses());
}

}  // namespace routeopd::train
