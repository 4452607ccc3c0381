// Learning rates of a study: which arms are tuned, whose rate every other arm takes, how a rate is chosen
// from what was measured, and tune.json, the record of it:
//
//   {"kind": "tuning", "version": 1, "complete",
//    "lrs": […], "seeds": […], "samples", "problems", "steps",       what was asked for
//    "judged_problems",                                               how many there were
//    "content": {"student", "teacher", "prompts", "validation",       SHA-256 of what it was measured on,
//                "validation_problems": {SHA-256: ID}},               and of each problem it was chosen by
//    "trials": [{"arm", "lr", "seed", "avg"}],                        every run: Avg@n on validation problems
//    "arms": [{"arm", "lr", "mean", "extended",                       the choice, the steps beyond the grid,
//              "rates": [{"lr", "mean", "per_seed",                   the curve,
//                         "rms", "completion", "overshoot"}]}],       and one unscaled update at each rate
//    "shared_lr"}                                                     the lower median of the choices
//
// The last three are null until all trials are there. No held-out problem has a part in any of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/study/study_options.h"
#include "routeopd/study/tuning_results.h"
#include "routeopd/study/variants.h"

namespace routeopd::study {

// One short run of a tuned arm, judged on validation problems.
struct Trial {
  std::string arm;
  double lr = 0;
  std::uint64_t seed = 0;
  double average = 0;  // Avg@n, in [0, 1]

  std::string name() const;  // ARM-lr0.0005-seed142
};

// Of rates whose means lie within this of the highest one, the smallest is chosen.
inline constexpr double kRateTie = 0.003;
// How often a grid whose winner lies at its end is extended.
inline constexpr std::int64_t kMostExtensions = 2;

// The arms that are tuned: those that were named, or those of the five that the study's variants take a rate
// from.
std::vector<std::string> tuned_arms(const StudyOptions& options);

// Whose learning rate a variant takes where it is not tuned itself; empty: nobody's.
std::string rate_source(const Variant& variant);

// The next trial that is needed, `average` not filled in; none where the choice can be made.
std::optional<Trial> next_trial(const StudyOptions& options, const std::vector<Trial>& done);

// How many trials there are to be at least, those that are done among them.
std::int64_t fewest_trials(const StudyOptions& options, const std::vector<Trial>& done);

// The curves of all tuned arms with their choices. Every trial must be there.
Tuning chosen_rates(const StudyOptions& options, const std::vector<Trial>& trials);

// What every variant trains with.
struct Rates {
  std::map<std::string, double> own;  // of the tuned arms; none: all share one
  double shared = 0;

  // The variant's own rate, or that of the nearest tuned arm it takes one from; none where there is no such
  // arm.
  std::optional<double> chosen_for(const Variant& variant) const;
  double of(const Variant& variant) const { return chosen_for(variant).value_or(shared); }
};
Rates rates_of(const Tuning& tuning);

// tune.json. `content` is the record's own.
Json tuning_json(const StudyOptions& options, const std::vector<Trial>& trials, const Json& content,
                 const std::optional<Tuning>& tuning);
// The trials of a record that tuning_json() wrote, of these options; none where there is no file. Throws
// UserError for anything else.
std::vector<Trial> read_trials(const std::filesystem::path& path, const StudyOptions& options);
// A complete record. Throws UserError.
Tuning read_tuning(const std::filesystem::path& path);
// The same of a value that was read: for reports, which say `error` in their own words.
Tuning tuning_of(const Json& record);

}  // namespace routeopd::study
