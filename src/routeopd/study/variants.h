// What a study trains: the arms (report/arms.h) and their crossings, each a name and the settings that differ
// from the study's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/routing/options.h"
#include "routeopd/study/study_options.h"

namespace routeopd::study {

// Which comparison a variant belongs to. fixed_mid, which is teacher_deficit too, stands in several and is
// trained once.
enum class Family { kMain, kAblation, kSupport, kPairs };

// What the main arms and their costs are compared with, and what the ablations are.
inline constexpr const char* kMainReference = "sampled_rkl";
inline constexpr const char* kAblationReference = "fixed_mid";

struct Variant {
  std::string name;  // of its runs
  Family family = Family::kMain;
  Json settings;  // of [objective]: the preset, and what differs from it
};

const std::vector<Family>& all_families();

// All of them, in the order of the list of arms, then the sweeps of k and m. The sweeps skip the study's own
// k and m: that run is routeopd.
std::vector<Variant> all_variants(const StudyOptions& options);

// Those of these families, and those of these names; where the study keeps to some arms, of them alone.
std::vector<Variant> variants_of(const std::vector<Family>& families, const std::vector<std::string>& names,
                                 const StudyOptions& options);

// The one of this name, whatever arms the study keeps to. Throws UserError where there is none.
Variant variant_named(const std::string& name, const StudyOptions& options);

// Whether the study has this variant: it keeps to some arms where the user named them.
bool keeps(const StudyOptions& options, const std::string& name);

// [objective] of a variant in this study.
routing::ObjectiveOptions objective_of(const Variant& variant, const StudyOptions& options);

// k or m of a setting as study.json and cost.json have it: a number, or "full".
Json support_json(std::int32_t k);

}  // namespace routeopd::study
