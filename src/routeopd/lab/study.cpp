//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "routeopd/base/atomic_file.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/lab/concentration.h"
#include "routeopd/lab/cost.h"
#include "routeopd/lab/study_pace.h"
#include "routeopd/lab/study_probes.h"
#include "routeopd/lab/study_run.h"

namespace routeopd::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_one_of(const std::string& part, const std::vector<std::string>& parts) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// Evaluated beside the runs.
const std::vector<std::string> kUntrained = {"base", "teacher"};

// What a part needs besides runs.
bool needs_accuracy(const std::string& part) {
  return is_one_of(part, {"main", "behaviour"});
}
bool needs_concentration(const std::string& part) {
  return part == "mechanism";
}

class Driver {
 public:
  Driver(StudyFiles& files, const StudyWatch& watch)
      : files_(files), options_(files.options()), watch_(watch) {}

  void run(const std::vector<std::string>& parts) {
    plan(parts);
    for (const std::string& part : parts) {
      if (is_done(part)) continue;
      now_.part = part;
      begin_ = Clock::now();
      try {
        run_part(part);
      } catch (...) {
        files_.finish(part, false, seconds_since(begin_), "");
        throw;
      }
    }
  }

 private:
  bool has_eval(const std::string& name) const { return files_.manifest()["evals"].contains(name); }

  // Said so by the manifest, and its runs are still there.
  bool is_done(const std::string& part) const {
    const std::vector<PlannedRun> runs = runs_of(part, options_);
    return files_.complete(part) &&
           std::all_of(runs.begin(), runs.end(), [&](const PlannedRun& run) { return files_.complete(run); });
  }

  void plan(const std::vector<std::string>& parts) {
    std::set<std::string> seen;
    for (const std::string& part : parts) {
      if (is_done(part)) continue;
      for (const PlannedRun& run : runs_of(part, options_)) {
        if (seen.insert(run.name()).second && !files_.complete(run))
          pace_.add(options_.steps, evaluations_of(run, options_.steps));
      }
      if (part == "cost") pace_.add(cost_steps(options_), 0);
      if (needs_concentration(part) && !files_.has("concentration")) pace_.add(0, 1);
    }
    if (!files_.pair().suites.empty()) {
      for (const std::string& name : kUntrained)
        if (!has_eval(name)) pace_.add(0, 1);
    }
  }

  void run_part(const std::string& part) {
    std::string note;
    if (part == "cost") {
      make_cost();
    } else {
      if (files_.pair().suites.empty()) {
        if (needs_accuracy(part)) note = "no suite of problems with answers was given: there is no accuracy";
      } else {
        for (const std::string& name : kUntrained) evaluate(name);
      }
      make_runs(part);
      if (needs_concentration(part)) make_concentration();
      if (part == "mechanism") make_probes(note);
    }
    files_.finish(part, true, seconds_since(begin_), note);
  }

  // Loaded when something is to be done.
  const LoadedPair& pair() {
    if (!pair_) pair_.emplace(files_.pair(), options_);
    return *pair_;
  }

  // The untrained student and the teacher.
  void evaluate(const std::string& name) {
    if (has_eval(name)) return;
    const bool base = name == "base";
    const std::string& path = base ? files_.pair().student : files_.pair().teacher;
    const std::string directory = name + "/eval";
    std::filesystem::create_directories(files_.path() / name);
    tell({.part = now_.part, .what = name});
    const auto begin = Clock::now();
    pair().evaluate(files_.path() / directory, base ? pair().base() : pair().teacher(),
                    {{"path", path}, {"weights", formats::weights_sha256(path)}},
                    [&](const eval::EvalProgress& at) { tell_evaluation(at.done, at.total); });
    pace_.evaluated(seconds_since(begin));
    files_.put_eval(name, directory);
  }

