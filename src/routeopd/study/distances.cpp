// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/distances.h"

#include <algorithm>

#include "routeopd/base/interrupt.h"
#include "routeopd/model/model_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/distance.h"
#include "routeopd/study/study_pace.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

void write_distances(const fs::path& path, const probe::Bank& bank, const probe::Distances& distances) {
  AtomicFile file(path);
  for (std::size_t s = 0; s < bank.states(); ++s)
    file.write(Json{{"sequence", bank.sequence_S[s]},
                    {"mass", distances.mass_S[s]},
                    {"forward_kl", distances.forward_kl_S[s]},
                    {"reverse_kl", distances.reverse_kl_S[s]}}
                   .dump() +
               "\n");
  file.commit();
}

const std::vector<double>& values_of(const StateDistances& distances, Distance kind) {
  switch (kind) {
    case Distance::kMass:
      return distances.mass;
    case Distance::kForwardKl:
      return distances.forward_kl;
    case Distance::kReverseKl:
      break;
  }
  return distances.reverse_kl;
}

// The mean over runs, state by state; empty where runs have other states than the first.
std::vector<double> mean_over_runs(const std::vector<const StudyRun*>& runs, Distance kind) {
  std::vector<double> mean;
  for (const StudyRun* const run : runs) {
    const std::vector<double>& values = values_of(run->distances, kind);
    if (values.empty() || run->distances.sequence != runs.front()->distances.sequence) return {};
    mean.resize(values.size(), 0.0);
    for (std::size_t s = 0; s < values.size(); ++s) mean[s] += values[s] / static_cast<double>(runs.size());
  }
  return mean;
}

std::optional<grade::Interval> interval_of(const std::vector<double>& values, const StudyRun& run) {
  if (values.empty()) return std::nullopt;
  return grade::clustered_mean(values, run.distances.sequence, {});
}

}  // namespace

std::vector<PlannedRun> distance_runs(const Part& part, const StudyOptions& options) {
  std::vector<PlannedRun> runs;
  if (!part.distances) return runs;
  for (PlannedRun& run : runs_of(part, options))
    if (!run.shared) runs.push_back(std::move(run));
  return runs;
}

std::string distance_path(const std::string& run_path) {
  return run_path + "/distance.jsonl";
}

void measure_distances(
    StudyFiles& files, const std::vector<PlannedRun>& runs, const LoadedPair& pair,
    const std::function<void(std::int64_t done, std::int64_t total, double seconds)>& watch) {
  struct Measured {
    fs::path path;
    std::string checkpoint;  // empty: the starting student
  };
  std::vector<Measured> missing;
  const auto want = [&](const std::string& run_path, const std::string& checkpoint) {
    std::error_code ignored;
    const fs::path path = files.path() / distance_path(run_path);
    if (!fs::exists(path, ignored)) missing.push_back({path, checkpoint});
  };
  want(kBase, "");
  for (const PlannedRun& run : runs)
    want(StudyFiles::run_path(run), StudyFiles::checkpoint_path(run, files.options().steps));
  if (missing.empty()) return;
  const probe::Bank bank = probe::read_bank(files.place_of(StudyFiles::kBank));
  for (std::size_t i = 0; i < missing.size(); ++i) {
    check_interrupt();
    const Clock::time_point begin = Clock::now();
    const fs::path checkpoint = files.path() / missing[i].checkpoint;
    if (!fs::exists(checkpoint))
      throw UserError(
          "{}: is gone, and the distance to the teacher is measured on it; remove {}, and the same command "
          "trains the run again",
          checkpoint.string(), missing[i].path.parent_path().string());
    fs::create_directories(missing[i].path.parent_path());
    const model::Model student = missing[i].checkpoint.empty() ? pair.base() : model::load_model(checkpoint);
    write_distances(missing[i].path, bank, probe::distances_at(bank, student, pair.teacher().head_VH));
    watch(static_cast<std::int64_t>(i) + 1, std::ssize(missing), seconds_since(begin));
  }
}

std::optional<grade::Interval> mean_distance(const std::vector<const StudyRun*>& runs, Distance kind) {
  if (runs.empty()) return std::nullopt;
  return interval_of(mean_over_runs(runs, kind), *runs.front());
}

std::optional<grade::Interval> distance_contrast(const std::vector<const StudyRun*>& first,
                                                 const std::vector<const StudyRun*>& second, Distance kind) {
  std::vector<const StudyRun*> a, b;
  for (const StudyRun* const one : first) {
    for (const StudyRun* const other : second) {
      if (one->seed != other->seed) continue;
      a.push_back(one);
      b.push_back(other);
    }
  }
  if (a.empty() || a.front()->distances.sequence != b.front()->distances.sequence) return std::nullopt;
  std::vector<double> from = mean_over_runs(a, kind), to = mean_over_runs(b, kind);
  if (from.empty() || to.size() != from.size()) return std::nullopt;
  for (std::size_t s = 0; s < to.size(); ++s) to[s] -= from[s];
  return interval_of(to, *a.front());
}

}  // namespace routeopd::study
