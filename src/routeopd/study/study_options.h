// What a study is asked for: the pair, and the settings that all of its runs share, said by themselves or by
// a recipe. Each setting is declared once; the command line, study.json and the check that a study is resumed
// as it was begun all come from that table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/train/recipe.h"

namespace routeopd::study {

// Two models and their problems. Paths are absolute, so that a study is resumed from whatever directory the
// command is called in.
struct StudyPair {
  std::string family;  // of the laboratory's tasks, whose responses a checker can read; empty: another pair
  std::string student, teacher;
  std::string prompts;                        // to train on
  std::map<std::string, std::string> suites;  // to be judged by, file by name; none: there is no accuracy
  std::string validation;  // to choose learning rates by, in no suite and not trained on; empty: none
};

// Rates of the grid times seeds.
inline constexpr std::size_t kMostTrialsOfAnArm = 1000;

// Learning rates that a study takes.
inline constexpr Range kLearningRates = {.low = 1e-12, .high = 1};

std::string absolute_path(const std::filesystem::path& path);
// The pair of a directory that `lab make` wrote. Throws UserError where it is none.
StudyPair laboratory_pair(const std::filesystem::path& directory);
// Of a recipe: its models, prompts and [eval] suites.
StudyPair recipe_pair(const train::Recipe& recipe);
Json json_of(const StudyPair& pair);
StudyPair pair_of(const Json& json);

struct StudyOptions {
  std::int64_t steps = 30;
  std::optional<double> lr;  // of every arm; none: each arm's own, by the part tune or the record `rates`
  std::int32_t k = 16;
  std::int32_t m = 2;
  std::vector<std::uint64_t> seeds = {42, 43, 44};
  std::vector<std::uint64_t> main_seeds = {42, 43, 44};
  std::int32_t samples = 16;   // Avg@n
  std::int64_t problems = 0;   // of each suite; 0: all
  std::int64_t every = 5;      // steps between evaluations of the main arms' first seed; 0: at the end alone
  std::int64_t states = 1024;  // of the bank
  std::int32_t rounds = 5;     // of the cost measurement
  std::int32_t prompts_per_step = 32;
  std::int32_t n = 4;             // responses per prompt
  std::int64_t max_new = 128;     // tokens; the laboratory's longest right solutions have some 80
  std::int64_t eval_max_new = 0;  // the same where responses are judged; 0: as many
  std::int64_t save_every = 1;    // steps between checkpoints: what a killed study loses at most
  std::string prompt_template;
  Json objective = Json::object();  // settings of [objective] that all arms share
  bool shared_rate = true;          // the main part also trains all arms at one rate, where each has its own
  std::vector<std::string> arms;    // of the main part, and the only ones of the others; none: all

  // Of the part tune.
  std::string rates;  // a record of tuning to take the learning rates from; empty: the study's own
  std::vector<double> lrs = {1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3};  // ascending
  std::vector<std::uint64_t> tune_seeds = {142, 143};          // none of the others
  std::int32_t tune_samples = 8;                               // Avg@n
  std::int64_t tune_problems = 64;                             // of the validation problems; 0: all
  std::int64_t tune_steps = 0;                                 // per trial; 0: as many as a run has
  std::vector<std::string> tune_arms;                          // none: those that the others take a rate from

  bool tuned() const { return !lr; }
  std::int64_t judged_max_new() const { return eval_max_new > 0 ? eval_max_new : max_new; }
  std::int64_t trial_steps() const { return tune_steps > 0 ? tune_steps : steps; }
};

// Every setting by its name in study.json; on the command line with - for _.
const Fields<StudyOptions>& study_fields();

// The defaults: for the laboratory or another pair, and smaller for --quick, which fills every part in
// minutes.
StudyOptions default_options(bool laboratory, bool quick);

// What a recipe says of them over the defaults; its learning rate is that of every arm. --quick makes the
// study small all the same.
StudyOptions recipe_options(const train::Recipe& recipe, bool quick);

// The recipe of a study's runs but for their arm, learning rate, seed and directory: `base`, a user's own or
// the default one, with the pair and the options.
train::Recipe shared_recipe(const StudyPair& pair, const StudyOptions& options, train::Recipe base);

// `options` with the values that `settings`, an object, has. Throws UserError for an unknown name, a value
// out of range, or arms that the study does not have.
StudyOptions with_settings(StudyOptions options, const Json& settings);

Json json_of(const StudyOptions& options);

}  // namespace routeopd::study
