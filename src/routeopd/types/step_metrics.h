// The metrics of one training step: an object of metrics.jsonl. One table of fields gives each its name, its
// meaning, how it is written and how it is read; the run directory, TensorBoard, progress lines, reports and
// studies use it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd {

// What one of several teachers has to do with a step; means over its valid states.
struct TeacherMetrics {
  std::int64_t states = 0, valid = 0;  // of the responses that it read
  std::optional<double> mass, routed_share;
  std::int64_t calls = 0, tokens = 0;  // responses that it read; tokens, prompts included
};

// All but `time`, `peak_bytes` and the seconds of `exchange` are reproducible.
struct StepMetrics {
  using Value = std::optional<double>;  // none: the step has nothing to say of it; null in the file

  std::int64_t step = 0;    // from 1
  std::int64_t tokens = 0;  // of all responses
  Value loss;               // per valid state, over the first pass over the step's data
  Value lr;                 // of the last update
  Value grad_norm;          // before the clip, the largest of the updates
  std::int64_t skipped_updates = 0;

  // Of the routes. Means over the valid states; those marked (routed) over the routed ones.
  Value mass;
  Value concentration, budget, saturated, coverage;  // (routed)
  Value routed_share;                                // of the valid states
  Value student_mass, teacher_mass;                  // that the support holds
  Value entropy, teacher_entropy;  // nats; everything outside the top k is one outcome: lower bounds
  Value policy_entropy;  // nats, the student's at temperature 1 over the whole vocabulary, per token
  Value capture_error;   // rms change of what the objective reads, where it should be 0; none: by definition
  std::int64_t floored = 0;  // teacher values at -inf that counted as log delta_p
  // rms of the learner's minus the engine's values at the first forward, nats, each where it is known:
  // "logprob" of the token taken, "log_odds" of pairs; "share" of the states compared with a gap past 0.05.
  std::map<std::string, double> engine_gap;

  Value response_tokens;  // per response
  Value clip_ratio;       // share of the responses that were cut at the longest length
  std::int64_t teacher_calls = 0, teacher_tokens = 0;
  std::map<std::string, TeacherMetrics> teachers;  // by name; empty unless there are several

  std::map<std::string, std::int64_t> validity;  // states by reason; "not_routed" counts among the valid ones
  std::map<std::string, std::int64_t> servers;   // what happened at them: requests repeated, values looked up
  // With several ranks: how many, what one of them handed over of its gradients, in bytes, what that would
  // have been with whole tables ("dense_bytes"), the seconds it took, which are part of time["learn"], and
  // how many times its equal share of the tokens the "busiest" rank wrote.
  std::map<std::string, double> exchange;
  std::map<std::string, double> time;  // seconds by stage, and their "total"
  std::int64_t peak_bytes = 0;         // the largest resident size so far; "memory" in the file

  double seconds() const;  // time["total"]; 0 where it is not known
};

// Every field, in the order in which they are explained. set() throws UserError("expected …, got …").
const Fields<StepMetrics>& step_metric_fields();

// The line of metrics.jsonl.
Json json_of(const StepMetrics& metrics);

// Reads such a line. A field that is missing or null stays empty; so does one of another type, of which
// `wrong` is told: its name, and a clause such as "expected a number, got string".
using WrongMetric = std::function<void(const std::string& field, const std::string& clause)>;
StepMetrics step_metrics_of(const Json& line, const WrongMetric& wrong = {});

// The number under a name; none where it is not known, or the table has no such number.
StepMetrics::Value metric_named(std::string_view name, const StepMetrics& metrics);

// Every number of the line but `step`, under its name; inner ones as "time/learn".
std::vector<std::pair<std::string, double>> scalars_of(const StepMetrics& metrics);

// "loss 0.01234, mass 0.1234, routed 56 %, 789 tokens/s", as far as they are known: for a progress line.
std::string note_of(const StepMetrics& metrics);

}  // namespace routeopd
