// The settings of an objective: the `[objective]` section of a recipe and the options of `routeopd route`. An
// arm of the study is a preset over independent settings; each may be said by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::routing {

// What is minimised. Everything but kRouted is a baseline, or one of our own union divergences; kSft is the
// cross-entropy of given responses and knows no teacher.
enum class Loss { kRouted, kSampledRkl, kFullRkl, kFullFkl, kUnionRkl, kUnionFkl, kSft };
enum class Pairs { kSample, kExact };  // m addressed samples, or the whole product coupling
enum class BudgetRule { kAdaptive, kReversed, kFixed };
enum class Destination {
  kTeacherDeficit,
  kUniformDeficit,
  kStudentProportional,
  kRandomBackground,
  kRankMatched,
  kRankMatchedNeutral
};
enum class Side { kPair, kSource, kDestination };  // which end of a pair the update moves
enum class Weight { kMass, kOne };
enum class Target { kShared, kIndependent };  // one bounded potential, or each edge clipped by itself

inline constexpr std::int32_t kFullSupport = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int32_t kPoolDraws = 64;  // for a state's background pool; repeats are dropped

struct Budget {
  BudgetRule rule = BudgetRule::kAdaptive;
  double fixed = 0;  // log-odds, for kFixed
};

struct ObjectiveOptions {
  std::string arm = "routeopd";
  Loss loss = Loss::kRouted;
  std::int32_t k = 32;  // kFullSupport: every real id
  std::int32_t m = 2;
  Pairs pairs = Pairs::kSample;
  Budget budget = {};
  Destination destination = Destination::kTeacherDeficit;
  Side side = Side::kPair;
  Weight weight = Weight::kMass;
  Target target = Target::kShared;
  std::int32_t rank_window = 8;
  double b_min = 0.1823215567939546;  // log 1.2
  double b_max = 0.4054651081081644;  // log 1.5
  double kappa = 1.0;                 // Huber transition, log-odds
  double ratio_clip = 0;              // sampled_rkl; 0: off
  double delta_p = 1e-8;              // probability floor inside logarithms
  double delta_m = 1e-6;              // mismatch mass at or under which a state is not routed
  double delta_diag = 1e-12;          // denominator of the leakage
  double delta_target = 0.01;         // substantive target, log-odds

  bool needs_pool() const { return destination == Destination::kRandomBackground || ranks_destinations(); }
  // Whether the loss reads pairs or the support. The others have routes for the metrics alone.
  bool reads_routes() const {
    return loss == Loss::kRouted || loss == Loss::kUnionRkl || loss == Loss::kUnionFkl;
  }
  bool ranks_destinations() const {
    return destination == Destination::kRankMatched || destination == Destination::kRankMatchedNeutral;
  }
};

// Every field of `[objective]`, `arm` first.
const Fields<ObjectiveOptions>& objective_fields();

// The options that the names in `settings` (an object) say, over `base`. A named arm is applied first, as a
// preset; the other names win over it. Throws UserError for an unknown name, a value out of range, or a
// combination that means nothing.
ObjectiveOptions objective_from(const Json& settings, const ObjectiveOptions& base = {});

// Throws UserError when the settings contradict each other.
void check_objective(const ObjectiveOptions& options);

// Names of all arms, in the order of the method's table, sft last.
std::vector<std::string> arm_names();

}  // namespace routeopd::routing
