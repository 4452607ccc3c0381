// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_options.h"

#include <algorithm>
#include <array>
#include <set>

#include "routeopd/lab/lab_file.h"
#include "routeopd/lab/task.h"
#include "routeopd/study/variants.h"

namespace routeopd::study {
namespace {

constexpr std::uint64_t kFirstSeed = 42, kFirstTuneSeed = 142;
constexpr std::size_t kMostSeeds = 1000;
constexpr std::size_t kMostRates = 100;
constexpr const char* kTunedWord = "tuned";

// A number of seeds, from `first`; or the seeds themselves.
Field<StudyOptions> seeds_field(std::string name, std::vector<std::uint64_t> StudyOptions::* member,
                                std::string help, std::uint64_t first = kFirstSeed) {
  return {
      std::move(name), std::move(help),
      [member, first](StudyOptions& options, const Json& value) {
        std::vector<std::uint64_t> seeds;
        if (value.is_array()) {
          for (const Json& seed : value)
            seeds.push_back(static_cast<std::uint64_t>(number_in(seed, {.low = 0, .high = 0x1p53}, true)));
        } else {
          const double count = number_in(value, {.low = 1, .high = kMostSeeds}, true);
          for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) seeds.push_back(first + i);
        }
        if (seeds.empty() || seeds.size() > kMostSeeds ||
            std::set<std::uint64_t>(seeds.begin(), seeds.end()).size() != seeds.size())
          throw UserError("expected 1 to {} different seeds, got {}", kMostSeeds, shown(value));
        options.*member = std::move(seeds);
      },
      [member](const StudyOptions& options) { return Json(options.*member); }};
}

// Words with commas between them, or a list.
std::vector<std::string> listed_words(const Json& value) {
  std::vector<std::string> words;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      words.push_back(text.substr(at, end - at));
      at = end + 1;
      if (words.back().empty()) throw UserError("expected words with commas between them, got {}", text);
    }
  } else if (value.is_array()) {
    for (const Json& word : value) words.push_back(shown(word));
  } else if (value.is_number()) {
    words.push_back(shown(value));
  } else {
    throw UserError("expected words with commas between them, got {}", shown(value));
  }
  return words;
}

Field<StudyOptions> arms_field(std::string name, std::vector<std::string> StudyOptions::* member,
                               std::string help) {
  return {std::move(name), std::move(help),
          [member](StudyOptions& options, const Json& value) { options.*member = listed_words(value); },
          [member](const StudyOptions& options) { return Json(options.*member); }};
}

void set_rate(StudyOptions& options, const Json& value) {
  if (value == kTunedWord) {
    options.lr.reset();
  } else if (value.is_number()) {
    options.lr = number_in(value, kLearningRates);
  } else {
    throw UserError("expected a number or {}, got {}", kTunedWord, shown(value));
  }
}

void set_rates(StudyOptions& options, const Json& value) {
  std::vector<double> rates;
  for (const std::string& word : listed_words(value))
    rates.push_back(number_in(value_of_word(word), kLearningRates));
  std::sort(rates.begin(), rates.end());
  if (rates.empty() || rates.size() > kMostRates ||
      std::adjacent_find(rates.begin(), rates.end()) != rates.end())
    throw UserError("expected 1 to {} different rates, got {}", kMostRates, shown(value));
  options.lrs = std::move(rates);
}

// [objective] of a study: name=value with commas between them, or an object. What makes an arm is the arm's
// own business, k and m have fields of their own.
constexpr std::array kArmSettings = {"arm",    "k",    "m",      "pairs",  "loss",
                                     "budget", "side", "weight", "target", "destination"};

void set_objective(StudyOptions& options, const Json& value) {
  Json settings = Json::object();
  if (value.is_object()) {
    settings = value;
  } else {
    for (const std::string& word : listed_words(value)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) throw UserError("expected name=value, got {}", word);
      settings[word.substr(0, equals)] = value_of_word(word.substr(equals + 1));
    }
  }
  for (const auto& item : settings.items())
    if (std::find(kArmSettings.begin(), kArmSettings.end(), item.key()) != kArmSettings.end())
      throw UserError("{} is what arms differ in; it has no place here", item.key());
  routing::objective_from(settings);  // refuses what is none of it
  options.objective = std::move(settings);
}

