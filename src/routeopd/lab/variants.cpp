//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/variants.h"

#include <algorithm>

namespace routeopd::lab {
namespace {

using Families = std::vector<Family>;

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Variants of a part: its families, and the arms that they are compared with.
struct PartVariants {
  Families families;
  std::vector<std::string> beside;
};

PartVariants variants_of(const std::string& part) {
  if (part == "ablations")
    return {{Family::kDestination, Family::kObjective, Family::kBudget}, {"fixed_mid", "routeopd"}};
  if (part == "sweeps") return {{Family::kSupport, Family::kPairs}, {"routeopd", "exact"}};
  if (part == "mechanism") return {{}, {"fixed_mid", "routeopd"}};
  if (part == "cost") return {};
  return {{Family::kMain}, {}};  // main, dynamics, behaviour
}

}  // namespace

std::vector<Variant> all_variants(const StudyOptions& options) {
  std::vector<Variant> all;
  const auto add = [&](Family family, const std::string& name, Json settings) {
    all.push_back({name, family, std::move(settings)});
  };
  const auto arms = [&](Family family, const std::vector<std::string>& names) {
    for (const std::string& name : names) add(family, name, {{"arm", name}});
  };
  arms(Family::kMain, {"sampled_rkl", "full_fkl", "full_rkl", "fixed_mid", "routeopd"});
  add(Family::kMain, "exact", {{"arm", "routeopd"}, {"pairs", "exact"}});
  arms(Family::kMain, {"union_rkl", "union_fkl"});
  arms(Family::kDestination,
       {"uniform_deficit", "student_proportional", "random_background", "rank_matched"});
  arms(Family::kObjective, {"source_only", "destination_only", "no_mass", "independent_clipping"});
  for (const char* side : {"source_only", "destination_only"})
    add(Family::kObjective, fmt::format("{}-one", side), {{"arm", side}, {"weight", "one"}});
  arms(Family::kBudget, {"fixed_low", "fixed_high", "reversed"});
  for (const std::int32_t k : {4, 8, 16, 32, 64}) {
    if (k != options.k)
      add(Family::kSupport, fmt::format("routeopd-k{}", k), {{"arm", "routeopd"}, {"k", k}});
  }
  add(Family::kSupport, "routeopd-kfull", {{"arm", "routeopd"}, {"k", "full"}});
  for (const std::int32_t m : {1, 2, 4, 8}) {
    if (m != options.m) add(Family::kPairs, fmt::format("routeopd-m{}", m), {{"arm", "routeopd"}, {"m", m}});
  }
  return all;
}

routing::ObjectiveOptions objective_of(const Variant& variant, const StudyOptions& options) {
  Json settings = {{"k", options.k}, {"m", options.m}};
  settings.update(variant.settings);
  return routing::objective_from(settings);
}

const std::vector<std::string>& part_names() {
  static const std::vector<std::string> names = {"main",      "ablations", "sweeps",   "dynamics",
                                                 "mechanism", "cost",      "behaviour"};
  return names;
}

std::string PlannedRun::name() const {
  return fmt::format("{}-seed{}", variant.name, seed);
}

std::vector<PlannedRun> runs_of(const std::string& part, const StudyOptions& options) {
  const auto [families, beside] = variants_of(part);
  std::vector<Variant> chosen;
  for (const Variant& variant : all_variants(options)) {
    const bool of_part = std::find(families.begin(), families.end(), variant.family) != families.end() ||
                         contains_name(beside, variant.name);
    const bool said = contains_name(options.arms, variant.name);
    if (options.arms.empty() ? of_part : said && (of_part || part == "main")) chosen.push_back(variant);
  }
  // What the user named first is what the others are compared with, and comes first.
  const auto place = [&](const Variant& variant) {
    return std::find(options.arms.begin(), options.arms.end(), variant.name) - options.arms.begin();
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const Variant& a, const Variant& b) { return place(a) < place(b); });
  const bool main = families == Families{Family::kMain};
  std::vector<std::uint64_t> seeds = main ? options.main_seeds : options.seeds;
  if (part == "dynamics") seeds.resize(1);
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
  }
  return runs;
}

}  // namespace routeopd::lab
