// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "routeopd/base/display.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/formats/weight_table.h"
#include "routeopd/run/watched_run.h"
#include "routeopd/study/cost.h"
#include "routeopd/study/study_pace.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_run.h"
#include "routeopd/train/inputs.h"

namespace routeopd::study {
namespace {

constexpr double kBytesPerToken = 5;     // of a response's text and its ids
constexpr double kCheckpointBytes = 12;  // per parameter: weights and two moments, float32

// Operations per parameter and token: a forward takes a multiplication and an addition, a backward two of
// each.
constexpr double kForward = 2, kBackward = 4;

double measured_rate() {
  constexpr std::int64_t kSide = 1024;
  const at::Tensor a = at::rand({kSide, kSide}), b = at::rand({kSide, kSide});
  at::matmul(a, b);
  const Clock::time_point begin = Clock::now();
  std::int64_t products = 0;
  while (seconds_since(begin) < 0.5) {
    at::matmul(a, b);
    ++products;
  }
  return 2.0 * kSide * kSide * kSide * static_cast<double>(products) / seconds_since(begin);
}

double mean_length(const std::vector<Prompt>& prompts) {
  double ids = 0;
  for (const Prompt& prompt : prompts) ids += static_cast<double>(prompt.ids.size());
  return prompts.empty() ? 0 : ids / static_cast<double>(prompts.size());
}

// Problems and prompt tokens of an evaluation.
struct Judged {
  double problems = 0, prompt_tokens = 0;

  void add(const eval::Suite& suite, std::int64_t most) {
    const double count = most > 0
                             ? std::min(static_cast<double>(most), static_cast<double>(suite.prompts.size()))
                             : static_cast<double>(suite.prompts.size());
    problems += count;
    prompt_tokens += count * mean_length(suite.prompts);
  }
};

class Estimator {
 public:
  explicit Estimator(const StudyTerms& terms)
      : terms_(terms), options_(terms.options), tokenizer_(terms.pair.student) {
    train::Recipe recipe = terms.recipe;
    recipe.out = "runs/unnamed";
    const train::RunPrompts prompts = train::read_run_prompts(recipe, tokenizer_);
    estimate_.student_parameters = formats::parameter_count(prompts.student);
    estimate_.teacher_parameters = formats::parameter_count(prompts.teachers.at(0));
    step_prompt_tokens_ = mean_length(prompts.prompts) * options_.prompts_per_step;
    const eval::Protocol protocol = run::protocol_of(recipe);
    for (const auto& [name, path] : terms.pair.suites)
      suites_.add(eval::read_suite(name, path, protocol, terms.pair.student, tokenizer_), options_.problems);
    if (!terms.pair.validation.empty())
      validation_.add(
          eval::read_suite("validation", terms.pair.validation, protocol, terms.pair.student, tokenizer_),
          options_.tune_problems);
  }

  StudyEstimate make(const std::vector<std::string>& parts, double rate) {
    std::set<std::string> seen;
    bool untrained = false, trains = false;
    for (const std::string& name : parts) {
      const Part& part = part_named(name);
      untrained = untrained || (part.untrained && suites_.problems > 0);
      trains = trains || !part.families.empty() || !part.beside.empty() || part.tune;
      for (const PlannedRun& run : runs_of(part, options_))
        if (seen.insert(run.name()).second) add_run(run);
      if (part.concentration && suites_.problems > 0) judge(suites_, 1, 1);
      if (part.cost) add_steps(cost_steps(options_));
      if (part.probes) {
        estimate_.probe_rows += 1;  // the bank
        for (const PlannedProbe& planned : probes_of(options_)) estimate_.probe_rows += planned.rows();
      }
    }
    if (untrained) judge(suites_, options_.samples, 2);
    if (trains && options_.tuned() && options_.rates.empty()) add_trials();
    add_probes();
    estimate_.operations_per_second = rate > 0 ? rate : measured_rate();
    return estimate_;
  }

 private:
  void add_run(const PlannedRun& run) {
    ++(run.shared ? estimate_.shared_runs : estimate_.runs);
    estimate_.steps += options_.steps;
    add_steps(options_.steps);
    judge(suites_, options_.samples, evaluations_of(run, options_.steps));
    const double kept = run.hold > 0 ? 2 : 1;
    estimate_.checkpoint_bytes += kept * kCheckpointBytes * static_cast<double>(estimate_.student_parameters);
  }

  void add_trials() {
    estimate_.trials = fewest_trials(options_, {});
    estimate_.steps += estimate_.trials * options_.trial_steps();
    add_steps(estimate_.trials * options_.trial_steps());
    judge(validation_, options_.tune_samples, estimate_.trials);
  }