// What a recipe's objective has otherwise than its arm's preset.
Json objective_settings(const routing::ObjectiveOptions& objective) {
  const routing::ObjectiveOptions preset = routing::objective_from({{"arm", objective.arm}});
  Json settings = Json::object();
  for (const auto& field : routing::objective_fields()) {
    const bool of_arm = std::find(kArmSettings.begin(), kArmSettings.end(), field.name) != kArmSettings.end();
    if (!of_arm && field.get(objective) != field.get(preset)) settings[field.name] = field.get(objective);
  }
  return settings;
}

Fields<StudyOptions> make_fields() {
  using O = StudyOptions;
  const auto whole = [](double low, double high) { return Range{.low = low, .high = high}; };
  Fields<O> fields;
  fields.push_back(number_field("steps", &O::steps, "steps per run", whole(1, 1e6)));
  fields.push_back({"lr", "learning rate of every arm; tuned: each arm's own, chosen on validation problems",
                    set_rate,
                    [](const O& options) { return options.lr ? Json(*options.lr) : Json(kTunedWord); }});
  fields.push_back(number_field("k", &O::k, "support: top-k of each model", whole(1, 1 << 20)));
  fields.push_back(number_field("m", &O::m, "pairs sampled per state", whole(1, 1 << 16)));
  fields.push_back(seeds_field("seeds", &O::seeds, "training seeds: how many, from 42"));
  fields.push_back(seeds_field("main_seeds", &O::main_seeds, "the same for the main arms"));
  fields.push_back(number_field("samples", &O::samples, "samples per held-out problem", whole(1, 256)));
  fields.push_back(
      number_field("problems", &O::problems, "problems of each suite; 0: all", whole(0, 1 << 24)));
  fields.push_back(number_field("every", &O::every,
                                "steps between evaluations of the main arms, first seed; 0: at the end alone",
                                whole(0, 1e6)));
  fields.push_back(number_field("states", &O::states, "frozen states of the probes", whole(1, 1 << 20)));
  fields.push_back(number_field("rounds", &O::rounds, "interleaved rounds of the cost part", whole(2, 1000)));
  fields.push_back(
      number_field("prompts_per_step", &O::prompts_per_step, "prompts per step", whole(1, 1 << 20)));
  fields.push_back(number_field("n", &O::n, "responses per prompt", whole(1, 256)));
  fields.push_back(number_field("max_new", &O::max_new, "longest response, in tokens", whole(1, 1 << 24)));
  fields.push_back(number_field("eval_max_new", &O::eval_max_new,
                                "longest response where they are judged; 0: as long", whole(0, 1 << 24)));
  fields.push_back(number_field("save_every", &O::save_every,
                                "steps between checkpoints: what a killed study loses at most",
                                whole(1, 1e6)));
  fields.push_back(text_field("template", &O::prompt_template,
                              "how a problem is asked: chat, raw, or a text with {problem}"));
  fields.push_back({"objective",
                    "settings of [objective] that all arms share: name=value with commas between them",
                    set_objective, [](const O& options) { return options.objective; }});
  fields.push_back(
      arms_field("arms", &O::arms,
                 "the main part's arms, with commas between them, the first being what the others are "
                 "compared with; other parts keep to these"));
  fields.push_back(switch_field("shared_rate", &O::shared_rate,
                                "main: where each arm has its own rate, train all at one rate as well"));
  fields.push_back(text_field("rates", &O::rates,
                              "a record of tuning, tune.json of another study, to take learning rates from"));
  fields.push_back({"lrs", "tune: the rates that every tuned arm tries, with commas between them", set_rates,
                    [](const O& options) { return Json(options.lrs); }});
  fields.push_back(
      seeds_field("tune_seeds", &O::tune_seeds, "tune: its seeds: how many, from 142", kFirstTuneSeed));
  fields.push_back(
      number_field("tune_samples", &O::tune_samples, "tune: samples per validation problem", whole(1, 256)));
  fields.push_back(number_field("tune_problems", &O::tune_problems, "tune: validation problems; 0: all",
                                whole(0, 1 << 24)));
  fields.push_back(number_field("tune_steps", &O::tune_steps,
                                "tune: steps per trial; 0: as many as a run has", whole(0, 1e6)));
  fields.push_back(arms_field("tune_arms", &O::tune_arms,
                              "tune: the arms that are tuned, with commas between them; others take the rate "
                              "of the nearest of them"));
  return fields;
}

