// A run that is watched: training with the evaluations and probes that its recipe asks for. `routeopd train`
// and the study of arms both train through this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/eval/evaluate.h"
#include "routeopd/run/probe_log.h"
#include "routeopd/train/train.h"

namespace routeopd::run {

// Suites under one protocol, evaluated into eval directories. The tokenizer must outlive it.
class SuiteEvaluator {
 public:
  SuiteEvaluator(eval::Protocol protocol, std::vector<eval::Suite> suites,
                 const tokenizer::Tokenizer& tokenizer);

  // The suites of a recipe, read from their files; none where [eval] every is 0.
  SuiteEvaluator(const train::Recipe& recipe, const tokenizer::Tokenizer& tokenizer);

  const eval::Protocol& protocol() const { return protocol_; }
  const std::vector<eval::Suite>& suites() const { return suites_; }

  // Evaluates `student` into `directory` and returns the summary. One that was stopped is resumed, a complete
  // one is kept, anything else is removed. `identity` is the summary's "model". Throws UserError for a
  // complete evaluation of another protocol.
  Json evaluate(const std::filesystem::path& directory, const model::Model& student, const Json& identity,
                const eval::EvalWatch& watch = {}) const;

  // By an engine over the student.
  Json evaluate(const std::filesystem::path& directory, engine::Engine& engine, const Json& identity,
                const eval::EvalWatch& watch = {}) const;

  // eval::grade_again(), for an evaluation by another extractor; labels of its responses are removed.
  void grade_again(const std::filesystem::path& directory, const Json& identity) const;

 private:
  eval::Protocol protocol_;
  std::vector<eval::Suite> suites_;
  const tokenizer::Tokenizer& tokenizer_;
};

// The protocol of [eval] and [data].
eval::Protocol protocol_of(const train::Recipe& recipe);

// Each may be empty.
struct RunEvents {
  std::function<void(const StepMetrics& metrics)>
      stepped;  // a step ended, or is the one that the run resumes from
  std::function<void(std::int64_t step, const eval::EvalProgress& progress)> evaluating;
  std::function<void(const std::filesystem::path& directory)>
      evaluated;  // now, or before the run was resumed
  // What was due after a step is evaluated and probed, and took `seconds`; 0 where nothing was due.
  std::function<void(std::int64_t step, double seconds)> measured;
};

class WatchedRun {
 public:
  // Before training, while inputs.student is the one that the recipe names; all three must outlive the run.
  WatchedRun(const train::Recipe& recipe, train::Inputs& inputs, const SuiteEvaluator& evaluator);

  // With engines given in place of the recipe's own, and together with the other ranks of a group.
  WatchedRun(const train::Recipe& recipe, train::Inputs& inputs, const SuiteEvaluator& evaluator,
             train::Engines engines, ranks::Group& group = ranks::alone());

  // train::train() with evaluations in RUN/eval/step_N and probes in RUN/probe.jsonl. Once: the engines go
  // with it.
  std::int64_t train(train::Start start, const RunEvents& events = {});

  // What was measured last, for a progress line: ", Avg@16 61.0 % at step 10"; empty before.
  std::string note() const { return probe_.note() + evaluation_note_; }

 private:
  void after(const StepMetrics& metrics, const RunEvents& events);
  void evaluate(std::int64_t step, engine::Engine& engine, const RunEvents& events);

  const train::Recipe& recipe_;
  train::Inputs& inputs_;
  const SuiteEvaluator& evaluator_;
  ranks::Group& group_;
  train::Engines engines_;
  ProbeLog probe_;
  std::string evaluation_note_;
};

}  // namespace routeopd::run
