// A study directory: study.json, which says what is there and what is still to come, and is rewritten whole after every
// finished piece. The directory is locked while a process works in it.
//
//   study.json {"kind": "study", "version": 1, "pair", "options", "machine", "notes": […],
//               "parts": {NAME: {"complete", "seconds", "note"?}}, "evals": {"base", "teacher"}, "bank", "concentration",
//               "runs": […], "probes": […], "cost"}
//
// Paths in it are relative to the directory; null where the piece is not there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "routeopd/base/files.h"
#include "routeopd/lab/study_options.h"
#include "routeopd/lab/variants.h"

namespace routeopd::lab {

// What the user said. Nothing said is taken from the study that is there, or from the defaults.
struct StudyRequest {
  std::optional<StudyPair> pair;
  bool quick = false;
  Json settings = Json::object();  // of study_fields()
};

class StudyFiles {
 public:
  // Makes the directory, or goes on in one that is there. Throws UserError when it holds something else, is in use, has a
  // study.json that cannot be read, or was begun with something other than what is said (naming the field).
  StudyFiles(const std::filesystem::path& out, const StudyRequest& request);

  // Takes the directory away again where this call began the study and nothing of it was made: what is refused for its
  // template or length leaves no study behind that would refuse the mended call.
  void withdraw();

  const std::filesystem::path& path() const { return path_; }
  const StudyPair& pair() const { return pair_; }
  const StudyOptions& options() const { return options_; }
  bool quick() const { return quick_; }
  const Json& manifest() const { return manifest_; }

  bool complete(const std::string& part) const;
  // Seconds add up over all processes that worked on the part.
  void finish(const std::string& part, bool complete, double seconds, const std::string& note);

  // Where a run lies, relative to path().
  static std::string run_path(const PlannedRun& run);
  std::string eval_path(const PlannedRun& run) const;  // of its last step
  bool complete(const PlannedRun& run) const;
  void record(const PlannedRun& run, bool complete);

  // Something that a reader should know of the whole study; once, however often it is said.
  void add_note(const std::string& note);
  // Says so where another processor or number of threads goes on than the one that began.
  void note_machine();

  // Whether it is there to this day: one of bank, concentration, cost; an entry of evals; a directory of probes.
  bool has(const std::string& piece) const;
  bool has_eval(const std::string& whose) const;
  bool has_probe(const std::string& name) const;
  static std::string probe_path(const std::string& name);

  void put(const std::string& piece, const std::string& path);
  void put_eval(const std::string& whose, const std::string& path);
  void put_probe(const std::string& name, const std::string& path, const std::string& at);

 private:
  void begin(const StudyRequest& request);
  void go_on(const StudyRequest& request);
  void save() const;
  bool evaluated(const std::string& directory) const;

  std::filesystem::path path_;
  std::optional<DirectoryLock> lock_;
  StudyPair pair_;
  StudyOptions options_;
  bool quick_ = false;
  bool begun_ = false;  // by this object
  Json manifest_;
};

}  // namespace routeopd::lab
