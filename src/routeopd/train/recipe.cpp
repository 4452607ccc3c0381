//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/recipe.h"

#include <algorithm>
#include <utility>

#include "routeopd/formats/toml_settings.h"

namespace routeopd::train {
namespace {

const Range kPositive{.low = 0, .low_open = true};
const Range kFraction{.low = 0, .high = 1};

Range whole_from(double low, double high = 1e9) {
  return {.low = low, .high = high};
}

Fields<StudentSection> student_fields() {
  using S = StudentSection;
  return {text_field("path", &S::path, "Hugging Face directory of the student"),
          choice_field("dtype", &S::dtype, "of weights and activations",
                       Choices<Dtype>{{"auto", Dtype::kAuto}, {"float32", Dtype::kFloat32}})};
}

Fields<TeacherSection> teacher_fields() {
  return {text_field("path", &TeacherSection::path,
                     "Hugging Face directory of the teacher; the sft arm has none")};
}

Fields<DataSection> data_fields() {
  using S = DataSection;
  return {text_field("prompts", &S::prompts, "prompts, JSONL; the sft arm needs a response in each"),
          text_field("template", &S::prompt_template,
                     "how a problem is asked: chat | raw | a text with {problem}"),
          switch_field("shuffle", &S::shuffle, "order of the prompts by the seed; false: the file's order")};
}

Fields<RolloutSection> rollout_fields() {
  using S = RolloutSection;
  return {
      number_field("prompts_per_step", &S::prompts_per_step, "prompts a step", whole_from(1, 1 << 24)),
      number_field("n", &S::n, "responses a prompt", whole_from(1, 256)),
      number_field("temperature", &S::temperature, "of sampling", kPositive),
      number_field("top_p", &S::top_p, "share of the most likely ids that is sampled from",
                   Range{.low = 0, .high = 1, .low_open = true}),
      number_field("max_new_tokens", &S::max_new_tokens, "longest response", whole_from(1)),
      number_field("kv_memory", &S::kv_memory,
                   "gigabytes for keys and values while responses are written; 0: a quarter of what is free",
                   Range{.low = 0, .high = 1e6}),
      choice_field("old_scores", &S::old_scores,
                   "the behaviour student's values, kept while decoding or computed again",
                   Choices<OldScores>{{"capture", OldScores::kCapture}, {"rescore", OldScores::kRescore}})};
}

Fields<OptimizerSection> optimizer_fields() {
  using S = OptimizerSection;
  return {number_field("lr", &S::lr, "peak learning rate", kPositive),
          {"betas", "decay of the two moments",
           [](S& section, const Json& value) {
             if (!value.is_array() || value.size() != 2)
               throw UserError("expected two numbers, got {}", shown(value));
             const Range beta{.low = 0, .high = 0.9999999};
             section.beta1 = number_in(value[0], beta);
             section.beta2 = number_in(value[1], beta);
           },
           [](const S& section) { return Json::array({section.beta1, section.beta2}); }},
          number_field("eps", &S::eps, "added to the root of the second moment", kPositive),
          number_field("weight_decay", &S::weight_decay, "decoupled, on all parameters", Range{.low = 0}),
          number_field("clip", &S::clip, "largest global norm of the gradient; 0: off", Range{.low = 0}),
          choice_field("schedule", &S::schedule, "of the learning rate after the warm-up",
                       Choices<ScheduleKind>{{"cosine", ScheduleKind::kCosine},
                                             {"constant", ScheduleKind::kConstant}}),
          number_field("warmup", &S::warmup, "share of the updates that warm up", kFraction)};
}

Fields<TrainSection> train_fields() {
  using S = TrainSection;
  return {number_field("steps", &S::steps, "rollout batches", whole_from(1)),
          number_field("minibatches", &S::minibatches, "optimizer batches a rollout batch is cut into",
                       whole_from(1, 65536)),
          number_field("epochs", &S::epochs, "passes over a rollout batch", whole_from(1, 1024)),
          number_field("micro_tokens", &S::micro_tokens, "tokens of a forward and backward", whole_from(1)),
          switch_field("recompute", &S::recompute,
                       "compute a block's activations again for its gradient: less memory, one more forward"),
          switch_field("rollouts", &S::rollouts, "keep every response in rollouts.jsonl")};
}

Fields<CheckpointSection> checkpoint_fields() {
  using S = CheckpointSection;
  return {number_field("every", &S::every, "steps between checkpoints; 0: at the end alone", whole_from(0)),
          number_field("keep", &S::keep, "checkpoints that stay; 0: all", whole_from(0, 1e6))};
}

Fields<EvalSection> eval_fields() {
  using S = EvalSection;
  return {number_field("every", &S::every, "steps between evaluations; 0: none", whole_from(0)),
          {"suites", "problems with answers: { name = \"file.jsonl\" }",
           [](S& section, const Json& value) {
             section.suites.clear();
             if (!value.is_object()) throw UserError("expected {{ name = \"file\" }}, got {}", shown(value));
             for (const auto& [name, file] : value.items()) {
               if (!file.is_string()) throw UserError("expected a file for {}, got {}", name, shown(file));
               section.suites[name] = file.get<std::string>();
             }
           },
           [](const S& section) { return Json(section.suites); }},
          number_field("n", &S::n, "samples a problem", whole_from(1, 256)),
          number_field("temperature", &S::temperature, "of sampling; 0 is greedy", Range{.low = 0}),
          number_field("top_p", &S::top_p, "share of the most likely ids that is sampled from",
                       Range{.low = 0, .high = 1, .low_open = true}),
          number_field("max_new_tokens", &S::max_new_tokens, "longest response", whole_from(1))};
}

// A section of the recipe with the fields of its struct, as fields of the recipe.
struct Section {
  std::string name;
  Fields<Recipe> fields;
};

template <class Part>
Section section(std::string name, Part Recipe::* part, const Fields<Part>& fields) {
  Section lifted{std::move(name), {}};
  for (const Field<Part>& field : fields) {
    lifted.fields.push_back(
        {field.name, field.help,
         [part, set = field.set](Recipe& recipe, const Json& value) { set(recipe.*part, value); },
         [part, get = field.get](const Recipe& recipe) { return get(recipe.*part); }});
  }
  return lifted;
}

const Fields<Recipe>& top_fields() {
  static const Fields<Recipe> fields = {
      number_field("seed", &Recipe::seed, "of every random number of the run", whole_from(0, 0x1p53 - 1)),
      text_field("out", &Recipe::out, "run directory; must not exist")};
  return fields;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      section("student", &Recipe::student, student_fields()),
      section("teacher", &Recipe::teacher, teacher_fields()),
      section("data", &Recipe::data, data_fields()),
      section("rollout", &Recipe::rollout, rollout_fields()),
      section("objective", &Recipe::objective, routing::objective_fields()),
      section("optimizer", &Recipe::optimizer, optimizer_fields()),
      section("train", &Recipe::train, train_fields()),
      section("checkpoint", &Recipe::checkpoint, checkpoint_fields()),
      section("eval", &Recipe::eval, eval_fields())};
  return all;
}

const Section& section_named(const std::string& name) {
  std::vector<std::string> known;
  for (const Section& part : sections()) {
    if (part.name == name) return part;
    known.push_back(part.name);
  }
  throw UserError("unknown section [{}]; did you mean [{}]?", name, nearest_name(name, known));
}

void apply_section(Recipe& recipe, const std::string& name, const Json& settings) {
  const Section& part = section_named(name);
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
      set_field(recipe, top_fields(), name, value);
    }
  }
}

