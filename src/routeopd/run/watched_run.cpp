// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/watched_run.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "routeopd/engine/shared_work.h"
#include "routeopd/eval/eval_directory.h"

namespace routeopd::run {
namespace {

namespace fs = std::filesystem;

std::vector<eval::Suite> read_suites(const train::Recipe& recipe, const tokenizer::Tokenizer& tokenizer) {
  std::vector<eval::Suite> suites;
  if (recipe.eval.every == 0) return suites;
  for (const auto& [name, path] : recipe.eval.suites)
    suites.push_back(eval::read_suite(name, path, protocol_of(recipe), recipe.student.path, tokenizer));
  return suites;
}

// Before the start is probed.
train::Engines checked(const train::Recipe& recipe, const train::Inputs& inputs, train::Engines engines) {
  train::check_engines(recipe, engines, inputs.real_ids);
  return engines;
}

}  // namespace

eval::Protocol protocol_of(const train::Recipe& recipe) {
  eval::Protocol protocol;
  protocol.n = recipe.eval.n;
  protocol.temperature = recipe.eval.temperature;
  protocol.top_p = recipe.eval.top_p;
  protocol.max_new_tokens = recipe.eval.max_new_tokens;
  protocol.prompt_template = recipe.data.prompt_template;
  return protocol;
}

SuiteEvaluator::SuiteEvaluator(eval::Protocol protocol, std::vector<eval::Suite> suites,
                               const tokenizer::Tokenizer& tokenizer)
    : protocol_(std::move(protocol)), suites_(std::move(suites)), tokenizer_(tokenizer) {}

SuiteEvaluator::SuiteEvaluator(const train::Recipe& recipe, const tokenizer::Tokenizer& tokenizer)
    : SuiteEvaluator(protocol_of(recipe), read_suites(recipe, tokenizer), tokenizer) {}

Json SuiteEvaluator::evaluate(const fs::path& directory, const model::Model& student, const Json& identity,
                              const eval::EvalWatch& watch) const {
  grade_again(directory, identity);
  if (const auto summary =
          eval::finished_evaluation(directory, eval::protocol_json(identity, protocol_, suites_)))
    return *summary;
  return evaluate(directory, *train::make_exact_engine(student, tokenizer_.real_ids()), identity, watch);
}

Json SuiteEvaluator::evaluate(const fs::path& directory, engine::Engine& engine, const Json& identity,
                              const eval::EvalWatch& watch) const {
  const Json protocol = eval::protocol_json(identity, protocol_, suites_);
  grade_again(directory, identity);
  if (const auto summary = eval::finished_evaluation(directory, protocol)) return *summary;
  std::error_code ignored;
  if (!eval::is_resumable(directory, protocol)) fs::remove_all(directory, ignored);
  return eval::evaluate_into(directory, engine, suites_, protocol_, tokenizer_, identity, watch).summary;
}

void SuiteEvaluator::grade_again(const fs::path& directory, const Json& identity) const {
  if (!eval::grade_again(directory, suites_, protocol_, tokenizer_, identity)) return;
  std::error_code ignored;
  fs::remove(directory / "labels.jsonl", ignored);  // they go with the grades
}

WatchedRun::WatchedRun(const train::Recipe& recipe, train::Inputs& inputs, const SuiteEvaluator& evaluator,
                       train::Engines engines, ranks::Group& group)
    : recipe_(recipe),
      inputs_(inputs),
      evaluator_(evaluator),
      group_(group),
      engines_(checked(recipe, inputs, std::move(engines))),
      probe_(recipe, inputs, engines_, group) {}

WatchedRun::WatchedRun(const train::Recipe& recipe, train::Inputs& inputs, const SuiteEvaluator& evaluator)
    : WatchedRun(recipe, inputs, evaluator, train::make_engines(recipe, inputs)) {}

std::int64_t WatchedRun::train(train::Start start, const RunEvents& events) {
  const auto watch = [&](const StepMetrics& metrics) { after(metrics, events); };
  return train::train(recipe_, inputs_, std::move(engines_), watch, start, group_);
}

void WatchedRun::after(const StepMetrics& metrics, const RunEvents& events) {
  if (events.stepped) events.stepped(metrics);
  const auto begin = std::chrono::steady_clock::now();
  const bool evaluates = recipe_.due(recipe_.eval.every, metrics.step);
  const bool probes = recipe_.due(recipe_.probe.every, metrics.step);
  if (evaluates) {
    const auto engine = train::make_exact_engine(inputs_.student, inputs_.real_ids);
    engine::share_work(group_, {engine.get()}, [&](const std::vector<engine::Engine*>& shared) {
      evaluate(metrics.step, *shared.front(), events);
    });
  }
  if (probes) probe_.after(metrics.step);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (events.measured) events.measured(metrics.step, evaluates || probes ? took.count() : 0);
}

// [eval] may change when a run is resumed: a complete evaluation of the step that it resumes from is kept.
void WatchedRun::evaluate(std::int64_t step, engine::Engine& engine, const RunEvents& events) {
  const fs::path directory = fs::path(recipe_.out) / "eval" / fmt::format("step_{}", step);
  const Json identity = {{"path", recipe_.out}, {"step", step}};
  evaluator_.grade_again(directory, identity);
  if (!eval::is_complete(directory)) {
    const Json summary =
        evaluator_.evaluate(directory, engine, identity, [&](const eval::EvalProgress& progress) {
          if (events.evaluating) events.evaluating(step, progress);
        });
    evaluation_note_ = fmt::format(", Avg@{} {:.1f} % at step {}", evaluator_.protocol().n,
                                   100 * summary["avg"].get<double>(), step);
  }
  if (events.evaluated) events.evaluated(directory);
}

}  // namespace routeopd::run
