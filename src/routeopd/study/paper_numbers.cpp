// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/paper_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "routeopd/base/error.h"

namespace routeopd::study {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<PaperTable> main_tables() {
  const std::vector<std::string> columns = {"MATH500", "AMC23", "AIME24", "AIME25", "avg"};
  const std::string student = "Student (untrained; no OPD)", sampled = "Sampled-RKL OPD",
                    full = "Full-vocabulary RKL", fixed = "Routed OPD, fixed-mid B=log1.35",
                    ours = "RouteOPD (ours)";
  return {
      {.id = "main-1",
       .label = "tab:main-wide",
       .columns = columns,
       .rows = {{"base", student, {45.31, 11.67, 1.46, 1.04, 14.87}},
                {"sampled_rkl", sampled, {70.18, 37.65, 11.25, 6.67, 31.44}},
                {"full_rkl", full, {70.86, 39.16, 12.08, 7.29, 32.35}},
                {"fixed_mid", fixed, {70.63, 39.46, 11.88, 7.50, 32.36}},
                {"routeopd", ours, {71.48, 42.85, 13.33, 7.50, 33.79}}}},
      {.id = "main-2",
       .label = "tab:main-wide",
       .columns = columns,
       .rows = {{"base", student, {84.90, 69.05, 29.17, 25.21, 52.08}},
                {"sampled_rkl", sampled, {86.63, 85.47, 48.13, 33.13, 63.34}},
                {"full_rkl", full, {87.51, 86.14, 49.38, 34.58, 64.40}},
                {"fixed_mid", fixed, {87.31, 86.45, 50.21, 33.75, 64.43}},
                {"routeopd", ours, {88.08, 86.75, 52.50, 34.79, 65.53}}}},
      {.id = "main-3",
       .label = "tab:main-wide",
       .columns = columns,
       .rows = {{"base", student, {92.40, 88.10, 53.13, 48.13, 70.44}},
                {"sampled_rkl", sampled, {93.21, 96.54, 68.96, 60.21, 79.73}},
                {"full_rkl", full, {93.13, 96.23, 73.54, 65.63, 82.13}},
                {"fixed_mid", fixed, {93.28, 96.08, 74.38, 65.21, 82.24}},
                {"routeopd", ours, {93.53, 96.08, 75.83, 67.92, 83.34}}}},
      {.id = "main-4",
       .label = "tab:main-wide",
       .columns = columns,
       .rows = {{"base", student, {84.90, 69.05, 29.17, 25.21, 52.08}},
                {"sampled_rkl", sampled, {88.24, 70.93, 30.63, 24.58, 53.59}},
                {"full_rkl", full, {88.63, 72.89, 32.71, 26.04, 55.07}},
                {"fixed_mid", fixed, {88.81, 72.67, 32.50, 26.25, 55.06}},
                {"routeopd", ours, {88.93, 74.62, 33.96, 27.50, 56.25}}}},
      // RouteOPD less the arm, with a 95 % interval.
      {.id = "paired",
       .label = "tab:app-paired-intervals",
       .columns = {"sampled_rkl", "sampled_rkl low", "sampled_rkl high", "full_rkl", "full_rkl low",
                   "full_rkl high", "fixed_mid", "fixed_mid low", "fixed_mid high"},
       .rows = {
           {"main-1", "Qwen3-4B-GRPO → Qwen3-1.7B", {2.35, 1.65, 3.05, 1.44, 0.78, 2.10, 1.42, 0.81, 2.03}},
           {"main-2",
            "JustRL-DeepSeek-1.5B → DeepSeek-1.5B",
            {2.19, 1.42, 2.96, 1.13, 0.46, 1.80, 1.10, 0.49, 1.71}},
           {"main-3",
            "JustRL-Nemotron-1.5B → OpenMath-Nemotron-1.5B",
            {3.61, 2.78, 4.44, 1.21, 0.55, 1.87, 1.10, 0.48, 1.72}},
           {"main-4", "DeepSeek-7B → DeepSeek-1.5B", {2.65, 1.90, 3.40, 1.18, 0.51, 1.85, 1.19, 0.57, 1.81}},
           {"macro", "Macro", {2.70, 2.28, 3.13, 1.24, 0.90, 1.58, 1.20, 0.89, 1.51}}}}};
}

std::vector<PaperTable> ablation_tables() {
  const std::vector<std::string> columns = {"MATH500", "AMC23", "AIME24", "AIME25", "avg"};
  const std::string label = "tab:app-causal-ablations";
  return {
      {.id = "destination",
       .label = label,
       .columns = columns,
       .rows = {{"random_background", "Random background", {86.21, 84.64, 46.88, 33.13, 62.72}},
                {"student_proportional", "Student-proportional", {86.55, 85.09, 47.29, 33.33, 63.07}},
                {"rank_matched", "Rank/frequency-matched", {87.03, 85.77, 49.17, 32.92, 63.72}},
                {"uniform_deficit", "Uniform teacher deficit", {87.18, 86.07, 49.79, 33.54, 64.15}},
                {"fixed_mid", "Teacher-deficit coupling", {87.31, 86.45, 50.21, 33.75, 64.43}}}},
      {.id = "objective",
       .label = label,
       .columns = columns,
       .rows = {{"source_only", "Source-only", {86.89, 85.62, 48.54, 33.13, 63.55}},
                {"destination_only", "Destination-only", {87.03, 85.84, 49.17, 33.33, 63.84}},
                {"no_mass", "Pairwise, no mismatch weight", {87.43, 86.22, 50.42, 34.17, 64.56}},
                {"independent_clipping",
                 "Pairwise, independent clipping",
                 {87.53, 86.37, 50.83, 34.58, 64.83}},
                {"fixed_mid", "Shared potential, fixed-mid", {87.31, 86.45, 50.21, 33.75, 64.43}},
                {"routeopd", "Shared potential, adaptive", {88.08, 86.75, 52.50, 34.79, 65.53}}}},
      {.id = "budget",
       .label = label,
       .columns = columns,
       .rows = {{"fixed_low", "Fixed-low, log1.2", {87.16, 85.99, 49.58, 33.75, 64.12}},
                {"fixed_mid", "Fixed-mid, log1.35", {87.31, 86.45, 50.21, 33.75, 64.43}},
                {"fixed_high", "Fixed-high, log1.5", {87.20, 86.22, 49.79, 33.75, 64.24}},
                {"reversed", "Reversed concentration", {86.98, 85.84, 49.17, 33.54, 63.88}},
                {"routeopd", "Adaptive concentration", {88.08, 86.75, 52.50, 34.79, 65.53}}}},
      {.id = "realization",
       .label = "tab:app-realization-budget",
       .columns = {"cycle_violations", "target_mae", "completion", "overshoot"},
       .rows = {{"independent_clipping", "Independent clipping", {27.6, .091, 76.4, 25.8}},
                {"fixed_mid", "Shared, fixed-mid", {0.0, .067, 83.2, 18.7}},
                {"routeopd", "Shared, adaptive", {0.0, .052, 88.1, 13.4}}}},
      {.id = "concentration",
       .label = "tab:app-realization-budget",
       .columns = {"states", "budget", "routeopd", "contrast"},
       .rows = {{"[0, .25)", "[0,.25)", {248, .196, 64.21, -0.10}},
                {"[.25, .5)", "[.25,.50)", {271, .235, 64.82, 0.40}},
                {"[.5, .75)", "[.50,.75)", {286, .279, 65.76, 1.30}},
                {"[.75, 1]", "[.75,1]", {219, .326, 67.18, 2.70}}}},
      {.id = "support",
       .label = "tab:app-sparse-sweeps",
       .columns = {"avg", "fidelity", "leakage"},
       .rows = {{"16", "k=16", {64.29, 84.2, 19.7}},
                {"32", "k=32", {65.53, 90.4, 13.8}},
                {"64", "k=64", {65.38, 92.3, 11.2}},
                {"full", "Full vocabulary", {65.61, 93.1, 10.4}}}},
      {.id = "pairs",
       .label = "tab:app-sparse-sweeps",
       .columns = {"avg", "loss_variance", "coverage"},
       .rows = {{"1", "1", {63.78, .184, 58.4}},
                {"2", "2", {65.53, .109, 76.8}},
                {"4", "4", {62.48, .064, 89.2}},
                {"8", "8", {61.12, .037, 96.1}}}},
  };
}

std::vector<PaperTable> mechanism_tables() {
  return {
      {.id = "probes",
       .label = "tab:app-mechanism-probes",
       .columns = {"fidelity", "fidelity p10", "fidelity median", "leakage median"},
       .rows = {{"sampled_rkl", "Sampled-RKL", {35.4, 10.4, 33.1, 70.1}},
                {"rank_matched", "Matched permutation", {24.2, 4.8, 21.7, 81.2}},
                {"fixed_mid", "Teacher-deficit, fixed", {79.8, 58.2, 82.4, 21.4}},
                {"routeopd", "RouteOPD", {90.4, 76.5, 92.7, 11.2}}}},
      {.id = "ladder",
       .label = "tab:app-mechanism-probes",
       .columns = {"fidelity", "leakage", "target_mae", "completion"},
       .rows = {{"pair_isolated", "Pair-isolated exact", {96.8, 5.2, .000, 100.0}},
                {"potential_wide", "Potential-wide exact", {98.4, 3.1, .000, 100.0}},
                {"potential_matched", "Potential-wide matched", {95.1, 6.7, .031, 92.6}},
                {"fresh_adamw", "Fresh AdamW", {90.4, 13.8, .052, 88.1}},
                {"saved_adamw", "Saved AdamW", {87.9, 16.7, .061, 85.4}},
                {"sgd", "SGD", {92.1, 11.6, .047, 90.2}}}},
      {.id = "mismatch",
       .label = "tab:app-mechanism-strata",
       .columns = {"fidelity", "leakage", "deficit_reduction", "completion"},
       .rows = {{"Q1", "Q1", {86.2, 17.8, 0.62, 84.1}},
                {"Q2", "Q2", {89.1, 15.2, 0.97, 87.6}},
                {"Q3", "Q3", {91.8, 12.9, 1.43, 89.4}},
                {"Q4", "Q4", {94.5, 9.3, 2.46, 91.3}}}},
      {.id = "entropy",
       .label = "tab:app-mechanism-strata",
       .columns = {"entropy", "fidelity", "leakage", "deficit_reduction"},
       .rows = {{"Q1", "Q1", {0.42, 94.1, 8.7, 1.58}},
                {"Q2", "Q2", {0.87, 92.3, 11.2, 1.47}},
                {"Q3", "Q3", {1.39, 89.6, 14.8, 1.32}},
                {"Q4", "Q4", {2.18, 85.6, 20.5, 1.11}}}},
      {.id = "route-cases",
       .label = "tab:app-route-cases",
       .columns = {"position", "source", "destination", "p_student", "p_teacher", "target", "achieved"},
       .rows = {{"184", "184", {327, 284, 362, .184, .061, .298, .284}},
                {"271", "271", {514, 17, 912, .226, .083, .276, .251}},
                {"419", "419", {688, 672, 135, .097, .041, .241, .109}}}},
      {.id = "mean-leakage",
       .label = "Sampled-RKL has $35.4",
       .columns = {"fidelity", "leakage"},
       .rows = {{"sampled_rkl", "", {35.4, 68.3}},
                {"rank_matched", "", {24.2, 79.1}},
                {"fixed_mid", "", {79.8, 23.7}},
                {"routeopd", "", {90.4, 13.8}}},
       .text = true},
      {.id = "retained",
       .label = "The sparse construction retains",
       .columns = {"student_mass", "teacher_mass"},
       .rows = {{"32", "", {97.79, 97.13}}},
       .text = true},
  };
}

std::vector<PaperTable> dynamics_tables() {
  return {
      {.id = "dynamics",
       .label = "Adaptive \\method{} improves AIME24/25 Avg@16 from",
       .columns = {"first", "last"},
       .rows = {{"routeopd accuracy", "", {27.19, 43.65}},
                {"routeopd mass", "", {18.72, 4.51}},
                {"fixed_mid mass", "", {kNone, 6.94}},
                {"sampled_rkl mass", "", {kNone, 13.89}},
                {"routeopd fidelity", "", {78.2, 90.4}},
                {"routeopd leakage", "", {25.6, 13.8}}},
       .text = true},
      {.id = "stability",
       .label = "tab:app-stability-endpoints",
       .columns = {"policy_entropy", "response_tokens", "clip_ratio", "grad_norm", "routed_share"},
       .rows = {{"sampled_rkl", "Sampled-RKL", {1.632, 1410, 4.47, 0.437, kNone}},
                {"fixed_mid", "Fixed-mid routing", {1.464, 1320, 2.96, 0.414, 92.4}},
                {"routeopd", "RouteOPD", {1.384, 1265, 2.34, 0.427, 93.4}}}},
      {.id = "endpoints",
       .label = "eligible for routed updates increases from",
       .columns = {"first", "last"},
       .rows = {{"routeopd routed_share", "", {84.1, 93.4}}, {"teacher entropy", "", {kNone, 1.310}}},
       .text = true},
      {.id = "cost",
       .label = "tab:app-efficiency-raw",
       .columns = {"total", "learn", "tokens_per_second", "peak", "teacher_calls", "relative"},
       .rows = {{"sampled_rkl", "Sampled-RKL", {184.6, 31.8, 22850, 64.2, 1.00, 1.000}},
                {"full_fkl", "Full-vocabulary FKL", {199.4, 44.7, 21160, 71.8, 1.00, 1.080}},
                {"full_rkl", "Full-vocabulary RKL", {201.2, 46.1, 20980, 72.4, 1.00, 1.090}},
                {"k16 m2", "RouteOPD, k=16,m=2", {187.3, 34.1, 22510, 65.0, 1.00, 1.015}},
                {"k32 m1", "RouteOPD, k=32,m=1", {188.1, 34.8, 22380, 65.6, 1.00, 1.019}},
                {"k32 m2", "RouteOPD, k=32,m=2", {189.2, 35.9, 22240, 66.2, 1.00, 1.025}},
                {"k32 m4", "RouteOPD, k=32,m=4", {191.0, 37.7, 22030, 66.8, 1.00, 1.035}},
                {"k32 m8", "RouteOPD, k=32,m=8", {194.7, 41.5, 21620, 68.0, 1.00, 1.055}},
                {"k64 m2", "RouteOPD, k=64,m=2", {192.8, 39.4, 21790, 67.9, 1.00, 1.044}},
                {"kfull m2", "RouteOPD, full vocabulary", {207.6, 54.2, 20250, 75.6, 1.00, 1.125}}}},
      {.id = "routes",
       .label = "tab:app-routing-cost",
       .columns = {"top_k_ms", "routing_ms", "gather_ms"},
       .rows = {{"k16 m2", "16 & 2", {8.4, 3.1, 1.6}},
                {"k32 m1", "32 & 1", {12.9, 3.8, 1.2}},
                {"k32 m2", "32 & 2", {12.9, 4.2, 1.8}},
                {"k32 m4", "32 & 4", {12.9, 5.1, 3.0}},
                {"k32 m8", "32 & 8", {12.9, 6.8, 5.4}},
                {"k64 m2", "64 & 2", {24.7, 6.9, 2.4}}}},
  };
}

std::vector<PaperTable> behaviour_tables() {
  return {
      {.id = "transitions",
       .label = "tab:app-paired-correctness",
       .columns = {"both", "first only", "second only", "neither"},
       .rows = {{"sampled_rkl", "Sampled-RKL vs. RouteOPD", {210, 21, 42, 207}},
                {"fixed_mid", "Fixed-mid vs. RouteOPD", {225, 16, 27, 212}}}},
      {.id = "errors",
       .label = "tab:app-error-distribution",
       .columns = {"correct", "reasoning", "arithmetic", "premature_stop", "format", "total"},
       .rows = {{"base", "Student", {140, 218, 58, 39, 25, 480}},
                {"sampled_rkl", "Sampled-RKL", {231, 151, 44, 31, 23, 480}},
                {"fixed_mid", "Fixed-mid routing", {241, 142, 43, 31, 23, 480}},
                {"routeopd", "RouteOPD", {252, 130, 43, 32, 23, 480}}}},
      {.id = "error-transitions",
       .label = "tab:app-error-transitions",
       .columns = {"sampled_rkl", "fixed_mid"},
       .rows = {{"into reasoning", "Reasoning error → Correct", {34, 21}},
                {"into arithmetic", "Arithmetic error → Correct", {5, 3}},
                {"into premature_stop", "Premature stop → Correct", {2, 2}},
                {"into format", "Format error → Correct", {1, 1}},
                {"out reasoning", "Correct → Reasoning error", {15, 11}},
                {"out arithmetic", "Correct → Arithmetic error", {3, 2}},
                {"out premature_stop", "Correct → Premature stop", {2, 2}},
                {"out format", "Correct → Format error", {1, 1}}}},
      {.id = "lengths",
       .label = "tab:app-response-format",
       .columns = {"mean", "p25", "p50", "p75", "p90", "clip_rate", "format_rate"},
       .rows = {{"base", "Student", {1840, 896, 1532, 2410, 3726, 3.12, 94.79}},
                {"sampled_rkl", "Sampled-RKL", {2146, 1028, 1814, 2862, 4310, 4.47, 95.21}},
                {"fixed_mid", "Fixed-mid routing", {2208, 1065, 1876, 2924, 4388, 2.96, 95.21}},
                {"routeopd", "RouteOPD", {2254, 1098, 1922, 2981, 4426, 2.34, 95.21}}}},
  };
}

}  // namespace

