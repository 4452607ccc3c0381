//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study.h"

#include <chrono>
#include <optional>

#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/lab/concentration.h"
#include "routeopd/lab/cost.h"
#include "routeopd/lab/study_plan.h"
#include "routeopd/lab/study_probes.h"
#include "routeopd/lab/study_run.h"

namespace routeopd::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Driver {
 public:
  Driver(StudyFiles& files, const StudyWatch& watch)
      : files_(files), options_(files.options()), watch_(watch) {}

  void run(const std::vector<std::string>& parts) {
    pace_ = work_left(files_, parts);
    for (const std::string& part : parts) {
      if (is_done(files_, part)) continue;
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
  void run_part(const std::string& part) {
    if (part == "cost") {
      make_cost();
    } else {
      if (!files_.pair().suites.empty()) {
        for (const char* name : kUntrained) evaluate(name);
      }
      make_runs(part);
      if (part == "mechanism") {
        make_concentration();
        make_probes();
      }
    }
    files_.finish(part, true, seconds_since(begin_), lack_of(files_, part));
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
    // The bank is that of the starting student, and comes before the first run that is looked at on the way.
    if (run.every > 0) freeze_states();
    make_run(run, files_.path(), pair(), options_, events);
  }

  void freeze_states() {
    if (files_.has("bank")) return;
    const auto begin = Clock::now();
    make_bank(files_, pair());
    pace_.probed(seconds_since(begin));
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
    if (files_.has("cost")) return;
    tell({.part = now_.part, .what = "cost"});
    std::int64_t before = 0;
    const Json cost =
        measure_cost(pair(), options_, [&](std::int64_t done, std::int64_t total, double seconds) {
          pace_.stepped(seconds, done - before);
          before = done;
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
