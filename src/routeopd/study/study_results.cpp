// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "routeopd/report/tolerant_files.h"
#include "routeopd/study/distances.h"
#include "routeopd/study/study_files.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::study {
namespace {

using report::EvalFiles;
using report::list_at;
using report::number_at;
using report::text_at;
using report::whole_at;
using table::visible;

constexpr const char* kManifest = StudyFiles::kManifest;

void append_all(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

class ResultsReader {
 public:
  explicit ResultsReader(const std::filesystem::path& directory)
      : files_(directory, "", study_.missing), manifest_(study_.manifest) {
    study_.directory = directory;
  }

  StudyResults read() {
    std::error_code error;
    if (!std::filesystem::is_directory(study_.directory, error)) {
      study_.missing.push_back(fmt::format("{}: is no directory", visible(study_.directory.string())));
      return std::move(study_);
    }
    manifest_ = files_.object(kManifest);
    if (manifest_.is_null()) return std::move(study_);
    if (text_at(manifest_, "kind") != "study")
      files_.say(kManifest, "\"kind\" is not \"study\"; it is read as if it were");
    read_parts();
    study_.base = read_named_eval(kBase);
    study_.teacher = read_named_eval(kTeacher);
    if (StateDistances distances = read_distances(distance_path(kBase)); !distances.mass.empty())
      study_.base_distances = std::move(distances);
    for_each("runs", kMaxRuns, [this](const Json& entry, std::size_t i) { read_run_entry(entry, i); });
    for (std::vector<StudyRun>* const runs : {&study_.runs, &study_.shared_runs})
      std::stable_sort(runs->begin(), runs->end(),
                       [](const StudyRun& a, const StudyRun& b) { return a.seed < b.seed; });
    for_each("probes", kMaxProbes, [this](const Json& entry, std::size_t i) { read_probe_entry(entry, i); });
    read_cost();
    read_tuning();
    read_concentration();
    return std::move(study_);
  }

 private:
  // A path that the manifest names, where it may be followed; a sentence where it may not.
  std::optional<std::string> inside(const Json& holder, const char* key, const std::string& where) {
    const std::string path = text_at(holder, key);
    if (path.empty()) {
      files_.say(kManifest, fmt::format("{}: \"{}\" is missing or no text", where, key));
    } else if (!report::stays_inside(path)) {
      files_.say(kManifest, fmt::format("{}: \"{}\" leads out of the study ({}); it is not followed", where,
                                        key, visible(path.substr(0, 200))));
    } else {
      return path;
    }
    return std::nullopt;
  }

  // Whether no earlier entry named this directory; a sentence where one did. The same files again would show
  // nothing new, and one large file could be read any number of times.
  bool is_first(const std::string& path, const std::string& where, std::set<std::filesystem::path>& seen) {
    std::error_code error;
    std::filesystem::path real = std::filesystem::weakly_canonical(files_.path(path), error);
    if (error) real = files_.path(path).lexically_normal();
    if (seen.insert(real).second) return true;
    files_.say(kManifest,
               fmt::format("{} names {} once more; it is not shown", where, visible(path.substr(0, 200))));
    return false;
  }

  void say_cut(const std::string& file, const char* key, std::size_t most) {
    files_.say(file, fmt::format("\"{}\" has more than {} entries; the rest is not shown", key, most));
  }

  template <class Use>
  void for_each(const char* key, std::size_t most, const Use& use) {
    if (!manifest_.contains(key)) {
      files_.say(kManifest, fmt::format("\"{}\" is missing", key));
      return;
    }
    if (!manifest_[key].is_array()) {
      files_.say(kManifest, fmt::format("\"{}\": expected a list, got {}", key, manifest_[key].type_name()));
      return;
    }
    const Json& list = manifest_[key];
    // Before the sentences of its entries, of which there may be too many.
    if (list.size() > most) say_cut(kManifest, key, most);
    for (std::size_t i = 0; i < std::min(list.size(), most); ++i) use(list[i], i);
  }

  void read_parts() {
    const Json parts = manifest_.value("parts", Json());
    if (!parts.is_object()) {
      files_.say(kManifest, "\"parts\" is missing or no object");
      return;
    }
    for (const auto& [name, part] : parts.items()) {
      const Json complete = part.is_object() ? part.value("complete", Json()) : Json();
      if (complete == Json(true)) continue;
      const std::string note = text_at(part, "note").substr(0, 200);
      files_.say(kManifest, fmt::format("part {} is not complete{}", visible(name),
                                        note.empty() ? "" : fmt::format(" ({})", visible(note))));
    }
  }

  std::optional<EvalFiles> read_named_eval(const char* name) {
    const Json evals = manifest_.value("evals", Json());
    const std::optional<std::string> path = inside(evals, name, "evals");
    if (!path) return std::nullopt;
    return report::read_eval(files_.path(*path), true, *path);
  }

  void read_run_entry(const Json& entry, std::size_t number) {
    const std::string where = fmt::format("runs[{}]", number);
    StudyRun run;
    run.name = text_at(entry, "name");
    const std::optional<std::int64_t> seed = whole_at(entry, "seed");
    if (run.name.empty() || !seed) {
      files_.say(kManifest, fmt::format("{} has no name or no whole seed; it is not shown", where));
      return;
    }
    const bool shared = entry.value("shared", Json()) == Json(true);
    RunsSeen& seen = shared ? shared_seen_ : own_seen_;
    if (!seen.names.insert({run.name, *seed}).second) {
      files_.say(kManifest, fmt::format("{} is {} with seed {} once more; it is not shown", where,
                                        visible(run.name), *seed));
      return;
    }
    const std::optional<std::string> path = inside(entry, "path", where);
    if (!path || !is_first(*path, where, seen.places)) return;
    run.seed = *seed;
    run.lr = number_at(entry, {"lr"});
    run.complete = entry.value("complete", Json()) == Json(true);
    run.files = report::read_run(files_.path(*path), *path);
    if (!run.complete) files_.say(*path, "the run is not complete");
    read_counted_eval(entry, where, run, seen.evals);
    run.distances = read_distances(distance_path(*path));
    (shared ? study_.shared_runs : study_.runs).push_back(std::move(run));
  }

  // Not every run has it. A line that lacks a value ends it: pairs of runs need all states.
  StateDistances read_distances(const std::string& path) {
    StateDistances distances;
    std::error_code error;
    if (!std::filesystem::exists(files_.path(path), error)) return distances;
    for (const Json& line : files_.lines(path, "states")) {
      const auto sequence = whole_at(line, "sequence");
      const auto mass = number_at(line, {"mass"}), forward = number_at(line, {"forward_kl"}),
                 reverse = number_at(line, {"reverse_kl"});
      const bool fits = sequence && *sequence >= 0 &&
                        *sequence < static_cast<std::int64_t>(kMaxDistanceStates) &&
                        distances.mass.size() < kMaxDistanceStates;
      if (!fits || !mass || !forward || !reverse) {
        files_.say(path, "a line lacks a value, or there are too many; no distance of it is shown");
        return {};
      }
      distances.sequence.push_back(static_cast<std::int32_t>(*sequence));
      distances.mass.push_back(*mass);
      distances.forward_kl.push_back(*forward);
      distances.reverse_kl.push_back(*reverse);
    }
    return distances;
  }

  // Mostly the last one of the run, which has been read.
  void read_counted_eval(const Json& entry, const std::string& where, StudyRun& run,
                         std::set<std::filesystem::path>& seen) {
    if (!run.complete && entry.value("eval", Json()).is_null()) return;
    const std::optional<std::string> path = inside(entry, "eval", where);
    if (!path || !is_first(*path, fmt::format("{}: \"eval\"", where), seen)) return;
    std::vector<EvalFiles>& evals = run.files.evals;
    if (!evals.empty() && evals.back().shown == *path)
      run.eval = evals.back();
    else
      run.eval = report::read_eval(files_.path(*path), true, *path);
  }

  void read_probe_entry(const Json& entry, std::size_t number) {
    const std::string where = fmt::format("probes[{}]", number);
    StudyProbe probe;
    probe.name = text_at(entry, "name");
    probe.at = text_at(entry, "at");
    const std::optional<std::string> path = inside(entry, "path", where);
    if (!path || !is_first(*path, where, probe_places_)) return;
    if (!probe.name.empty() && !probe_names_.insert(probe.name).second) {
      files_.say(kManifest, fmt::format("{} is {} once more; it is not shown", where,
                                        visible(probe.name.substr(0, 200))));
      return;
    }
    probe.files = report::read_probe(files_.path(*path), *path);
    study_.probes.push_back(std::move(probe));
  }

  // Null says that the study has none.
  std::optional<std::string> optional_file(const char* key) {
    if (manifest_.value(key, Json()).is_null()) return std::nullopt;
    return inside(manifest_, key, "the study");
  }

  void read_cost() {
    const std::optional<std::string> path = optional_file(StudyFiles::kCost.key);
    if (!path) return;
    study_.cost = files_.object(*path);
    for (const char* key : {"arms", "routes"}) {
      if (list_at(study_.cost, key).size() <= kMaxCostEntries) continue;
      say_cut(*path, key, kMaxCostEntries);
      study_.cost[key].get_ref<Json::array_t&>().resize(kMaxCostEntries);
    }
    files_.numbers_only(
        study_.cost, *path,
        {"rounds", "rollout", "score", "route", "learn", "total", "tokens_per_second", "peak_bytes",
         "teacher_calls", "mean", "low", "high", "top_k_ms", "routing_ms", "gather_ms"});
  }

  void read_tuning() {
    const std::optional<std::string> path = optional_file(StudyFiles::kTuning.key);
    if (!path) return;
    const Json record = files_.object(*path);
    if (record.is_null()) return;
    try {
      study_.tuning = tuning_of(record);
    } catch (const std::exception& error) {
      files_.say(*path, fmt::format("is a damaged record of tuning ({})", visible(error.what())));
    }
  }

  void read_concentration() {
    const std::optional<std::string> path = optional_file(StudyFiles::kConcentration.key);
    if (!path) return;
    std::int64_t number = 0;
    for (const Json& line : files_.lines(*path, "problems")) {
      ++number;
      ProblemConcentration row{.suite = text_at(line, "suite"), .problem = text_at(line, "problem")};
      const auto states = whole_at(line, "states");
      const auto mass = number_at(line, {"mass"}), budget = number_at(line, {"budget"}),
                 concentration = number_at(line, {"concentration"});
      if (row.problem.empty() || !states || !mass || !budget || !concentration) {
        files_.say(*path, fmt::format("problem {} lacks a value or has one of another type; it is not shown",
                                      number));
        continue;
      }
      row.states = *states;
      row.mass = *mass;
      row.concentration = *concentration;
      row.budget = *budget;
      study_.concentration.push_back(std::move(row));
    }
  }

  StudyResults study_;
  report::TolerantDirectory files_;
  Json& manifest_;
  // A run at the shared rate may be its arm's own run: the two lists have their own.
  struct RunsSeen {
    std::set<std::pair<std::string, std::int64_t>> names;
    std::set<std::filesystem::path> places, evals;
  };
  RunsSeen own_seen_, shared_seen_;
  std::set<std::filesystem::path> probe_places_;
  std::set<std::string> probe_names_;
};

}  // namespace

StudyResults read_results(const std::filesystem::path& directory) {
  return ResultsReader(directory).read();
}

std::vector<const StudyRun*> StudyResults::runs_of(const std::string& name) const {
  std::vector<const StudyRun*> found;
  for (const StudyRun& run : runs)
    if (run.name == name) found.push_back(&run);
  return found;
}

const report::ProbeFiles* StudyResults::probe(const std::string& name) const {
  const auto found =
      std::find_if(probes.begin(), probes.end(), [&](const StudyProbe& probe) { return probe.name == name; });
  return found == probes.end() ? nullptr : &found->files;
}

std::vector<report::EvalFiles*> StudyResults::evals() {
  std::vector<report::EvalFiles*> all;
  for (std::vector<StudyRun>* const list : {&runs, &shared_runs})
    for (StudyRun& run : *list) all.push_back(&run.eval);
  for (std::optional<report::EvalFiles>* eval : {&base, &teacher})
    if (*eval) all.push_back(&**eval);
  return all;
}

std::vector<std::string> StudyResults::all_missing() const {
  std::vector<std::string> all = missing;
  for (const std::optional<EvalFiles>* eval : {&base, &teacher})
    if (*eval) append_all(all, (*eval)->missing);
  const auto append_run = [&](const StudyRun& run) {
    append_all(all, run.files.missing);
    for (const EvalFiles& eval : run.files.evals) append_all(all, eval.missing);
    const bool read_before = std::any_of(run.files.evals.begin(), run.files.evals.end(),
                                         [&](const EvalFiles& eval) { return eval.shown == run.eval.shown; });
    if (!read_before) append_all(all, run.eval.missing);
  };
  for (const StudyRun& run : runs) append_run(run);
  for (const StudyRun& run : shared_runs) {
    const bool own = std::any_of(runs.begin(), runs.end(),
                                 [&](const StudyRun& other) { return other.eval.shown == run.eval.shown; });
    if (!own) append_run(run);
  }
  for (const StudyProbe& probe : probes) append_all(all, probe.files.missing);
  return all;
}

}  // namespace routeopd::study
