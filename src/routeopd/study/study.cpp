// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study.h"

#include <optional>

#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/study/concentration.h"
#include "routeopd/study/cost.h"
#include "routeopd/study/study_plan.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_run.h"

namespace routeopd::study {
namespace {

class StudyDriver {
 public:
  StudyDriver(StudyFiles& files, const StudyWatch& watch)
      : files_(files), options_(files.options()), watch_(watch) {}

  void run(const std::vector<std::string>& parts) {
    pace_ = work_left(files_, parts);
    for (const std::string& name : parts) {
      if (is_done(files_, name)) continue;
      now_.part = name;
      begin_ = Clock::now();
      try {
        run_part(part_named(name));
      } catch (...) {
        files_.finish(name, false, seconds_since(begin_), "");
        throw;
      }
    }
  }

 private:
  void run_part(const Part& part) {
    if (part.untrained && !files_.pair().suites.empty()) {
      for (const char* name : kUntrained) evaluate(name);
    }
    make_runs(part);
    if (part.concentration) make_concentration();
    if (part.probes) make_probes();
    if (part.cost) make_cost();
    files_.finish(part.name, true, seconds_since(begin_), lack_of(files_, part.name));
  }

  // Loaded when something is to be done.
  const LoadedPair& pair() {
    if (!pair_) {
      pair_.emplace(files_.pair(), options_);
      files_.note_machine();
    }
    return *pair_;
  }

  // The untrained student and the teacher.
  void evaluate(const std::string& name) {
    if (files_.has_eval(name)) return;
    const bool base = name == kBase;
    const std::string& path = base ? files_.pair().student : files_.pair().teacher;
    const std::filesystem::path directory = files_.path() / StudyFiles::untrained_eval_path(name);
    std::filesystem::create_directories(directory.parent_path());
    tell({.part = now_.part, .what = name});
    const auto begin = Clock::now();
    pair().evaluate(directory, base ? pair().base() : pair().teacher(),
                    {{"path", path}, {"weights", formats::weights_sha256(path)}},
                    [&](const eval::EvalProgress& at) { tell_evaluation(at.done, at.total); });
    pace_.evaluated(seconds_since(begin));
    files_.put_eval(name);
  }

  void make_runs(const Part& part) {
    const std::vector<PlannedRun> runs = runs_of(part, options_);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (files_.complete(runs[i])) continue;
      check_interrupt();
      tell({.part = part.name,
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
    std::optional<std::int64_t> first;  // that this process makes; those before it are done
    StudyRunEvents events;
    events.step = [&](const StepMetrics& metrics) {
      if (!first) {
        first = metrics.step;
        for (std::int64_t made = 1; made < metrics.step; ++made)
          pace_.add(-1, is_due(run, made, options_.steps) ? -1 : 0);
      }
      pace_.stepped(metrics.seconds());
      now_.step = metrics.step;
      now_.note = note_of(metrics);
      tell();
    };
    events.evaluating = [&](std::int64_t done, std::int64_t total) { tell_evaluation(done, total); };
    events.evaluated = [&](double seconds) { pace_.evaluated(seconds); };
    // The bank is that of the starting student, and comes before the first run that is probed on the way.
    if (run.every > 0) freeze_states();
    make_run(run, files_.path(), pair(), options_, events);
  }

  void freeze_states() {
    if (files_.has(StudyFiles::kBank)) return;
    const auto begin = Clock::now();
    make_bank(files_, pair());
    pace_.probed(seconds_since(begin));
  }

  void make_concentration() {
    if (files_.pair().suites.empty() || files_.has(StudyFiles::kConcentration)) return;
    tell({.part = now_.part, .what = "concentration"});
    const auto begin = Clock::now();
    write_concentration(files_.place_of(StudyFiles::kConcentration), pair(), options_,
                        [&](std::int64_t done, std::int64_t total) {
                          now_.note = fmt::format("{} of {} problems", done, total);
                          tell();
                        });
    pace_.evaluated(seconds_since(begin));
    files_.put(StudyFiles::kConcentration);
  }

  void make_probes() {
    tell({.part = now_.part, .what = "probes"});
    freeze_states();
    run_probes(files_, pair(),
               [&](const std::string& row, std::int64_t done, std::int64_t total, double seconds) {
                 if (done > 0) pace_.probed(seconds);
                 if (done < total) now_.note = fmt::format("{}, {} of {}", row, done + 1, total);
                 tell();
               });
  }

  void make_cost() {
    if (files_.has(StudyFiles::kCost)) return;
    tell({.part = now_.part, .what = "cost"});
    std::int64_t before = 0;
    const Json cost =
        measure_cost(pair(), options_, [&](std::int64_t done, std::int64_t total, double seconds) {
          pace_.stepped(seconds, done - before);
          before = done;
          now_.note = fmt::format("{} of {} steps", done, total);
          tell();
        });
    write_file(files_.place_of(StudyFiles::kCost), cost.dump(2) + "\n");
    files_.put(StudyFiles::kCost);
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
  StudyDriver(files, watch).run(parts);
}

}  // namespace routeopd::study
