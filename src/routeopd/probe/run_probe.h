// `routeopd probe run`: arms and interventions on a bank, for one student, as a directory.
//
//   probe.json     means, intervals, quantiles, realization, strata of every row
//   states.jsonl   a line per state, with every row's values there
//   routes.jsonl   a line per pair and row: source, destination, target and achieved change
//   example.json   one state drawn in full, for pictures of the operator
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/probe/prober.h"
#include "routeopd/train/recipe.h"

namespace routeopd::probe {

struct ProbeRequest {
  std::filesystem::path bank, student, teacher;
  std::filesystem::path moments;  // a checkpoint with its state/, for saved_adamw; empty: none
  std::vector<ProbeArm> arms;
  std::vector<Intervention> interventions;  // each for every arm that it applies to
  train::OptimizerSection optimizer;
  MatchedSize size{};         // to which updates are scaled
  std::filesystem::path out;  // must not exist
  // A safetensors file of every distribution, to check by other means; empty: none.
  std::filesystem::path dump;
};

// Rows done, of how many, and the one that is being made.
using ProbeWatch = std::function<void(std::int64_t done, std::int64_t total, const std::string& what)>;

// Returns probe.json. Rows that an earlier call finished for the same request are taken over, unless there is
// a dump (kept_rows.h). Throws UserError for a bank of another teacher or vocabulary, and when no arm has any
// of the interventions.
Json run_probe(const ProbeRequest& request, const ProbeWatch& watch = {});

// "routeopd", "routeopd:k=64,m=4" (named routeopd-k64-m4), "exact=routeopd:pairs=exact" (named exact): an arm
// over the bank's own settings (k, m, b_max and so on), of which a preset sets its own.
ProbeArm arm_of(const std::string& words, const routing::ObjectiveOptions& bank);

}  // namespace routeopd::probe