  void add_steps(std::int64_t steps) {
    const auto count = static_cast<double>(steps),
               student = static_cast<double>(estimate_.student_parameters),
               teacher = static_cast<double>(estimate_.teacher_parameters);
    const double written = static_cast<double>(options_.prompts_per_step) * static_cast<double>(options_.n) *
                           static_cast<double>(options_.max_new);
    const double read = written + step_prompt_tokens_;
    const train::TrainSection& train = terms_.recipe.train;
    const double learner = kForward * (train.recompute ? 2 : 1) + kBackward;
    estimate_.written_tokens += count * written;
    estimate_.teacher_tokens += count * read;
    estimate_.operations +=
        count * read *
        (student * (kForward + learner * static_cast<double>(train.epochs)) + teacher * kForward);
  }

  // A row of a probe is about a step's forward and backward.
  void add_probes() {
    const StudyEstimate before = estimate_;
    add_steps(estimate_.probe_rows);
    estimate_.written_tokens = before.written_tokens;
    estimate_.teacher_tokens = before.teacher_tokens;
  }

  void judge(const Judged& judged, std::int64_t samples, std::int64_t times) {
    if (judged.problems == 0) return;
    const double written =
        judged.problems * static_cast<double>(samples) * static_cast<double>(options_.judged_max_new());
    const auto count = static_cast<double>(times);
    estimate_.evaluations += times;
    estimate_.judged_tokens += count * written;
    estimate_.operations += count * kForward * static_cast<double>(estimate_.student_parameters) *
                            (written + judged.prompt_tokens);
    estimate_.response_bytes += count * written * kBytesPerToken;
  }

  const StudyTerms& terms_;
  const StudyOptions& options_;
  tokenizer::Tokenizer tokenizer_;
  double step_prompt_tokens_ = 0;
  Judged suites_, validation_;
  StudyEstimate estimate_;
};

// "4.2 million".
std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.1f} billion", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f} million", count / 1e6);
  return grouped(static_cast<std::int64_t>(count));
}

}  // namespace

StudyEstimate estimate_study(const StudyTerms& terms, const std::vector<std::string>& parts, double rate) {
  return Estimator(terms).make(parts, rate);
}

std::string estimate_text(const StudyEstimate& estimate, const StudyTerms& terms) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  line("student",
       fmt::format("{} ({} parameters)", terms.pair.student, grouped(estimate.student_parameters)));
  line("teacher",
       fmt::format("{} ({} parameters)", terms.pair.teacher, grouped(estimate.teacher_parameters)));
  if (estimate.trials > 0)
    line("trials", fmt::format("{} of {} steps; an arm whose best rate lies at the grid's end adds up to {}",
                               grouped(estimate.trials), terms.options.trial_steps(),
                               kMostExtensions * std::ssize(terms.options.tune_seeds)));
  line("runs", fmt::format("{}{} of {} steps", grouped(estimate.runs),
                           estimate.shared_runs > 0
                               ? fmt::format(" and {} at the shared rate", grouped(estimate.shared_runs))
                               : "",
                           terms.options.steps));
  line("evaluations", grouped(estimate.evaluations));
  if (estimate.probe_rows > 0)
    line("probes", fmt::format("{} updates on frozen states", grouped(estimate.probe_rows)));
  line("tokens", fmt::format("{} written for training, {} read by the teacher, {} written to be judged",
                             count_text(estimate.written_tokens), count_text(estimate.teacher_tokens),
                             count_text(estimate.judged_tokens)));
  line("hours", fmt::format("{:.1f} at the {:.0f} GFLOP/s of a matrix product here", estimate.hours(),
                            estimate.operations_per_second / 1e9));
  line("disk", fmt::format("{} of checkpoints, {} of responses",
                           byte_text(static_cast<std::int64_t>(estimate.checkpoint_bytes)),
                           byte_text(static_cast<std::int64_t>(estimate.response_bytes))));
  return text +
         "Tokens, hours and disk are with every response at its longest; writing at small batches is slower "
         "than that.\n";
}

Json json_of(const StudyEstimate& estimate) {
  return {{"student_parameters", estimate.student_parameters},
          {"teacher_parameters", estimate.teacher_parameters},
          {"trials", estimate.trials},
          {"runs", estimate.runs},
          {"shared_runs", estimate.shared_runs},
          {"steps", estimate.steps},
          {"evaluations", estimate.evaluations},
          {"probe_rows", estimate.probe_rows},
          {"written_tokens", estimate.written_tokens},
          {"teacher_tokens", estimate.teacher_tokens},
          {"judged_tokens", estimate.judged_tokens},
          {"operations", estimate.operations},
          {"operations_per_second", estimate.operations_per_second},
          {"hours", estimate.hours()},
          {"checkpoint_bytes", estimate.checkpoint_bytes},
          {"response_bytes", estimate.response_bytes}};
}

}  // namespace routeopd::study
