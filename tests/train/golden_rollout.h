// The goldens' given responses as rollouts, and their settings as a recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/train/recipe.h"
#include "routeopd/types/rollout.h"
#include "tiny_models.h"

namespace routeopd::train {

// The responses of `batch` ("prompts", and "responses" of each) as if the student had written them in that
// step.
inline Rollout golden_rollout(const Json& batch, std::uint32_t step) {
  Rollout rollout;
  for (std::size_t p = 0; p < batch["prompts"].size(); ++p) {
    rollout.prompt_ids_P.push_back(batch["prompts"][p]);
    for (std::size_t r = 0; r < batch["responses"][p].size(); ++r) {
      const std::vector<std::int32_t> ids = batch["responses"][p][r];
      rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(p),
                                     .sample = static_cast<std::int32_t>(r),
                                     .first_state = rollout.states(),
                                     .length = std::ssize(ids)});
      for (std::uint32_t j = 0; j < ids.size(); ++j) {
        rollout.id_N.push_back(ids[j]);
        rollout.address_N.push_back({.step = step,
                                     .prompt = static_cast<std::uint32_t>(p),
                                     .response = static_cast<std::uint32_t>(r),
                                     .position = j});
      }
    }
  }
  rollout.logprob_N.resize(rollout.id_N.size());
  return rollout;
}

inline Recipe golden_recipe(const Json& settings, const std::string& arm, const Json& more = Json::object()) {
  Recipe recipe;
  recipe.seed = settings["seed"];
  Json objective = {{"arm", arm}, {"k", settings["k"]}, {"m", settings["m"]}};
  objective.update(more);
  recipe.objective = routing::objective_from(objective);
  recipe.optimizer.lr = settings["adamw"]["lr"];
  recipe.optimizer.beta1 = settings["adamw"]["betas"][0];
  recipe.optimizer.beta2 = settings["adamw"]["betas"][1];
  recipe.optimizer.eps = settings["adamw"]["eps"];
  recipe.optimizer.weight_decay = settings["adamw"]["weight_decay"];
  recipe.optimizer.clip = settings["max_norm"];
  recipe.optimizer.warmup = 0;
  recipe.optimizer.schedule = ScheduleKind::kConstant;
  return recipe;
}

}  // namespace routeopd::train
