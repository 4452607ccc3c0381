// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/train.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "routeopd/base/interrupt.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/engine.h"
#include "routeopd/objective/engine_gap.h"
#include "routeopd/train/metrics.h"
#include "routeopd/train/schedule.h"
#include "routeopd/train/shares.h"
#include "routeopd/train/stages.h"

namespace routeopd::train {
namespace {

class Run {
 public:
  // This rank's side: rank 0 opens the directory, and resumes.
  Run(const Recipe& recipe, Inputs& inputs, Engines engines, Start start, ranks::Group& group);

  // All ranks go on from where rank 0 is.
  void begin();

  std::int64_t steps_done() const { return state_.step; }
  StepMetrics last_metrics() const;

  // The method: the student writes, the teacher reads, what differs is routed, the student learns the routes.
  // Each rank does so for its share of the prompts; they learn together.
  StepMetrics step() {
    const HoldInterrupts until_the_step_is_whole;
    clock_.start();
    const std::vector<Prompt> prompts = own_prompts();
    Rollout rollout;
    Scores scores;
    Routes routes;
    std::string not_finite;  // what NonFiniteLogits says: nothing was changed, and the step is skipped
    ranks::together(group_, [&] {
      try {
        stages_.refresh();
        clock_.book("refresh");
        rollout = stages_.write(prompts, state_.step);
        clock_.book("rollout");
        scores = stages_.score(rollout);
        clock_.book("score");
        routes = stages_.route(rollout, scores);
        clock_.book("route");
      } catch (const engine::NonFiniteLogits& error) {
        clock_.book("rollout");
        not_finite = error.what();
      }
    });
    if (skips(not_finite)) return record(nothing(), stages_.skip());
    const Experience experience = stages_.experience(rollout, scores, routes);
    if (state_.step == 0) check_first_routes(experience);
    if (!group_.alone()) clock_.book("wait");  // for the slowest rank
    consistent_ = false;
    const UpdateResult update = stages_.learn(experience);
    clock_.book("learn");
    if (recipe_.train.rollouts) write_rollouts(rollout, prompts);
    return record(experience, update);
  }

  void save();
  void log(const std::string& line) {
    if (files_) files_->log(line);
  }
  void stop(const std::exception& error);

 private:
  int ranks_before() const;
  std::vector<Prompt> own_prompts();
  bool skips(const std::string& not_finite);
  void write_rollouts(const Rollout& rollout, const std::vector<Prompt>& prompts);
  StepMetrics record(const Experience& experience, const UpdateResult& update);
  void check_first_routes(const Experience& experience) const;
  void check_equal_weights() const;

  // What is learnt from where nothing was written.
  static Experience nothing() {
    static const Rollout kEmpty;
    return {.rollout = &kEmpty, .scores = nullptr, .routes = nullptr};
  }