void check_arms(const std::string& field, const std::vector<std::string>& arms, const StudyOptions& options) {
  std::vector<std::string> known;
  for (const Variant& variant : all_variants(options)) known.push_back(variant.name);
  for (const std::string& arm : arms) {
    if (std::find(known.begin(), known.end(), arm) == known.end())
      throw UserError("{}: the study has no arm {}; did you mean {}?", field, arm, nearest_name(arm, known));
    if (std::count(arms.begin(), arms.end(), arm) > 1) throw UserError("{}: {} is named twice", field, arm);
  }
}

void check_seeds(const StudyOptions& options) {
  for (const std::uint64_t seed : options.tune_seeds) {
    for (const auto* const seeds : {&options.seeds, &options.main_seeds})
      if (std::find(seeds->begin(), seeds->end(), seed) != seeds->end())
        throw UserError("tune_seeds: {} is a seed of the study's runs, which a rate must not be chosen by",
                        seed);
  }
}

// --quick.
void make_small(StudyOptions& options) {
  options.seeds = options.main_seeds = {kFirstSeed};
  options.steps = 10;
  options.samples = 4;
  options.problems = 60;
  options.states = 128;
  options.rounds = 3;
  options.tune_arms = {"sampled_rkl", "routeopd"};
  options.lrs = {options.lrs[1], options.lrs[2], options.lrs[3]};
  options.tune_seeds = {kFirstTuneSeed};
  options.tune_samples = 4;
  options.tune_problems = 32;
}

}  // namespace

