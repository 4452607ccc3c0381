// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/recipe.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/toml_settings.h"
#include "routeopd/train/learner_device.h"
#include "routeopd/train/recipe_fields.h"
#include "routeopd/train/remote_engines.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::train {
namespace {

constexpr std::string_view kTeachersSection = "teachers";

const RecipeSection& section_named(const std::string& name) {
  std::vector<std::string> known = {std::string(kTeachersSection)};
  for (const RecipeSection& part : recipe_sections()) {
    if (part.name.empty()) continue;
    if (part.name == name) return part;
    known.push_back(part.name);
  }
  throw UserError("unknown section [{}]; did you mean [{}]?", name, nearest_name(name, known));
}

void set_fields(Recipe& recipe, const RecipeSection& part, const Json& settings) {
  try {
    for (const auto& [key, value] : settings.items()) set_field(recipe, part.fields, key, value);
  } catch (const UserError& error) {
    throw UserError("[{}] {}", part.name, error.what());
  }
}

// Names are keys of metrics and of TOML: what needs no quotes in either.
void check_teacher_name(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!plain)
    throw UserError("[teachers] expected names of letters, digits, _ and -, got {}", Json(name).dump());
  if (name == "default")
    throw UserError("[teachers] default: expected the name of a teacher; no teacher can be called default");
}

// {default, NAME: {key: value}}
void apply_teachers(Recipe& recipe, const Json& settings) {
  for (const auto& [name, value] : settings.items()) {
    if (!value.is_object()) {
      set_fields(recipe, teachers_section(), {{name, value}});
      continue;
    }
    check_teacher_name(name);
    recipe.teachers[name];  // there, also where nothing is said of it
    set_fields(recipe, teacher_section(name), value);
  }
}

void apply_section(Recipe& recipe, const std::string& name, const Json& settings) {
  if (name == kTeachersSection) return apply_teachers(recipe, settings);
  const RecipeSection& part = section_named(name);
  if (!settings.is_object()) throw UserError("expected [{}] to be a section, got {}", name, shown(settings));
  if (name != "objective") return set_fields(recipe, part, settings);
  try {
    recipe.objective = routing::objective_from(settings, recipe.objective);
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
    const auto section_in = [](Json& outer, const std::string& section) -> Json& {
      Json& part = outer[section];
      if (!part.is_null() && !part.is_object())
        throw UserError("{} is a section and cannot be a value too", section);
      return part;
    };
    const std::string section = name.substr(0, dot), key = name.substr(dot + 1);
    Json& part = section_in(parsed, section);
    const std::size_t inner = key.find('.');
    if (section != kTeachersSection || inner == std::string::npos) {
      part[key] = value;
    } else {
      section_in(part, key.substr(0, inner))[key.substr(inner + 1)] = value;
    }
  }
  formats::refuse_zero_bytes(parsed);
  return parsed;
}

bool is_default(const RecipeSection& part, const Recipe& recipe) {
  static const Recipe defaults;
  return std::all_of(part.fields.begin(), part.fields.end(),
                     [&](const Field<Recipe>& field) { return field.get(recipe) == field.get(defaults); });
}

void need(const std::string& value, const char* name, const char* what) {
  if (value.empty()) throw UserError("{}: missing; expected {}", name, what);
}

bool behaviour_differs(const RolloutSection& rollout) {
  return rollout.top_p < 1 || rollout.temperature != 1;
}

// Whose values are whose, said twice and differently.
void check_old_values(const Recipe& recipe) {
  const RolloutSection rollout = resolved(recipe).rollout;
  const bool own_old = rollout.old_scores == OldScores::kLearner;
  if (recipe.sft()) {
    if (rollout.student_values == StudentValues::kLearner)
      throw UserError("[rollout] student_values: arm sft has no routes to make from them; choose \"engine\"");
  } else if (rollout.student_values == StudentValues::kLearner && !own_old) {
    throw UserError(
        "[rollout] old_scores: with student_values = \"learner\" the engine's values are neither captured "
        "nor computed again; choose \"learner\" or \"auto\"");
  }
  if (rollout.rollout_correction == RolloutCorrection::kNone) return;
  if (recipe.objective.loss != routing::Loss::kSampledRkl)
    throw UserError(
        "[rollout] rollout_correction: arm {} does not weigh the tokens that were drawn; choose \"none\", or "
        "arm sampled_rkl",
        recipe.objective.arm);
  if (!own_old)
    throw UserError(
        "[rollout] rollout_correction: its weights compare the learner's old values with the engine's, and "
        "the old values here are the engine's; choose old_scores = \"learner\", or rollout_correction = "
        "\"none\"");
}

// Settings under which every gradient is zero, or the captured scores are not those of the sampled policy.
void check_it_can_learn(const Recipe& recipe) {
  const routing::ObjectiveOptions& objective = recipe.objective;
  if (!recipe.sft() && behaviour_differs(recipe.rollout) &&
      recipe.rollout.old_scores == OldScores::kCapture) {
    throw UserError(
        "[rollout] old_scores: captured scores are those of sampling at temperature 1 and top_p 1; choose "
        "these, or old_scores = \"learner\" or \"rescore\"");
  }
  if (objective.loss == routing::Loss::kRouted && objective.delta_m >= 1)
    throw UserError(
        "[objective] delta_m: no state's mismatch mass exceeds 1, so none would be routed and the loss has "
        "no gradient; choose a number below 1, such as 1e-6");
  if (objective.needs_pool() && objective.k == routing::kFullSupport)
    throw UserError(
        "[objective] k: a full support leaves no background to draw destinations from; choose a number");
}

