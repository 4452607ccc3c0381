// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/recipe.h"

#include <algorithm>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/formats/toml_settings.h"
#include "routeopd/train/recipe_fields.h"
#include "routeopd/train/remote_engines.h"

namespace routeopd::train {
namespace {

const RecipeSection& section_named(const std::string& name) {
  std::vector<std::string> known;
  for (const RecipeSection& part : recipe_sections()) {
    if (part.name.empty()) continue;
    if (part.name == name) return part;
    known.push_back(part.name);
  }
  throw UserError("unknown section [{}]; did you mean [{}]?", name, nearest_name(name, known));
}

void apply_section(Recipe& recipe, const std::string& name, const Json& settings) {
  const RecipeSection& part = section_named(name);
  if (!settings.is_object()) throw UserError("expected [{}] to be a section, got {}", name, shown(settings));
  try {
    if (name == "objective") {
      recipe.objective = routing::objective_from(settings, recipe.objective);
      return;
    }
    for (const auto& [key, value] : settings.items()) set_field(recipe, part.fields, key, value);
  } catch (const UserError& error) {
    throw UserError("[{}] {}", name, error.what());
  }
}

// {section: {key: value}}, top-level keys beside the sections.
void apply_settings(Recipe& recipe, const Json& settings) {
  for (const auto& [name, value] : settings.items()) {
    if (value.is_object()) {
      apply_section(recipe, name, value);
    } else {
      set_field(recipe, recipe_sections().front().fields, name, value);
    }
  }
}

// Lists and tables are written as JSON.
Json value_of_setting(const std::string& word) {
  if (!word.starts_with('[') && !word.starts_with('{')) return value_of_word(word);
  if (std::count(word.begin(), word.end(), '[') + std::count(word.begin(), word.end(), '{') > 8)
    throw UserError("expected a list of numbers, got a nest of lists");
  const Json value = Json::parse(word, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    throw UserError("expected a list such as [0.9, 0.95] or a table such as {{\"name\": \"file\"}}, got {}",
                    word);
  return value;
}

Json parse_settings(const std::vector<std::string>& settings) {
  Json parsed = Json::object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("{}: expected section.key=value", setting);
    const std::string name = setting.substr(0, equals);
    const Json value = value_of_setting(setting.substr(equals + 1));
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) {
      parsed[name] = value;
      continue;
    }
    Json& part = parsed[name.substr(0, dot)];
    if (!part.is_null() && !part.is_object())
      throw UserError("{} is a section and cannot be a value too", name.substr(0, dot));
    part[name.substr(dot + 1)] = value;
  }
  return parsed;
}

void need(const std::string& value, const char* name, const char* what) {
  if (value.empty()) throw UserError("{}: missing; expected {}", name, what);
}

// Settings under which every gradient is zero, or the captured scores are not those of the sampled policy.
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

Recipe read_recipe(const std::string& path, const std::vector<std::string>& settings) {
  Recipe recipe;
  const Json file = formats::toml_file(path);
  try {
    apply_settings(recipe, file);
  } catch (const UserError& error) {
    throw UserError("{}: {}", path, error.what());
  }
  try {
    apply_settings(recipe, parse_settings(settings));
  } catch (const UserError& error) {
    throw UserError("--set: {}", error.what());
  }
  return recipe;
}

Recipe resolved(Recipe recipe) {
  if (recipe.student.dtype == Dtype::kAuto) recipe.student.dtype = Dtype::kFloat32;  // decision 7 says why
  return recipe;
}

std::vector<std::string> differences(const Recipe& a, const Recipe& b) {
  std::vector<std::string> names;
  for (const RecipeSection& part : recipe_sections()) {
    for (const Field<Recipe>& field : part.fields)
      if (field.get(a) != field.get(b))
        names.push_back(part.name.empty() ? field.name : part.name + "." + field.name);
  }
  return names;
}

void check_recipe(const Recipe& recipe) {
  need(recipe.out, "out", "the run's directory (or --out DIR)");
  need(recipe.student.path, "[student] path", "a Hugging Face model directory");
  need(recipe.data.prompts, "[data] prompts", "a JSONL file of prompts");
  if (!recipe.sft()) need(recipe.teacher.path, "[teacher] path", "a Hugging Face model directory");
  if (!recipe.sft()) {
    check_servers(recipe.rollout, "rollout");
    check_servers(recipe.teacher, "teacher");
  }
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

std::string recipe_text(const Recipe& recipe) {
  std::string text;
  const auto add = [&](const Field<Recipe>& field) {
    text += fmt::format("{} = {}  # {}\n", field.name, formats::toml_value(field.get(recipe)), field.help);
  };
  for (const RecipeSection& part : recipe_sections()) {
    if (!part.name.empty()) text += fmt::format("\n[{}]\n", part.name);
    for (const Field<Recipe>& field : part.fields) add(field);
  }
  return text;
}

}  // namespace routeopd::train
