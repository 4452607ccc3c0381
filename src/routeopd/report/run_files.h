// Directories of runs and of probes as plain data, read as evaluation_files.h has it: never throwing, with a
// sentence in `missing` for each thing that is not there or broken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/report/evaluation_files.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::report {

// A run directory.
struct RunFiles {
  std::string shown;
  std::filesystem::path directory;
  Json recipe;  // recipe.toml, an object; null where there is none
  std::string arm;
  std::optional<std::int64_t> seed;
  std::string k;  // "16", "full"; empty where it is not known
  std::optional<std::int64_t> m, steps;
  std::vector<StepMetrics> metrics;  // lines of metrics.jsonl with a whole "step", ascending
  std::vector<Json> probe;       // lines of probe.jsonl with a whole "step", ascending; most runs have none
  std::vector<EvalFiles> evals;  // by step; the last one with its grades and labels
  std::vector<std::string> missing;
};

// A probe directory: what probe.json, states.jsonl, routes.jsonl and example.json hold.
struct ProbeFiles {
  std::string shown;
  std::filesystem::path directory;
  Json probe;                // an object; null where there is none
  std::vector<Json> states;  // in the file's order
  std::vector<Json> routes;
  Json example;  // null where there is none
  std::vector<std::string> missing;

  // The row of an arm under an intervention ("fresh_adamw"); null where there is none.
  const Json& row(const std::string& name, const std::string& intervention) const;
  // What "arms" says of one.
  const Json& arm(const std::string& name) const;
};

// `shown` is how sentences call the directory; its own path where it is empty.
RunFiles read_run(const std::filesystem::path& directory, std::string shown = {});
ProbeFiles read_probe(const std::filesystem::path& directory, std::string shown = {});

}  // namespace routeopd::report