// All that the recipe has, in the order in which they are written.
std::vector<RecipeSection> sections_of(const Recipe& recipe) {
  std::vector<RecipeSection> all;
  for (const RecipeSection& part : recipe_sections()) {
    const bool unused = part.name == "teacher" && !recipe.teachers.empty() && is_default(part, recipe);
    if (!unused) all.push_back(part);
    if (part.name != "teacher" || (recipe.teachers.empty() && recipe.default_teacher.empty())) continue;
    all.push_back(teachers_section());
    for (const auto& [name, teacher] : recipe.teachers) all.push_back(teacher_section(name));
  }
  return all;
}

void check_teachers(const Recipe& recipe) {
  if (recipe.teachers.empty()) {
    need(recipe.teacher.path, "[teacher] path", "a Hugging Face model directory");
    if (!recipe.default_teacher.empty())
      throw UserError("[teachers] default: there is no [teachers.{}]; expected one", recipe.default_teacher);
    return;
  }
  if (!is_default(section_named("teacher"), recipe))
    throw UserError("[teacher]: the recipe has [teachers.{}] too; expected one or the other",
                    recipe.teachers.begin()->first);
  std::vector<std::string> names;
  for (const auto& [name, teacher] : recipe.teachers) {
    names.push_back(name);
    need(teacher.path, fmt::format("[teachers.{}] path", name).c_str(), "a Hugging Face model directory");
  }
  if (!recipe.default_teacher.empty() && !recipe.teachers.contains(recipe.default_teacher))
    throw UserError("[teachers] default: there is no [teachers.{}]; did you mean {}?", recipe.default_teacher,
                    nearest_name(recipe.default_teacher, names));
  if (recipe.teachers.size() == 1) return;
  // The learner has room for one LM head, and a bank for one teacher's hidden states.
  if (recipe.objective.k == routing::kFullSupport)
    throw UserError(
        "[objective] k: \"full\" reads one teacher's whole vocabulary, and there are {}; choose a "
        "number",
        recipe.teachers.size());
  if (needs_teacher_hidden(recipe.objective))
    throw UserError(
        "[objective] arm: {} reads one teacher's whole vocabulary, and there are {}; choose an arm "
        "over a top-k, such as routeopd or union_rkl",
        recipe.objective.arm, recipe.teachers.size());
  if (recipe.probe.every > 0 && !recipe.probe.bank.empty())
    throw UserError(
        "[probe] bank: a bank is of one teacher, and the recipe has {}; leave it empty: the "
        "mismatch mass alone is then measured, each state against its own teacher",
        recipe.teachers.size());
}

}  // namespace

std::vector<RunTeacher> Recipe::run_teachers() const {
  std::vector<RunTeacher> all;
  if (sft()) return all;
  if (teachers.empty()) return {{"", &teacher}};
  for (const auto& [name, section] : teachers) all.push_back({name, &section});
  return all;
}

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
    throw UsageError("--set: {}", error.what());
  }
  return recipe;
}

Recipe resolved(Recipe recipe) {
  if (recipe.student.dtype == Dtype::kAuto) recipe.student.dtype = Dtype::kFloat32;  // decision 7 says why
  RolloutSection& rollout = recipe.rollout;
  if (rollout.old_scores == OldScores::kAuto) {
    const bool ours = rollout.engine == EngineKind::kLocal || rollout.engine == EngineKind::kServe;
    const bool fits = ours && recipe.student.dtype == Dtype::kFloat32 && !behaviour_differs(rollout) &&
                      rollout.student_values == StudentValues::kEngine;
    rollout.old_scores = fits ? OldScores::kCapture : OldScores::kLearner;
  }
  return recipe;
}

std::vector<std::string> differences(const Recipe& a, const Recipe& b) {
  std::vector<std::string> names;
  const auto compare = [&](const RecipeSection& part) {
    for (const Field<Recipe>& field : part.fields)
      if (field.get(a) != field.get(b))
        names.push_back(part.name.empty() ? field.name : part.name + "." + field.name);
  };
  for (const RecipeSection& part : recipe_sections()) compare(part);
  compare(teachers_section());
  std::set<std::string> teachers;
  for (const Recipe* recipe : {&a, &b})
    for (const auto& [name, section] : recipe->teachers) teachers.insert(name);
  for (const std::string& name : teachers) {
    if (a.teachers.contains(name) && b.teachers.contains(name)) {
      compare(teacher_section(name));
    } else {
      names.push_back("teachers." + name);
    }
  }
  return names;
}

void check_recipe(const Recipe& recipe) {
  need(recipe.out, "out", "the run's directory (or --out DIR)");
  need(recipe.student.path, "[student] path", "a Hugging Face model directory");
  check_device_name(recipe.student.device);
  need(recipe.data.prompts, "[data] prompts", "a JSONL file of prompts");
  if (!recipe.sft()) {
    check_teachers(recipe);
    check_servers(recipe.rollout, "rollout");
    for (const RunTeacher& teacher : recipe.run_teachers()) {
      check_servers(*teacher.section, teacher.section_name());
      check_apart(recipe.rollout, *teacher.section, teacher.section_name());
    }
  }
  routing::check_objective(recipe.objective);
  check_it_can_learn(recipe);
  check_old_values(recipe);
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
  for (const RecipeSection& part : sections_of(recipe)) {
    if (!part.name.empty()) text += fmt::format("\n[{}]\n", part.name);
    for (const Field<Recipe>& field : part.fields) add(field);
  }
  return text;
}

}  // namespace routeopd::train
