// What a study is asked for: the pair, and the settings that all of its runs share. Each setting is declared
// once; the command line, study.json and the check that a study is resumed as it was begun all come from that
// table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::study {

// Two models and their problems. Paths are absolute, so that a study is resumed from whatever directory the
// command is called in.
struct StudyPair {
  std::string family;  // of the laboratory's tasks, whose responses a checker can read; empty: another pair
  std::string student, teacher;
  std::string prompts;                        // to train on
  std::map<std::string, std::string> suites;  // to be judged by, file by name; none: there is no accuracy
};

std::string absolute_path(const std::filesystem::path& path);
// The pair of a directory that `lab make` wrote. Throws UserError where it is none.
StudyPair laboratory_pair(const std::filesystem::path& directory);
Json json_of(const StudyPair& pair);
StudyPair pair_of(const Json& json);

struct StudyOptions {
  std::int64_t steps = 30;
  double lr = 5e-5;
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
  std::int32_t n = 4;           // responses per prompt
  std::int64_t max_new = 128;   // tokens; the laboratory's longest right solutions have some 80
  std::int64_t save_every = 1;  // steps between checkpoints: what a killed study loses at most
  std::string prompt_template;
  std::vector<std::string> arms;  // of the main part, and the only ones of the others; none: all
};

// Every setting by its name in study.json; on the command line with - for _.
const Fields<StudyOptions>& study_fields();

// The defaults: for the laboratory or another pair, and smaller for --quick, which fills every part in
// minutes.
StudyOptions default_options(bool laboratory, bool quick);

// `options` with the values that `settings`, an object, has. Throws UserError for an unknown name, a value
// out of range, or arms that the study does not have.
StudyOptions with_settings(StudyOptions options, const Json& settings);

Json json_of(const StudyOptions& options);

}  // namespace routeopd::study
