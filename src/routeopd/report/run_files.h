// The files of runs, probes and studies as plain data. Reading never throws: every struct says in `missing`, a sentence
// each, what of it is not there, is cut or is of another type, and holds what could be read.
//
// docs/lab.md has the layout of a study directory. Paths that a study names stay inside it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/judge/labels.h"
#include "routeopd/types/step_metrics.h"

namespace routeopd::report {

// A line of labels.jsonl.
struct ResponseLabel {
  std::string suite, problem;
  std::int64_t sample = 0;
  judge::Label label = judge::Label::kUnjudged;
};

// An eval directory.
struct EvalFiles {
  std::string shown;  // how sentences call the directory
  std::filesystem::path directory;
  std::optional<std::int64_t> step;      // of a run's evaluations
  Json summary;                          // summary.json, an object; null where there is none
  std::optional<grade::EvalRun> grades;  // of every response; read where responses were asked for
  std::vector<ResponseLabel> labels;     // the same; empty where nothing was labelled
  std::vector<std::string> missing;
};

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

struct StudyRun {
  std::string name;  // of the variant: "routeopd-k64"
  std::int64_t seed = 0;
  bool complete = false;
  RunFiles files;
  EvalFiles eval;  // the one that the study counts, with grades and labels
};

struct StudyProbe {
  std::string name, at;
  ProbeFiles files;
};

// A line of concentration.jsonl.
struct ProblemConcentration {
  std::string suite, problem;
  std::int64_t states = 0;
  double mass = 0, concentration = 0, budget = 0;
};

struct StudyFiles {
  std::filesystem::path directory;
  Json manifest;  // study.json, an object; null where there is none
  std::optional<EvalFiles> base, teacher;
  std::vector<StudyRun> runs;
  std::vector<StudyProbe> probes;
  Json cost;  // cost.json; null where there is none
  std::vector<ProblemConcentration> concentration;
  std::vector<std::string> missing;  // of the study itself; runs, evals and probes have their own

  // Every run of a variant, by seed.
  std::vector<const StudyRun*> runs_of(const std::string& name) const;
  const ProbeFiles* probe(const std::string& name) const;
  std::vector<std::string> all_missing() const;
};

// `shown` is how sentences call the directory; its own path where it is empty.
EvalFiles read_eval(const std::filesystem::path& directory, bool responses = true, std::string shown = {});
RunFiles read_run(const std::filesystem::path& directory, std::string shown = {});
ProbeFiles read_probe(const std::filesystem::path& directory, std::string shown = {});
// Sentences name files relative to the study.
StudyFiles read_study(const std::filesystem::path& directory);

}  // namespace routeopd::report
