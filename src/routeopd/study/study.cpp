// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study.h"

#include <optional>

#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/study/concentration.h"
#include "routeopd/study/cost.h"
#include "routeopd/study/distances.h"
#include "routeopd/study/study_plan.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_run.h"

namespace routeopd::study {
namespace {

class StudyDriver {
 public:
  StudyDriver(StudyFiles& files, const StudyWatch& watch)
      : files_(files), options_(files.options()), watch_(watch) {}

  void run(const std::vector<std::string>& asked) {
    const std::vector<std::string> parts = with_tuning(files_, asked);
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
    if (part.tune) make_tuning();
    make_runs(part);
    if (part.distances) make_distances(part);
    if (part.concentration) make_concentration();
    if (part.probes) make_probes();
    if (part.cost) make_cost();
    files_.finish(part.name, true, seconds_since(begin_), lack_of(files_, part.name));
  }

  // Loaded when something is to be done.
  const LoadedPair& pair() {
    if (!pair_) {
      pair_.emplace(files_.pair(), options_, files_.recipe(), files_.chosen_by());
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
      // Made before: runs at the arms' own rates come first.
      if (files_.is_own(runs[i])) {
        files_.record(runs[i], true);
        pace_.add(-options_.steps, -1);
        continue;
      }
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
    // The bank is that of the starting student, and comes before the first run that is probed on the way.
    if (run.every > 0) freeze_states();
    make_run(run, files_.rate_of(run), files_.path(), pair(), options_,
             events_of([&](std::int64_t step) { return is_due(run, step, options_.steps); }));
  }

  // `due` says after which steps a run is evaluated.
  StudyRunEvents events_of(std::function<bool(std::int64_t)> due) {
    StudyRunEvents events;
    // `first`: the step that this process makes first; those before it are done.
    events.step = [this, due = std::move(due),
                   first = std::optional<std::int64_t>()](const StepMetrics& metrics) mutable {
      if (!first) {
        first = metrics.step;
        for (std::int64_t made = 1; made < metrics.step; ++made) pace_.add(-1, due(made) ? -1 : 0);
      }
      pace_.stepped(metrics.seconds());
      now_.step = metrics.step;
      now_.note = note_of(metrics);
      tell();
    };
    events.evaluating = [this](std::int64_t done, std::int64_t total) { tell_evaluation(done, total); };
    events.evaluated = [this](double seconds) { pace_.evaluated(seconds); };
    return events;
  }

  // Trial by trial, each recorded; the grid grows where an arm's best rate lies at its end.
  void make_tuning() {
    if (!options_.tuned() || files_.has(StudyFiles::kTuning)) return;
    const std::filesystem::path record = files_.place_of(StudyFiles::kTuning);
    std::vector<Trial> done = read_trials(record, options_);
    std::int64_t known = fewest_trials(options_, done);
    const auto write = [&](const std::optional<Tuning>& tuning) {
      Json content = files_.tuned_content();
      content["validation_problems"] = pair().validation_problems();
      write_file(record, tuning_json(options_, done, content, tuning).dump(2) + "\n");
    };
    while (std::optional<Trial> trial = next_trial(options_, done)) {
      check_interrupt();
      if (std::ssize(done) == known) {
        ++known;
        pace_.add(options_.trial_steps(), 1);
      }
      tell({.part = now_.part,
            .what = trial->name(),
            .run = std::ssize(done) + 1,
            .runs = known,
            .steps = options_.trial_steps()});
      const std::int64_t last = options_.trial_steps();
      trial->average = make_trial(*trial, files_.path(), pair(), options_,
                                  events_of([last](std::int64_t step) { return step == last; }));
      done.push_back(*trial);
      write(std::nullopt);
      // A trial is its metrics and its evaluation.
      remove_whole(files_.path() / StudyFiles::trial_path(*trial) / "checkpoints");
    }
    Tuning tuning = chosen_rates(options_, done);
    tuning.problems = std::ssize(pair().validation().suites().front().prompts);
    tell({.part = now_.part, .what = "sizes of updates"});
    measure_step_sizes(tuning, pair(), options_);
    write(tuning);
    files_.put(StudyFiles::kTuning);
  }

  void freeze_states() {
    if (files_.has(StudyFiles::kBank)) return;
    const auto begin = Clock::now();
    make_bank(files_, pair());
    pace_.probed(seconds_since(begin));
  }

  void make_distances(const Part& part) {
    tell({.part = now_.part, .what = "distances to the teacher"});
    freeze_states();
    measure_distances(files_, distance_runs(part, options_), pair(),
                      [&](std::int64_t done, std::int64_t total, double seconds) {
                        pace_.probed(seconds);
                        now_.note = fmt::format("{} of {} students", done, total);
                        tell();
                      });
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