Json value_of_setting(const std::string& word) {
  if (!word.starts_with('[')) return value_of_word(word);
  if (std::count(word.begin(), word.end(), '[') > 8)
    throw UserError("expected a list of numbers, got a nest of lists");
  const Json list = Json::parse(word, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded()) throw UserError("expected a list such as [0.9, 0.95], got {}", word);
  return list;
}

Json parse_settings(const std::vector<std::string>& settings) {
  Json parsed = Json::object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("--set {}: expected section.key=value", setting);
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

void check_recipe(const Recipe& recipe) {
  const auto need = [](const std::string& value, const char* name, const char* what) {
    if (value.empty()) throw UserError("{}: missing; expected {}", name, what);
  };
  need(recipe.out, "out", "the run's directory (or --out DIR)");
  need(recipe.student.path, "[student] path", "a Hugging Face model directory");
  need(recipe.data.prompts, "[data] prompts", "a JSONL file of prompts");
  if (!recipe.sft()) need(recipe.teacher.path, "[teacher] path", "a Hugging Face model directory");
  routing::check_objective(recipe.objective);
  const bool behaviour_differs = recipe.rollout.top_p < 1 || recipe.rollout.temperature != 1;
  if (!recipe.sft() && behaviour_differs && recipe.rollout.old_scores == OldScores::kCapture) {
    throw UserError(
        "[rollout] old_scores: captured scores are those of sampling at temperature 1 and top_p 1; choose "
        "these or old_scores = \"rescore\"");
  }
  if (recipe.eval.every > 0 && recipe.eval.suites.empty())
    throw UserError("[eval] suites: missing; expected {{ name = \"file.jsonl\" }}, or every = 0");
  if (recipe.train.minibatches > recipe.responses())
    throw UserError("[train] minibatches: {} exceed the {} responses of a step", recipe.train.minibatches,
                    recipe.responses());
  if (recipe.objective.needs_pool() && recipe.objective.k == routing::kFullSupport)
    throw UserError(
        "[objective] k: a full support leaves no background to draw destinations from; choose a number");
}

std::string recipe_text(const Recipe& recipe) {
  std::string text;
  const auto add = [&](const Field<Recipe>& field) {
    text += fmt::format("{} = {}  # {}\n", field.name, formats::toml_value(field.get(recipe)), field.help);
  };
  for (const Field<Recipe>& field : top_fields()) add(field);
  for (const Section& part : sections()) {
    text += fmt::format("\n[{}]\n", part.name);
    for (const Field<Recipe>& field : part.fields) add(field);
  }
  return text;
}

}  // namespace routeopd::train