  void make_runs(const std::string& part) {
    const std::vector<PlannedRun> runs = runs_of(part, options_);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (files_.complete(runs[i])) continue;
      check_interrupt();
      tell({.part = part,
            .what = runs[i].name(),
            .run = static_cast<std::int64_t>(i) + 1,
            .runs = std::ssize(runs),
            .steps = options_.steps});
      files_.record(runs[i], false);
      make_one(runs[i]);
      files_.record(runs[i], true);
    }
  }

  void make_one(const PlannedRun& run) {
    std::optional<std::int64_t> first;  // the step that a run goes on from was made before
    RunEvents events;
    events.step = [&](std::int64_t step, double seconds, const std::string& note) {
      if (!first) {
        first = step;
        for (std::int64_t made = 1; made < step; ++made)
          pace_.add(-1, is_due(run, made, options_.steps) ? -1 : 0);
      }
      pace_.stepped(seconds);
      now_.step = step;
      now_.note = note;
      tell();
    };
    events.evaluating = [&](std::int64_t, std::int64_t done, std::int64_t total) {
      tell_evaluation(done, total);
    };
    events.evaluated = [&](std::int64_t, double seconds) { pace_.evaluated(seconds); };
    // The bank is that of the starting student, and comes before the first run that is looked at on the way.
    if (run.every > 0) make_bank(files_, pair());
    make_run(run, files_.path(), pair(), options_, events);
  }

  void make_concentration() {
    if (files_.pair().suites.empty() || files_.has("concentration")) return;
    tell({.part = now_.part, .what = "concentration"});
    const auto begin = Clock::now();
    write_concentration(files_.path() / "concentration.jsonl", pair(), options_,
                        [&](std::int64_t done, std::int64_t total) {
                          now_.note = fmt::format("{} of {} problems", done, total);
                          tell();
                        });
    pace_.evaluated(seconds_since(begin));
    files_.put("concentration", "concentration.jsonl");
  }

  void make_probes(std::string& note) {
    tell({.part = now_.part, .what = "probes"});
    const std::vector<PlannedRun> runs = runs_of("mechanism", options_);
    const auto followed = std::find_if(runs.begin(), runs.end(), [](const PlannedRun& run) {
      return run.variant.name == "routeopd" && run.hold > 0;
    });
    if (followed == runs.end()) {
      note = "no run of routeopd whose middle checkpoint stays: there are no probes";
      return;
    }
    make_bank(files_, pair());
    run_probes(files_, pair(),
               files_.path() / StudyFiles::run_path(*followed) / "checkpoints" /
                   fmt::format("step_{}", followed->hold),
               [&](const std::string& probe, std::int64_t done, std::int64_t total) {
                 now_.note = fmt::format("{}, {} of {}", probe, done + 1, total);
                 tell();
               });
  }

  void make_cost() {
    if (files_.has("cost")) return;
    tell({.part = now_.part, .what = "cost"});
    const Json cost =
        measure_cost(pair(), options_, [&](std::int64_t done, std::int64_t total, double seconds) {
          pace_.stepped(2 * seconds, 2);
          now_.note = fmt::format("{} of {} steps", done, total);
          tell();
        });
    write_file(files_.path() / "cost.json", cost.dump(2) + "\n");
    files_.put("cost", "cost.json");
  }

  void tell(StudyProgress now) {
    now_ = std::move(now);
    tell();
  }
  void tell() {
    now_.seconds_left = pace_.seconds_left();
    if (watch_) watch_(now_);
  }
  void tell_evaluation(std::int64_t done, std::int64_t total) {
    now_.note = fmt::format("{} of {} responses", done, total);
    tell();
  }

  StudyFiles& files_;
  const StudyOptions& options_;
  const StudyWatch& watch_;
  std::optional<LoadedPair> pair_;
  StudyPace pace_;
  StudyProgress now_;
  Clock::time_point begin_;
};

}  // namespace

void run_study(StudyFiles& files, const std::vector<std::string>& parts, const StudyWatch& watch) {
  Driver(files, watch).run(parts);
}

}  // namespace routeopd::lab
