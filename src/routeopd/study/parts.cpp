// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/parts.h"

#include <algorithm>

namespace routeopd::study {

const std::vector<Part>& all_parts() {
  static const std::vector<Part> parts = {
      {.name = "tune",
       .what = "the learning rate of every arm, chosen on validation problems",
       .families = {},
       .beside = {},
       .tune = true,
       .untrained = false},
      {.name = "main",
       .what = "the main arms: accuracy with paired intervals, beside the untrained student and the teacher",
       .families = {Family::kMain},
       .beside = {},
       .seeds = PartSeeds::kMain,
       .shared = true,
       .takes_named = true,
       .distances = true},
      {.name = "ablations",
       .what = "destination, objective and budget",
       .families = {Family::kAblation},
       .beside = {"fixed_mid", "routeopd"}},
      {.name = "sweeps",
       .what = "k and m",
       .families = {Family::kSupport, Family::kPairs},
       .beside = {"routeopd", "exact"}},
      {.name = "dynamics",
       .what = "the main arms along their way, first seed",
       .families = {Family::kMain},
       .beside = {},
       .seeds = PartSeeds::kFirstMain},
      {.name = "mechanism",
       .what = "probes on frozen states; accuracy by the concentration of the teacher's demand",
       .families = {},
       .beside = {"fixed_mid", "routeopd"},
       .concentration = true,
       .probes = true},
      {.name = "cost",
       .what = "time and memory of every arm, and of route construction",
       .families = {},
       .beside = {},
       .untrained = false,
       .cost = true},
      {.name = "behaviour",
       .what = "what became of right and wrong responses, their lengths, formats and kinds of error",
       .families = {Family::kMain},
       .beside = {},
       .seeds = PartSeeds::kMain},
  };
  return parts;
}

const Part& part_named(const std::string& name) {
  const auto found = std::find_if(all_parts().begin(), all_parts().end(),
                                  [&](const Part& part) { return part.name == name; });
  ROUTEOPD_INVARIANT(found != all_parts().end());
  return *found;
}

std::vector<std::string> part_names() {
  std::vector<std::string> names;
  for (const Part& part : all_parts()) names.push_back(part.name);
  return names;
}

std::string PlannedRun::name() const {
  return fmt::format("{}{}-seed{}", variant.name, shared ? "-shared" : "", seed);
}

std::vector<PlannedRun> runs_of(const Part& part, const StudyOptions& options) {
  std::vector<std::string> names = part.beside;
  if (part.takes_named) names.insert(names.end(), options.arms.begin(), options.arms.end());
  std::vector<Variant> chosen = variants_of(part.families, names, options);
  // What the user named first is what the others are compared with, and comes first.
  const auto place = [&](const Variant& variant) {
    return std::find(options.arms.begin(), options.arms.end(), variant.name) - options.arms.begin();
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const Variant& a, const Variant& b) { return place(a) < place(b); });
  std::vector<std::uint64_t> seeds = part.seeds == PartSeeds::kAll ? options.seeds : options.main_seeds;
  if (part.seeds == PartSeeds::kFirstMain) seeds.resize(1);
  // About the middle, where there is a checkpoint.
  const std::int64_t middle =
      std::max(options.save_every, options.steps / 2 / options.save_every * options.save_every);
  const std::int64_t hold = middle < options.steps ? middle : 0;
  std::vector<PlannedRun> runs;
  for (const std::uint64_t seed : seeds) {
    for (const Variant& variant : chosen) {
      const bool followed = variant.family == Family::kMain && seed == options.main_seeds.front();
      runs.push_back({variant, seed, followed ? options.every : 0, followed ? hold : 0});
    }
    if (!part.shared || !options.tuned() || !options.shared_rate) continue;
    for (const Variant& variant : chosen) runs.push_back({.variant = variant, .seed = seed, .shared = true});
  }
  return runs;
}

}  // namespace routeopd::study
