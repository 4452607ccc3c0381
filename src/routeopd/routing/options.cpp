// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/options.h"

#include <cmath>
#include <functional>
#include <utility>

namespace routeopd::routing {
namespace {

const double kFixedLow = std::log(1.2);
const double kFixedMid = std::log(1.35);
const double kFixedHigh = std::log(1.5);

const Choices<Pairs> kPairs = {{"sample", Pairs::kSample}, {"exact", Pairs::kExact}};
const Choices<Side> kSides = {
    {"pair", Side::kPair}, {"source", Side::kSource}, {"destination", Side::kDestination}};
const Choices<Weight> kWeights = {{"mass", Weight::kMass}, {"one", Weight::kOne}};
const Choices<Target> kTargets = {{"shared", Target::kShared}, {"independent", Target::kIndependent}};
const Choices<Destination> kDestinations = {{"teacher_deficit", Destination::kTeacherDeficit},
                                            {"uniform_deficit", Destination::kUniformDeficit},
                                            {"student_proportional", Destination::kStudentProportional},
                                            {"random_background", Destination::kRandomBackground},
                                            {"rank_matched", Destination::kRankMatched},
                                            {"rank_matched_neutral", Destination::kRankMatchedNeutral}};

Budget budget_of(const Json& value) {
  if (value == 0)
    throw UserError("expected a number over 0, got 0: all targets would be 0, and the loss has no gradient");
  if (value.is_number()) return {BudgetRule::kFixed, number_in(value, {.low = 0, .low_open = true})};
  if (value == "adaptive") return {BudgetRule::kAdaptive, 0};
  if (value == "reversed") return {BudgetRule::kReversed, 0};
  if (value == "fixed_low") return {BudgetRule::kFixed, kFixedLow};
  if (value == "fixed_mid") return {BudgetRule::kFixed, kFixedMid};
  if (value == "fixed_high") return {BudgetRule::kFixed, kFixedHigh};
  throw UserError(
      "expected adaptive | reversed | fixed_low | fixed_mid | fixed_high | a number over 0, got {}",
      shown(value));
}

Json name_of(const Budget& budget) {
  if (budget.rule == BudgetRule::kAdaptive) return "adaptive";
  if (budget.rule == BudgetRule::kReversed) return "reversed";
  if (budget.fixed == kFixedLow) return "fixed_low";
  if (budget.fixed == kFixedMid) return "fixed_mid";
  if (budget.fixed == kFixedHigh) return "fixed_high";
  return budget.fixed;
}

// An arm sets the loss and all of the five settings it stands for, so that nothing of an earlier arm remains.
struct Preset {
  Loss loss = Loss::kRouted;
  Budget budget = {};
  Destination destination = Destination::kTeacherDeficit;
  Side side = Side::kPair;
  Weight weight = Weight::kMass;
  Target target = Target::kShared;
};

const std::vector<std::pair<std::string, Preset>>& presets() {
  static const std::vector<std::pair<std::string, Preset>> table = [] {
    const Budget mid{BudgetRule::kFixed, kFixedMid};
    std::vector<std::pair<std::string, Preset>> arms;
    // main
    arms.push_back({"routeopd", {}});
    arms.push_back({"sampled_rkl", {.loss = Loss::kSampledRkl}});
    arms.push_back({"full_rkl", {.loss = Loss::kFullRkl}});
    arms.push_back({"full_fkl", {.loss = Loss::kFullFkl}});
    // budget
    arms.push_back({"fixed_low", {.budget = {BudgetRule::kFixed, kFixedLow}}});
    arms.push_back({"fixed_mid", {.budget = mid}});
    arms.push_back({"fixed_high", {.budget = {BudgetRule::kFixed, kFixedHigh}}});
    arms.push_back({"reversed", {.budget = {BudgetRule::kReversed, 0}}});
    // destination, at the fixed-mid budget
    for (const auto& [name, destination] : kDestinations) {
      arms.push_back({name, {.budget = mid, .destination = destination}});
    }
    // objective, at the fixed-mid budget
    arms.push_back({"source_only", {.budget = mid, .side = Side::kSource}});
    arms.push_back({"destination_only", {.budget = mid, .side = Side::kDestination}});
    arms.push_back({"no_mass", {.budget = mid, .weight = Weight::kOne}});
    arms.push_back({"independent_clipping", {.budget = mid, .target = Target::kIndependent}});
    // ours
    arms.push_back({"union_rkl", {.loss = Loss::kUnionRkl}});
    arms.push_back({"union_fkl", {.loss = Loss::kUnionFkl}});
    // no teacher
    arms.push_back({"sft", {.loss = Loss::kSft}});
    return arms;
  }();
  return table;
}

void set_arm(ObjectiveOptions& options, const Json& value) {
  for (const auto& [name, preset] : presets()) {
    if (value != name) continue;
    options.arm = name;
    options.loss = preset.loss;
    options.budget = preset.budget;
    options.destination = preset.destination;
    options.side = preset.side;
    options.weight = preset.weight;
    options.target = preset.target;
    return;
  }
  throw UserError("unknown arm {}; did you mean {}?", shown(value), nearest_name(shown(value), arm_names()));
}

std::string arm_help() {
  std::string names;
  for (const std::string& name : arm_names()) names += (names.empty() ? "" : " | ") + name;
  return "preset of the settings below: " + names;
}

Fields<ObjectiveOptions> make_fields() {
  using O = ObjectiveOptions;
  const Range positive{.low = 0, .low_open = true};
  const Range fraction{.low = 0, .high = 1, .low_open = true};
  Fields<O> fields;
  fields.push_back({"arm", arm_help(), set_arm, [](const O& options) { return Json(options.arm); }});
  fields.push_back(
      {"k", "support: top-k of each model, a number or full",
       [](O& options, const Json& value) {
         if (value == "full") {
           options.k = kFullSupport;
         } else if (value.is_string()) {
           throw UserError("expected a whole number from 1, or full, got {}", shown(value));
         } else {
           options.k = static_cast<std::int32_t>(number_in(value, {.low = 1, .high = 1 << 20}, true));
         }
       },
       [](const O& options) { return options.k == kFullSupport ? Json("full") : Json(options.k); }});
  Field<O> pairs = number_field("m", &O::m, "pairs sampled per state", {.low = 1, .high = 1 << 16});
  pairs.set = [check = pairs.set](O& options, const Json& value) {
    if (value == 0)
      throw UserError("expected a whole number from 1, got 0: without pairs the loss has no gradient");
    check(options, value);
  };
  fields.push_back(pairs);
  fields.push_back(choice_field("pairs", &O::pairs, "m samples or the exact coupling", kPairs));
  fields.push_back({"budget",
                    "adaptive | reversed | fixed_low | fixed_mid | fixed_high | a number (log-odds)",
                    [](O& options, const Json& value) { options.budget = budget_of(value); },
                    [](const O& options) { return name_of(options.budget); }});
  fields.push_back(choice_field("destination", &O::destination, "where mass is sent", kDestinations));
  fields.push_back(choice_field("side", &O::side, "which end moves", kSides));
  fields.push_back(choice_field("weight", &O::weight, "weight of a state", kWeights));
  fields.push_back(choice_field("target", &O::target, "how targets are bounded", kTargets));
  fields.push_back(number_field("rank_window", &O::rank_window,
                                "ids that rank_matched and rank_matched_neutral choose among",
                                {.low = 1, .high = 1 << 20}));
  fields.push_back(number_field("b_min", &O::b_min, "smallest budget, log-odds", positive));
  fields.push_back(number_field("b_max", &O::b_max, "largest budget, log-odds", positive));
  fields.push_back(number_field("kappa", &O::kappa, "Huber transition, log-odds", positive));
  fields.push_back(
      number_field("ratio_clip", &O::ratio_clip, "sampled_rkl: clip of the ratio; 0 is off", {.low = 0}));
  fields.push_back(number_field("delta_p", &O::delta_p, "probability floor inside logarithms", fraction));
  fields.push_back(number_field("delta_m", &O::delta_m, "mass at or under which a state is not routed",
                                {.low = 0, .high = 1}));
  fields.push_back(number_field("delta_diag", &O::delta_diag, "denominator of the leakage", fraction));
  fields.push_back(number_field("delta_target", &O::delta_target, "substantive target, log-odds", positive));
  return fields;
}

}  // namespace

std::vector<std::string> arm_names() {
  std::vector<std::string> names;
  for (const auto& [name, preset] : presets()) names.push_back(name);
  return names;
}

const Fields<ObjectiveOptions>& objective_fields() {
  static const Fields<ObjectiveOptions> fields = make_fields();
  return fields;
}

ObjectiveOptions objective_from(const Json& settings, const ObjectiveOptions& base) {
  ObjectiveOptions options = base;
  if (settings.contains("arm")) set_field(options, objective_fields(), "arm", settings["arm"]);
  for (const auto& [name, value] : settings.items()) {
    if (name != "arm") set_field(options, objective_fields(), name, value);
  }
  check_objective(options);
  return options;
}

void check_objective(const ObjectiveOptions& options) {
  if (options.b_min > options.b_max) {
    throw UserError("b_min: expected at most b_max = {}, got {}", options.b_max, options.b_min);
  }
  if (options.target == Target::kIndependent && options.side != Side::kPair) {
    throw UserError(
        "target: independent clips pairs, so it needs side = pair; choose side = pair or target = shared");
  }
  if (options.pairs == Pairs::kExact) {
    if (options.destination != Destination::kTeacherDeficit || options.side != Side::kPair ||
        options.target != Target::kShared) {
      throw UserError(
          "pairs: the exact coupling is defined for destination = teacher_deficit, side = pair and target = "
          "shared; "
          "choose these or pairs = sample");
    }
  }
}

}  // namespace routeopd::routing