  const Recipe& recipe_;
  Inputs& inputs_;
  ranks::Group& group_;
  Stages stages_;
  PromptOrder order_;
  std::optional<RunDirectory> files_;  // rank 0's
  std::vector<std::string> teachers_;  // names
  RunState state_;
  StageClock clock_;
  std::set<std::string> told_;  // counts of the servers that the log has named
  bool consistent_ = true;      // the weights are those of `state_`, and its lines are written
};

}  // namespace

std::int64_t train(const Recipe& recipe, Inputs& inputs, Engines engines, const StepWatch& watch, Start start,
                   ranks::Group& group) {
  std::optional<Run> run;
  std::int64_t first = 0;
  try {
    ranks::together(group, [&] { run.emplace(recipe, inputs, std::move(engines), start, group); });
    run->begin();
    first = run->steps_done();
    if (watch && first > 0) watch(run->last_metrics());
    while (run->steps_done() < recipe.train.steps) {
      const StepMetrics metrics = run->step();
      if (watch) watch(metrics);
      ranks::check_interrupt(group);
    }
  } catch (const Interrupted&) {
    std::exception_ptr unsaved;
    try {
      if (run) run->save();
      if (run) run->log(fmt::format("interrupted after step {}", run->steps_done()));
    } catch (const std::exception&) {
      unsaved = std::current_exception();
    }
    group.barrier();  // who leaves first has the others ended by torchrun, and rank 0 may still be writing
    if (unsaved) std::rethrow_exception(unsaved);
    throw;
  } catch (const std::exception& error) {  // ours, the disk's, LibTorch's
    if (run) run->stop(error);
    throw;
  }
  if (run->steps_done() > first) run->log(fmt::format("{} steps done", run->steps_done()));
  return run->steps_done() - first;
}

std::int64_t train(const Recipe& recipe, Inputs& inputs, const StepWatch& watch, Start start) {
  return train(recipe, inputs, make_engines(recipe, inputs), watch, start);
}

namespace {

Run::Run(const Recipe& recipe, Inputs& inputs, Engines engines, Start start, ranks::Group& group)
    : recipe_(recipe),
      inputs_(inputs),
      group_(group),
      stages_(recipe, inputs, std::move(engines), group),
      order_(std::ssize(inputs.prompts), recipe) {
  for (const RunTeacher& teacher : recipe.run_teachers()) teachers_.push_back(teacher.name);
  if (!group.leads()) return;
  files_.emplace(recipe, start);
  if (!files_->resumed()) return;
  if (const auto checkpoint = files_->newest_checkpoint())
    state_ = stages_.resume(*checkpoint, inputs.student, files_->inputs());
  files_->rewind(state_.step);
}

void Run::begin() {
  const at::Tensor counters = at::tensor({state_.step, state_.bad_steps}, at::kLong);
  group_.share({counters});
  state_ = {.step = counters[0].item<std::int64_t>(), .bad_steps = counters[1].item<std::int64_t>()};
  if (state_.step > 0 && !group_.alone()) stages_.share(inputs_.student);
  if (state_.step == recipe_.train.steps) return;
  stages_.tell_to([this](const std::string& line) { log(line); });
  log(fmt::format("{} steps of {} responses from step {}, arm {}, seed {}, learner on {}, {} threads on {}{}",
                  recipe_.train.steps, recipe_.responses(), state_.step, recipe_.objective.arm, recipe_.seed,
                  stages_.learner().device().str(), at::get_num_threads(), cpu_model(),
                  group_.alone() ? "" : fmt::format(", {} ranks", group_.size())));
  if (state_.step > 0 && ranks_before() != group_.size())
    log(fmt::format("step {} was made by {} ranks, and {} go on: sums round differently from here on",
                    state_.step, ranks_before(), group_.size()));
  if (inputs_.too_long > 0)
    log(fmt::format("{} prompts skipped: too long for the models' positions", inputs_.too_long));
  if (!inputs_.contamination_warning.empty()) log("warning: " + inputs_.contamination_warning);
}

// That made the step which this run resumes from.
int Run::ranks_before() const {
  if (!files_) return group_.size();
  const auto& exchange = files_->last_metrics().exchange;
  const auto ranks = exchange.find("ranks");
  return ranks == exchange.end() ? 1 : static_cast<int>(ranks->second);
}

StepMetrics Run::last_metrics() const {
  StepMetrics metrics;
  if (files_) metrics = files_->last_metrics();
  metrics.step = state_.step;
  return metrics;
}

std::vector<Prompt> Run::own_prompts() {
  std::vector<Prompt> all = order_.prompts(inputs_.prompts, state_.step);
  if (group_.alone()) return all;
  std::vector<Prompt> own;
  const auto shares = share_out(all, recipe_, group_.size());
  for (const std::size_t place : shares[static_cast<std::size_t>(group_.rank())])
    own.push_back(std::move(all[place]));
  return own;
}

// Whether a rank found logits that are not finite.
bool Run::skips(const std::string& not_finite) {
  bool some = false;
  for (const std::string& said : group_.gather(not_finite)) {
    if (!said.empty() && !some) log(fmt::format("step {}: {}", state_.step + 1, said));
    some = some || !said.empty();
  }
  return some;
}

void Run::write_rollouts(const Rollout& rollout, const std::vector<Prompt>& prompts) {
  std::vector<RolloutLine> lines =
      rollout_lines(recipe_, state_.step + 1, rollout, prompts, inputs_.tokenizer);
  if (!group_.alone()) lines = gathered_lines(group_, lines);
  if (files_) files_->rollouts(lines);
}

// Lines first, the checkpoint last: it is never ahead of them.
StepMetrics Run::record(const Experience& experience, const UpdateResult& update) {
  ++state_.step;
  state_.bad_steps = update.updates > 0 ? 0 : state_.bad_steps + 1;
  const Totals totals = ranks::sum_of(group_, step_totals(experience, teachers_));
  StepMetrics metrics = step_metrics(state_.step, totals, teachers_, update);
  metrics.time = clock_.take();  // its `save` is that of the step before
  metrics.peak_bytes = peak_resident_bytes();
  const auto counts = stages_.take_counts();
  for (const auto& [name, count] : ranks::sum_of(group_, Totals(counts.begin(), counts.end())))
    metrics.servers[name] = static_cast<std::int64_t>(count);
  if (!group_.alone()) {
    metrics.exchange = exchange_metrics(update.exchanged, group_.size());
    const double busiest = ranks::largest_of(group_, static_cast<double>(experience.rollout->states()));
    if (metrics.tokens > 0)
      metrics.exchange["busiest"] = busiest * group_.size() / static_cast<double>(metrics.tokens);
  }
  for (const auto& [name, count] : metrics.servers)
    if (told_.insert(name).second)
      log(fmt::format("servers: {}: {} (said once; metrics.jsonl counts)", name, count));
  if (const auto share = metrics.engine_gap.find("share");
      share != metrics.engine_gap.end() && share->second > 0.5 && told_.insert("engine_gap").second)
    log(fmt::format(
        "engine_gap: at {:.0f} % of the states the engine's values are more than {} nats from the "
        "learner's; in float32 its weights are not the student's (said once; docs/training.md)",
        100 * share->second, objective::kEngineGapThreshold));
  if (files_) files_->metrics(metrics);
  consistent_ = true;
  const std::string skipped = skipped_text(metrics, update);
  if (!skipped.empty()) log(fmt::format("step {}: {}", state_.step, skipped));
  const bool due = recipe_.checkpoint.every > 0 && state_.step % recipe_.checkpoint.every == 0;
  if (due || state_.step == recipe_.train.steps) {
    check_equal_weights();
    save();
  }
  if (state_.bad_steps > recipe_.train.max_bad_steps) {
    save();
    throw UserError(
        "step {}: {} steps in a row made no update ({} in the last one); the weights before them are in "
        "{}/checkpoints/step_{}; are both models' weights whole, and is "
        "[optimizer] lr small enough?",
        state_.step, state_.bad_steps, skipped, recipe_.out, state_.step);
  }
  clock_.book("save");
  return metrics;
}

void Run::save() {
  if (files_ && state_.step > 0 && !files_->has_checkpoint(state_.step))
    files_->checkpoint(state_, inputs_.student, stages_.learner());
}

// A checkpoint is of all ranks.
void Run::check_equal_weights() const {
  std::vector<at::Tensor> weights;
  for (const model::Parameter& weight : model::trainable(inputs_.student)) weights.push_back(weight.tensor);
  ranks::check_equal(group_, weights);
}

// Saves what an error leaves whole.
void Run::stop(const std::exception& error) {
  if (!files_) return;
  if (state_.step == 0 && !files_->resumed()) {
    files_->discard();  // nothing was done that could be lost
    return;
  }
  try {
    log(fmt::format("stopped: {}", error.what()));
    if (consistent_) save();
  } catch (const std::exception&) {
    // The first error is the one to report; earlier checkpoints are whole.
  }
}

// A run whose first step has nothing to move would train on nothing, or on the rounding of two forwards that
// should be equal (a mass of about 1e-6), which Adam enlarges: it is refused.
void Run::check_first_routes(const Experience& experience) const {
  if (experience.routes == nullptr || !recipe_.makes_routes()) return;
  constexpr double kRounding = 1e-5;
  const Routes& routes = *experience.routes;
  const std::vector<double> counts = ranks::sum_of(
      group_,
      {static_cast<double>(routes.states),
       static_cast<double>(std::count(routes.validity_N.begin(), routes.validity_N.end(), Validity::kValid)),
       static_cast<double>(std::count(routes.routed_N.begin(), routes.routed_N.end(), 1))});
  double largest = 0;
  for (const float mass : routes.mass_N) largest = std::max(largest, static_cast<double>(mass));
  largest = ranks::largest_of(group_, largest);
  const double states = counts[0], valid = counts[1], routed = counts[2];
  if (valid == 0) return;
  if (largest <= kRounding) {
    throw UserError(
        "teacher and student agree at all {:.0f} states of the first step (largest M = {:.1e}): there is "
        "nothing "
        "to train on; choose another teacher, or give it a prompt of its own that tells it more",
        states, largest);
  }
  if (recipe_.objective.loss == routing::Loss::kRouted && routed == 0) {
    throw UserError(
        "none of the {:.0f} states of the first step has a route (largest M = {:.1e}): the arm finds no "
        "destination, and there is nothing to train on; try a smaller [objective] k",
        states, largest);
  }
}

}  // namespace
}  // namespace routeopd::train