const std::vector<PaperTable>& paper_tables() {
  static const std::vector<PaperTable> all = [] {
    std::vector<PaperTable> tables;
    for (const auto& family :
         {main_tables(), ablation_tables(), mechanism_tables(), dynamics_tables(), behaviour_tables()})
      tables.insert(tables.end(), family.begin(), family.end());
    return tables;
  }();
  return all;
}

const PaperTable& paper_table(std::string_view id) {
  const std::vector<PaperTable>& all = paper_tables();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PaperTable& table) { return table.id == id; });
  ROUTEOPD_INVARIANT(found != all.end());
  return *found;
}

std::optional<double> paper_number(std::string_view id, std::string_view row, std::string_view column) {
  const PaperTable& table = paper_table(id);
  const auto name = std::find(table.columns.begin(), table.columns.end(), column);
  ROUTEOPD_INVARIANT(name != table.columns.end());
  for (const PaperRow& each : table.rows) {
    if (each.name != row) continue;
    const double value = each.values[static_cast<std::size_t>(name - table.columns.begin())];
    if (!std::isnan(value)) return value;
  }
  return std::nullopt;
}

std::string paper_setting(int number) {
  static const std::array<const char*, kPaperSettings> kNames = {
      "Qwen3-4B-Base-GRPO → Qwen3-1.7B-Base", "JustRL-DeepSeek-1.5B → DeepSeek-R1-Distill-Qwen-1.5B",
      "JustRL-Nemotron-1.5B → OpenMath-Nemotron-1.5B",
      "DeepSeek-R1-Distill-Qwen-7B → DeepSeek-R1-Distill-Qwen-1.5B"};
  ROUTEOPD_INVARIANT(number >= 1 && number <= kPaperSettings);
  return kNames.at(static_cast<std::size_t>(number - 1));
}

}  // namespace routeopd::study
