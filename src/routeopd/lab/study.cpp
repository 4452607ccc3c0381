//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "routeopd/base/atomic_directory.h"
#include "routeopd/base/atomic_file.h"
#include "routeopd/base/memory.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/lab/task.h"
#include "routeopd/probe/mismatch.h"
#include "routeopd/train/train.h"

namespace routeopd::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestResponse = 80;  // the longest right solution has 50 tokens
constexpr std::size_t kBankPrompts = 32;

// What all runs share: the pair, the problems, the frozen states.
class Bench {
 public:
  explicit Bench(const StudyOptions& options)
      : tokenizer_(options.laboratory / "base"),
        base_(model::load_model(options.laboratory / "base")),
        teacher_(model::load_model(options.laboratory / "teacher")) {
    protocol_.n = options.samples;
    protocol_.max_new_tokens = kLongestResponse;
    protocol_.prompt_template = kTemplate;
    suites_.push_back(eval::read_suite("heldout", (options.laboratory / "heldout.jsonl").string(), protocol_,
                                       options.laboratory / "base", tokenizer_));
    std::vector<Prompt>& problems = suites_.front().prompts;
    if (options.problems > 0 && options.problems < std::ssize(problems))
      problems.resize(static_cast<std::size_t>(options.problems));
    engine::LocalEngine base(base_, tokenizer_.real_ids()), teacher(teacher_, tokenizer_.real_ids());
    routing::ObjectiveOptions objective;
    objective.k = options.k;
    bank_.emplace(base, teacher, std::span(problems).first(std::min(problems.size(), kBankPrompts)),
                  options.bank_states, kLongestResponse, objective, protocol_.seed);
    base_mass_ = bank_->mass(base);
  }

  double average_of(const model::Model& model) {
    engine::LocalEngine engine(model, tokenizer_.real_ids());
    const auto responses = eval::evaluate(engine, suites_.front(), protocol_, tokenizer_);
    return grade::average(eval::correctness_of(responses, protocol_.n));
  }

  // Kept as an eval directory that `routeopd compare` reads.
  grade::Correctness evaluate_into(const fs::path& directory, const model::Model& model, const Json& who) {
    engine::LocalEngine engine(model, tokenizer_.real_ids());
    const eval::Evaluation all = eval::evaluate_into(directory, engine, suites_, protocol_, tokenizer_, who);
    return eval::correctness_of(all.responses.front(), protocol_.n);
  }

  double mass_of(const model::Model& model) {
    engine::LocalEngine engine(model, tokenizer_.real_ids());
    return bank_->mass(engine);
  }

  double base_mass() const { return base_mass_; }
  const model::Model& base() const { return base_; }
  const model::Model& teacher() const { return teacher_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  text::Tokenizer tokenizer_;
  model::Model base_, teacher_;
  eval::Protocol protocol_;
  std::vector<eval::Suite> suites_;  // one
  std::optional<probe::MismatchBank> bank_;
  double base_mass_ = 0;
};

// Nothing is tuned for an arm: its name is all that differs.
train::Recipe arm_recipe(const StudyOptions& options, const std::string& arm, std::uint64_t seed) {
  train::Recipe recipe;
  recipe.seed = seed;
  recipe.out = (options.out / fmt::format("{}-seed{}", arm, seed)).string();
  recipe.student.path = (options.laboratory / "base").string();
  recipe.teacher.path = (options.laboratory / "teacher").string();
  recipe.data.prompts = (options.laboratory / "train.jsonl").string();
  recipe.data.prompt_template = kTemplate;
  recipe.rollout.max_new_tokens = kLongestResponse;
  recipe.objective = routing::objective_from({{"arm", arm}, {"k", options.k}});
  recipe.optimizer.lr = options.lr;
  recipe.train.steps = options.steps;
  recipe.checkpoint.every = 0;
  return recipe;
}

Json median_seconds(const std::vector<Json>& steps) {
  Json medians = Json::object();
  if (steps.empty()) return medians;
  for (const auto& [stage, value] : steps.front().items()) {
    std::vector<double> values;
    for (const Json& step : steps) values.push_back(step.value(stage, 0.0));
    std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
    medians[stage] = values[values.size() / 2];
  }
  return medians;
}

double number_of(const Json& metrics, const char* name) {
  return metrics[name].is_number() ? metrics[name].get<double>() : std::nan("");
}

ArmRun run_arm(Bench& bench, const StudyOptions& options, const std::string& arm, std::uint64_t seed,
               double base_average, const StudyWatch& watch) {
  const train::Recipe recipe = arm_recipe(options, arm, seed);
  reset_peak_resident();
  train::Inputs inputs = train::load_inputs(recipe, bench.tokenizer());
  ArmRun run;
  run.arm = arm;
  run.seed = seed;
  run.mass_before = bench.base_mass();
  run.path.emplace_back(0, base_average);
  std::vector<Json> seconds;
  const std::string what = fmt::format("{} seed {}", arm, seed);
  train::train(recipe, inputs, [&](std::int64_t step, const Json& metrics) {
    seconds.push_back(metrics["time"]);
    run.peak_bytes = std::max(run.peak_bytes, metrics["memory"]["peak_bytes"].get<std::int64_t>());
    if (step == options.steps) {
      run.correctness = bench.evaluate_into(fs::path(recipe.out) / "eval", inputs.student,
                                            {{"path", recipe.out}, {"step", step}});
      run.path.emplace_back(step, grade::average(run.correctness));
    } else if (options.evaluate_every > 0 && step % options.evaluate_every == 0) {
      run.path.emplace_back(step, bench.average_of(inputs.student));
      reset_peak_resident();  // evaluations do not count
    }
    if (watch) {
      watch(what, step, options.steps,
            fmt::format("loss {:.4f}, mass {:.3f}, Avg@{} {:.1f} % at step {}", number_of(metrics, "loss"),
                        number_of(metrics, "mass"), options.samples, 100 * run.path.back().second,
                        run.path.back().first));
    }
  });
  run.mass_after = bench.mass_of(inputs.student);
  run.seconds = median_seconds(seconds);
  return run;
}

}  // namespace

Study run_study(const StudyOptions& options, const StudyWatch& watch) {
  for (const std::string& arm : options.arms) {
    if (arm_recipe(options, arm, 0).sft())
      throw UserError("arms: sft has no teacher; choose arms of the method");
    if (std::count(options.arms.begin(), options.arms.end(), arm) > 1)
      throw UserError("arms: {} is named twice", arm);
  }
  Bench bench(options);
  make_result_directory(options.out);
  Study study;
  study.options = options;
  study.base = bench.average_of(bench.base());
  study.teacher = bench.average_of(bench.teacher());
  for (const std::uint64_t seed : options.seeds) {
    for (const std::string& arm : options.arms) {
      study.runs.push_back(run_arm(bench, options, arm, seed, study.base, watch));
      // After every arm: what is done is not lost.
      write_file(options.out / "study.json", study_json(study).dump(2) + "\n");
    }
  }
  return study;
}

}  // namespace routeopd::lab
