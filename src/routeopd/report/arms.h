// The arms: one list with what names, draws, trains and tabulates them. Charts read label and style, the
// study what it trains and what it compares; what an arm does is its preset's business (routing/options.h). A
// new arm is one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace routeopd::report {

// Which component of the method an arm varies, as the paper groups its ablations.
enum class Component { kNone, kDestination, kUpdateForm, kTarget, kBudget, kOurs };

struct Arm {
  std::string_view name;            // of its runs, rows and files
  std::string_view label;           // in figures
  std::string_view color;           // of palette.h; empty: drawn as a variant of its preset
  std::string_view shape;           // of a marker, as Vega-Lite names it
  int dash;                         // of palette.cpp's dashes
  bool main;                        // one of the main arms, which are compared throughout
  Component component;              // kNone and not main: no arm of the study
  std::string_view preset;          // the arm of [objective]
  std::string_view setting, value;  // what it changes of the preset; empty: nothing
};

// In the order of the main table, then of the ablations. The main arms differ in colour, shape and dash;
// where colours come again, shapes and dashes are others.
inline constexpr std::array<Arm, 22> kArms = {{
    {"sampled_rkl", "sampled-RKL", "vermillion", "triangle-up", 2, true, Component::kNone, "sampled_rkl", "",
     ""},
    {"full_rkl", "full RKL", "green", "diamond", 3, true, Component::kNone, "full_rkl", "", ""},
    {"full_fkl", "full FKL", "purple", "triangle-down", 4, true, Component::kNone, "full_fkl", "", ""},
    {"fixed_mid", "fixed-mid", "amber", "square", 1, true, Component::kNone, "fixed_mid", "", ""},
    {"routeopd", "RouteOPD", "blue", "circle", 0, true, Component::kBudget, "routeopd", "", ""},
    {"exact", "exact coupling", "ink", "triangle-left", 7, true, Component::kOurs, "routeopd", "pairs",
     "exact"},
    {"union_rkl", "union RKL", "grey", "cross", 5, true, Component::kOurs, "union_rkl", "", ""},
    {"union_fkl", "union FKL", "sky", "triangle-right", 6, true, Component::kOurs, "union_fkl", "", ""},
    {"uniform_deficit", "uniform deficit", "sky", "diamond", 1, false, Component::kDestination,
     "uniform_deficit", "", ""},
    {"student_proportional", "student-proportional", "green", "triangle-left", 2, false,
     Component::kDestination, "student_proportional", "", ""},
    {"rank_matched", "rank-matched", "grey", "triangle-right", 3, false, Component::kDestination,
     "rank_matched", "", ""},
    {"random_background", "random background", "purple", "cross", 2, false, Component::kDestination,
     "random_background", "", ""},
    {"source_only", "source only", "sky", "triangle-left", 4, false, Component::kUpdateForm, "source_only",
     "", ""},
    {"destination_only", "destination only", "purple", "triangle-right", 5, false, Component::kUpdateForm,
     "destination_only", "", ""},
    {"source_only-one", "source only, weight 1", "", "", 0, false, Component::kUpdateForm, "source_only",
     "weight", "one"},
    {"destination_only-one", "destination only, weight 1", "", "", 0, false, Component::kUpdateForm,
     "destination_only", "weight", "one"},
    {"no_mass", "no mass weight", "green", "square", 1, false, Component::kUpdateForm, "no_mass", "", ""},
    {"independent_clipping", "independent clipping", "grey", "diamond", 2, false, Component::kTarget,
     "independent_clipping", "", ""},
    {"fixed_low", "fixed-low", "amber", "triangle-down", 2, false, Component::kBudget, "fixed_low", "", ""},
    {"fixed_high", "fixed-high", "amber", "triangle-up", 3, false, Component::kBudget, "fixed_high", "", ""},
    {"reversed", "reversed budget", "purple", "diamond", 1, false, Component::kBudget, "reversed", "", ""},
    {"sft", "SFT", "grey", "square", 4, false, Component::kNone, "sft", "", ""},
}};

// Null for a name that is no arm's.
inline const Arm* find_arm(std::string_view name) {
  const auto* const found =
      std::find_if(kArms.begin(), kArms.end(), [&](const Arm& arm) { return arm.name == name; });
  return found == kArms.end() ? nullptr : found;
}

}  // namespace routeopd::report
