// The arms: one list with what names, draws, trains and tabulates them. Charts read label and style, the
// study what it trains and compares; what an arm does is its preset's business (routing/options.h). A new arm
// is one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace routeopd::report {

// Which component of the method an arm varies, as the paper groups its ablations; kOurs are not in the paper.
enum class Component { kNone, kDestination, kUpdateForm, kTarget, kBudget, kOurs };

struct ArmStyle {
  std::string_view color{};  // of palette.h; empty: drawn as a variant of its preset
  std::string_view shape{};  // of a marker, as Vega-Lite names it
  int dash = 0;              // which of palette.cpp's dashes
};

// A preset with another value of one setting.
struct Crossing {
  std::string_view preset{}, setting{}, value{};
};

struct Arm {
  std::string_view name;   // of its runs, rows and files
  std::string_view label;  // in figures
  bool main;               // one of the main arms, which are compared throughout
  Component component;     // kNone and not main: no arm of the study
  ArmStyle style;
  Crossing crossing{};  // empty: the arm is the preset of its name

  constexpr std::string_view preset() const { return crossing.preset.empty() ? name : crossing.preset; }
};

// In the order of the main table, then of the ablations. The main arms differ in colour, shape and dash;
// where colours come again, shapes and dashes are others.
inline constexpr auto kArms = std::to_array<Arm>({
    {"sampled_rkl", "sampled-RKL", true, Component::kNone, {"vermillion", "triangle-up", 2}},
    {"full_rkl", "full RKL", true, Component::kNone, {"green", "diamond", 3}},
    {"full_fkl", "full FKL", true, Component::kNone, {"purple", "triangle-down", 4}},
    {"fixed_mid", "fixed-mid", true, Component::kNone, {"amber", "square", 1}},
    {"routeopd", "RouteOPD", true, Component::kBudget, {"blue", "circle", 0}},
    {"exact",
     "exact coupling",
     true,
     Component::kOurs,
     {"ink", "triangle-left", 7},
     {"routeopd", "pairs", "exact"}},
    {"union_rkl", "union RKL", true, Component::kOurs, {"grey", "cross", 5}},
    {"union_fkl", "union FKL", true, Component::kOurs, {"sky", "triangle-right", 6}},
    {"uniform_deficit", "uniform deficit", false, Component::kDestination, {"sky", "diamond", 1}},
    {"student_proportional",
     "student-proportional",
     false,
     Component::kDestination,
     {"green", "triangle-left", 2}},
    {"rank_matched", "rank-matched", false, Component::kDestination, {"grey", "triangle-right", 3}},
    {"rank_matched_neutral", "rank-matched, neutral", false, Component::kDestination, {"ink", "diamond", 2}},
    {"random_background", "random background", false, Component::kDestination, {"purple", "cross", 2}},
    {"source_only", "source only", false, Component::kUpdateForm, {"sky", "triangle-left", 4}},
    {"destination_only", "destination only", false, Component::kUpdateForm, {"purple", "triangle-right", 5}},
    {"source_only-one",
     "source only, weight 1",
     false,
     Component::kUpdateForm,
     {},
     {"source_only", "weight", "one"}},
    {"destination_only-one",
     "destination only, weight 1",
     false,
     Component::kUpdateForm,
     {},
     {"destination_only", "weight", "one"}},
    {"no_mass", "no mass weight", false, Component::kUpdateForm, {"green", "square", 1}},
    {"independent_clipping", "independent clipping", false, Component::kTarget, {"grey", "diamond", 2}},
    {"fixed_low", "fixed-low", false, Component::kBudget, {"amber", "triangle-down", 2}},
    {"fixed_high", "fixed-high", false, Component::kBudget, {"amber", "triangle-up", 3}},
    {"reversed", "reversed budget", false, Component::kBudget, {"purple", "diamond", 1}},
    {"sft", "SFT", false, Component::kNone, {"grey", "square", 4}},
});

// Null for a name that is no arm's.
inline const Arm* find_arm(std::string_view name) {
  const auto* const found =
      std::find_if(kArms.begin(), kArms.end(), [&](const Arm& arm) { return arm.name == name; });
  return found == kArms.end() ? nullptr : found;
}

}  // namespace routeopd::report
