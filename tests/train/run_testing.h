// A small run on the tiny pair, for tests of the loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "routeopd/formats/json_lines.h"
#include "routeopd/train/train.h"
#include "testing_files.h"
#include "tiny_models.h"

namespace routeopd::train {

inline Recipe tiny_recipe(const std::filesystem::path& out, const std::string& arm = "routeopd") {
  Recipe recipe;
  recipe.out = out.string();
  recipe.student.path = tiny("student").string();
  recipe.teacher.path = tiny("teacher").string();
  recipe.data.prompts = "prompts of the test";
  recipe.rollout.prompts_per_step = 4;
  recipe.rollout.n = 2;
  recipe.rollout.max_new_tokens = 12;
  recipe.objective = routing::objective_from({{"arm", arm}, {"k", 8}});
  recipe.optimizer.lr = 1e-3;
  recipe.train.steps = 4;
  recipe.train.rollouts = true;
  recipe.checkpoint.every = 1;
  return recipe;
}

// Of a recipe that is checked, as whoever makes one does.
inline Inputs tiny_inputs(const Recipe& recipe) {
  check_recipe(recipe);
  Inputs inputs;
  inputs.student = model::load_model(recipe.student.path);
  for (const RunTeacher& teacher : recipe.run_teachers()) {
    const model::Model model = model::load_model(teacher.section->path);
    inputs.teachers.push_back({.name = teacher.name, .config = model.config, .model = model});
  }
  inputs.real_ids = 90;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Prompt& prompt = inputs.prompts.emplace_back();
    prompt.id = std::to_string(i);
    prompt.number = i;
    prompt.ids = {static_cast<std::int32_t>(3 + i), static_cast<std::int32_t>(40 + 2 * i), 7};
    prompt.response_ids = {static_cast<std::int32_t>(5 + i), 9, 1};
  }
  return inputs;
}

inline void run(const Recipe& recipe) {
  Inputs inputs = tiny_inputs(recipe);
  train(recipe, inputs);
}

// All that is reproducible.
inline std::vector<Json> metrics_of(const std::filesystem::path& run_directory) {
  formats::JsonLines lines((run_directory / "metrics.jsonl").string());
  std::vector<Json> all;
  while (auto line = lines.next()) {
    line->erase("time");
    line->erase("memory");
    all.push_back(*line);
  }
  return all;
}

}  // namespace routeopd::train
