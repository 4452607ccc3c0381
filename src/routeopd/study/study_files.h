// A study directory: its names and layout, what a process writes there, and what anybody reads of it.
//
//   recipe.toml           the recipe that the study was given, if any
//   study.json            what is there and what is still to come; rewritten whole after every finished piece
//   base/eval/            evaluations of the untrained student and of the teacher
//   teacher/eval/
//   tune.json             rates.h; its trials' run directories are tune/ARM-lrR-seedS/
//   runs/NAME-seedS/      one run directory per variant and seed, with eval/step_N/ and checkpoints/step_N/
//                         and distance.jsonl of main runs (distances.h)
//   runs/NAME-shared-seedS/   the same at the learning rate that all arms share
//   bank.safetensors      frozen states
//   probes/NAME/          probe directories
//   concentration.jsonl   concentration.h
//   cost.json             cost.h
//   report.html, tables/
//
//   study.json {"kind": "study", "version": 2, "pair", "options", "machine", "notes": […],
//               "parts": {NAME: {"complete", "seconds", "note"?}}, "evals": {"base", "teacher"}, "bank",
//               "concentration", "tuning", "runs": [{"name", "arm", "k", "m", "pairs", "settings", "lr",
//               "shared", "seed", "path", "eval", "complete"}], "probes": [{"name", "path", "at"}], "cost"}
//
// A run at the shared rate whose arm's own rate is the same is that arm's own run. Paths in it are relative
// to the directory; null where the piece is not there. The directory is locked while a process works in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "routeopd/base/files.h"
#include "routeopd/study/parts.h"
#include "routeopd/study/rates.h"
#include "routeopd/study/study_options.h"
#include "routeopd/study/study_results.h"

namespace routeopd::study {

// What the user asks for. What is not given comes from the study that is there, or from the defaults.
struct StudyRequest {
  std::optional<StudyPair> pair;
  bool quick = false;
  Json settings = Json::object();       // of study_fields()
  std::optional<train::Recipe> recipe;  // what the runs share; none: the defaults
};

// The pair and settings of a study that begins with this request.
struct StudyTerms {
  StudyPair pair;
  StudyOptions options;
  train::Recipe recipe;        // shared_recipe()
  std::optional<Rates> rates;  // of a record that was named
};
// Throws UserError where the request names no pair, contradicts itself, or names a record that cannot be
// read.
StudyTerms terms_of(const StudyRequest& request);

class StudyFiles {
 public:
  static constexpr const char* kManifest = "study.json";
  static constexpr const char* kRecipe = "recipe.toml";
  static constexpr const char* kPage = "report.html";
  static constexpr const char* kTables = "tables";

  // A file that the manifest names under a key.
  struct Piece {
    const char* key;
    const char* file;
  };
  static constexpr Piece kBank{"bank", "bank.safetensors"};
  static constexpr Piece kConcentration{"concentration", "concentration.jsonl"};
  static constexpr Piece kCost{"cost", "cost.json"};
  static constexpr Piece kTuning{"tuning", "tune.json"};

  // Where things lie, relative to the directory.
  static std::string untrained_eval_path(const std::string& whose);
  static std::string run_path(const PlannedRun& run);
  static std::string eval_path(const PlannedRun& run, std::int64_t step);
  static std::string checkpoint_path(const PlannedRun& run, std::int64_t step);
  static std::string probe_path(const std::string& name);
  static std::string trial_path(const Trial& trial);

  // Makes the directory, or resumes in one that is there. Throws UserError when it holds something else, is
  // in use, has a study.json that cannot be read, or was begun with other values than the request has (naming
  // the field).
  StudyFiles(const std::filesystem::path& out, const StudyRequest& request);

  // Removes the directory again where this object began the study and nothing of it was made: what is refused
  // for its template or length leaves no study that would refuse the mended call.
  void withdraw();

  const std::filesystem::path& path() const { return path_; }
  const StudyPair& pair() const { return pair_; }
  const StudyOptions& options() const { return options_; }
  const train::Recipe& recipe() const { return recipe_; }  // shared_recipe()
  bool quick() const { return quick_; }
  const Json& manifest() const { return manifest_; }

  // What lies in the directory, as a report reads it.
  StudyResults results() const { return read_results(path_); }

  bool complete(const std::string& part) const;
  // Seconds add up over all processes that worked on the part.
  void finish(const std::string& part, bool complete, double seconds, const std::string& note);

  // What every variant trains with: the rate that was given, or those of tune.json, which must be there.
  const Rates& rates() const;
  double rate_of(const PlannedRun& run) const;
  // Whether a run at the shared rate is its arm's own run.
  bool is_own(const PlannedRun& run) const;
  // The problems that a record which was named was chosen by; an empty object where none was named.
  Json chosen_by() const;
  // What tuning is measured on, by SHA-256, for its record.
  Json tuned_content() const;

  bool complete(const PlannedRun& run) const;
  void record(const PlannedRun& run, bool complete);

  // Something that a reader should know of the whole study; kept once, however often it is added.
  void add_note(const std::string& note);
  // Notes that another processor or number of threads resumes than the one that began.
  void note_machine();

  // Whether the manifest has it and its files are still there.
  bool has(const Piece& piece) const;
  bool has_eval(const std::string& whose) const;
  bool has_probe(const std::string& name) const;

  std::filesystem::path place_of(const Piece& piece) const { return path_ / piece.file; }

  // What was made, into the manifest.
  void put(const Piece& piece);
  void put_eval(const std::string& whose);
  void put_probe(const std::string& name, const std::string& at);

 private:
  void begin(const StudyRequest& request);
  void resume(const StudyRequest& request);
  void take_rates();
  void save() const;
  bool evaluated(const std::string& directory) const;

  std::filesystem::path path_;
  std::optional<DirectoryLock> lock_;
  StudyPair pair_;
  StudyOptions options_;
  train::Recipe recipe_;
  bool quick_ = false;
  bool begun_ = false;  // by this object
  Json manifest_;
  mutable std::optional<Rates> rates_;  // once they were asked for
};

}  // namespace routeopd::study