std::string absolute_path(const std::filesystem::path& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

StudyPair laboratory_pair(const std::filesystem::path& directory) {
  StudyPair pair;
  pair.family = lab::family_of(directory);
  pair.student = absolute_path(directory / "base");
  pair.teacher = absolute_path(directory / "teacher");
  pair.prompts = absolute_path(directory / "train.jsonl");
  pair.suites["heldout"] = absolute_path(directory / "heldout.jsonl");
  if (std::filesystem::exists(directory / "validation.jsonl"))
    pair.validation = absolute_path(directory / "validation.jsonl");
  return pair;
}

StudyPair recipe_pair(const train::Recipe& recipe) {
  if (!recipe.teachers.empty())
    throw UserError("[teachers]: a study compares arms with one teacher; name it as [teacher] path");
  if (recipe.teacher.engine != train::EngineKind::kLocal)
    throw UserError(
        "[teacher] engine: a study measures distances to the teacher from its weights; expected local");
  StudyPair pair{.family = "",
                 .student = absolute_path(recipe.student.path),
                 .teacher = absolute_path(recipe.teacher.path),
                 .prompts = absolute_path(recipe.data.prompts),
                 .suites = {},
                 .validation = ""};
  for (const auto& [name, path] : recipe.eval.suites) pair.suites[name] = absolute_path(path);
  return pair;
}

Json json_of(const StudyPair& pair) {
  return {{"family", pair.family},   {"student", pair.student},     {"teacher", pair.teacher},
          {"prompts", pair.prompts}, {"suites", Json(pair.suites)}, {"validation", pair.validation}};
}

StudyPair pair_of(const Json& json) {
  StudyPair pair;
  pair.family = json.at("family").get<std::string>();
  pair.student = json.at("student").get<std::string>();
  pair.teacher = json.at("teacher").get<std::string>();
  pair.prompts = json.at("prompts").get<std::string>();
  pair.suites = json.at("suites").get<std::map<std::string, std::string>>();
  pair.validation = json.at("validation").get<std::string>();
  return pair;
}

const Fields<StudyOptions>& study_fields() {
  static const Fields<StudyOptions> fields = make_fields();
  return fields;
}

StudyOptions default_options(bool laboratory, bool quick) {
  StudyOptions options;
  options.prompt_template = lab::kTemplate;
  if (!laboratory) {  // a language model: the method's own settings, and checkpoints that take their time
    options.prompt_template = "chat";
    options.lrs = {2.5e-7, 5e-7, 1e-6, 2e-6, 4e-6};
    options.k = 32;
    options.max_new = 512;
    options.save_every = 10;
  }
  if (quick) make_small(options);
  return options;
}

StudyOptions recipe_options(const train::Recipe& recipe, bool quick) {
  if (recipe.objective.k == routing::kFullSupport)
    throw UserError(
        "[objective] k: a study's own k is a number; its sweeps have the full vocabulary beside it");
  StudyOptions options = default_options(false, false);
  options.steps = recipe.train.steps;
  options.lr = recipe.optimizer.lr;
  options.k = recipe.objective.k;
  options.m = recipe.objective.m;
  options.samples = recipe.eval.n;
  options.every = recipe.eval.every;
  options.prompts_per_step = recipe.rollout.prompts_per_step;
  options.n = recipe.rollout.n;
  options.max_new = recipe.rollout.max_new_tokens;
  options.eval_max_new = recipe.eval.max_new_tokens;
  options.save_every =
      std::max<std::int64_t>(1, recipe.checkpoint.every > 0 ? recipe.checkpoint.every : recipe.train.steps);
  options.prompt_template = recipe.data.prompt_template;
  options.objective = objective_settings(recipe.objective);
  if (quick) make_small(options);
  return options;
}

train::Recipe shared_recipe(const StudyPair& pair, const StudyOptions& options, train::Recipe base) {
  train::Recipe recipe = std::move(base);
  recipe.student.path = pair.student;
  recipe.teacher.path = pair.teacher;
  recipe.data.prompts = pair.prompts;
  recipe.data.prompt_template = options.prompt_template;
  recipe.rollout.prompts_per_step = options.prompts_per_step;
  recipe.rollout.n = options.n;
  recipe.rollout.max_new_tokens = options.max_new;
  recipe.train.steps = options.steps;
  recipe.checkpoint.every = options.save_every;
  recipe.checkpoint.keep = 0;  // the study removes those it does not need
  recipe.eval.suites = pair.suites;
  recipe.eval.n = options.samples;
  recipe.eval.max_new_tokens = options.judged_max_new();
  recipe.probe = {.every = 0, .bank = "", .states = options.states};
  return recipe;
}

StudyOptions with_settings(StudyOptions options, const Json& settings) {
  for (const auto& item : settings.items()) {
    set_field(options, study_fields(), item.key(), item.value());
    // One number of seeds for all, unless the main arms have their own.
    if (item.key() == "seeds" && !settings.contains("main_seeds")) options.main_seeds = options.seeds;
  }
  check_arms("arms", options.arms, options);
  check_arms("tune_arms", options.tune_arms, options);
  check_seeds(options);
  if (options.lrs.size() * options.tune_seeds.size() > kMostTrialsOfAnArm)
    throw UserError("lrs and tune_seeds: {} rates with {} seeds each are more than {} trials of an arm",
                    options.lrs.size(), options.tune_seeds.size(), kMostTrialsOfAnArm);
  return options;
}

Json json_of(const StudyOptions& options) {
  Json json = Json::object();
  for (const Field<StudyOptions>& field : study_fields()) json[field.name] = field.get(options);
  return json;
}

}  // namespace routeopd::study
