// SPDX-License-Identifier: Apache-2.0
#include "routeopd/run/probe_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"
#include "routeopd/engine/shared_work.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/prober.h"
#include "routeopd/probe/state_scores.h"
#include "routeopd/probe/summary.h"

namespace routeopd::run {
namespace {

std::int64_t last_step(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return -1;
  std::int64_t step = -1;
  formats::JsonLines lines(path.string());
  while (const auto line = lines.next()) step = line->value("step", std::int64_t{-1});
  return step;
}

Json shape_of(const std::vector<double>& values_S, const probe::Bank& bank) {
  const Json spread = probe::spread_of(values_S, bank);
  return {{"mean", spread["mean"]}, {"p10", spread["p10"]}, {"median", spread["median"]}};
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_mass(const probe::Frozen& frozen) {
  double sum = 0;
  for (const auto& state : frozen.transport_S) sum += state.mass;
  return sum / static_cast<double>(frozen.transport_S.size());
}

void check_bank(const probe::Bank& bank, const train::Recipe& recipe, std::int32_t real_ids) {
  const auto differs = [](const std::string& hash, const std::string& directory) {
    return !hash.empty() && hash != formats::weights_sha256(directory);
  };
  if (bank.real_ids != real_ids ||
      differs(bank.teacher.sha256, recipe.run_teachers().front().section->path) ||
      differs(bank.student.sha256, recipe.student.path))
    throw UserError(
        "[probe] bank: {} was made with another student or teacher than the recipe names; `routeopd probe "
        "make` makes one for this pair",
        recipe.probe.bank);
}

}  // namespace

ProbeLog::ProbeLog(const train::Recipe& recipe, const train::Inputs& inputs, const train::Engines& engines,
                   ranks::Group& group)
    : recipe_(recipe), inputs_(inputs), group_(group) {
  if (recipe.probe.every == 0) return;
  if (!recipe.probe.bank.empty()) {
    ranks::together(group, [&] {
      if (group.leads()) open_bank(engines);
    });
    return;
  }
  const auto base = train::make_exact_engine(inputs.student, inputs.real_ids);
  std::vector<engine::Engine*> local = {base.get()};  // then the teachers whose weights are here
  for (std::size_t t = 0; t < engines.teachers.size(); ++t)
    if (inputs.teachers[t].model) local.push_back(engines.teachers[t].engine.get());
  engine::share_work(group, local, [&](const std::vector<engine::Engine*>& shared) {
    choose_states(*shared.front(), engines, std::span(shared).subspan(1));
    start_ = measure(0, *shared.front());
  });
}

void ProbeLog::open_bank(const train::Engines& engines) {
  const at::Tensor teacher_head_UX = engines.teacher_head_UX();
  if (!teacher_head_UX.defined())
    throw UserError(
        "[probe] bank: fidelity and leakage need the teacher's LM head, which its engine ({}) does not give; "
        "choose a local teacher, or no bank",
        engines.teachers.front().engine->name());
  probe::Bank bank = probe::read_bank(recipe_.probe.bank);
  check_bank(bank, recipe_, inputs_.real_ids);
  const at::Tensor hidden_SH = probe::hidden_at(inputs_.student, bank.rollout, bank.states_S);
  bank_ = {std::move(bank), teacher_head_UX, hidden_SH, inputs_.student.head_VH.detach().clone()};
  start_ = measure_on_bank(0);
}

// `shared_teachers`: those with weights here, in the order of the run's.
void ProbeLog::choose_states(engine::Engine& base, const train::Engines& engines,
                             std::span<engine::Engine* const> shared_teachers) {
  std::vector<engine::Engine*> teachers = engines.scorers();
  for (std::size_t t = 0, shared = 0; t < teachers.size(); ++t)
    if (inputs_.teachers[t].model) teachers[t] = shared_teachers[shared++];
  const auto prompts = std::min<std::size_t>(inputs_.prompts.size(), kProbePrompts);
  masses_.emplace(base, teachers, std::span(inputs_.prompts).first(prompts), recipe_.probe.states,
                  recipe_.rollout.max_new_tokens, recipe_.objective, recipe_.seed);
}

Json ProbeLog::measure(std::int64_t step, engine::Engine& student) const {
  return {{"step", step}, {"mass", masses_->mass(student)}};
}

Json ProbeLog::measure_on_bank(std::int64_t step) const {
  const probe::Bank& bank = bank_->bank;
  const at::Tensor& teacher_head = bank_->teacher_head_UX;
  probe::Prober prober(bank, inputs_.student, teacher_head, recipe_.optimizer, /*banks_own=*/step == 0);
  const probe::ProbeArm arm{.name = recipe_.objective.arm, .objective = recipe_.objective};
  const probe::ProbeRow row = prober.run(arm, probe::Intervention::kFreshAdamW);
  Json line = {{"step", step},
               {"mass", mean_mass(bank.frozen)},
               {"fidelity", shape_of(row.changes.fidelity_S, bank)},
               {"leakage", shape_of(row.changes.leakage_S, bank)},
               {"rms", row.rms},
               {"since_start", nullptr}};
  if (step == 0) return line;
  const probe::Changes since = probe::change_between(bank, {bank_->start_hidden_SH, bank_->start_head_VH},
                                                     prober.before(), teacher_head);
  line["mass"] = mean_of(since.mass_after_S);
  line["since_start"] = {{"fidelity", shape_of(since.fidelity_S, bank)},
                         {"leakage", shape_of(since.leakage_S, bank)},
                         {"deficit_reduction", mean_mass(bank.frozen) - mean_of(since.mass_after_S)}};
  return line;
}

void ProbeLog::after(std::int64_t step) {
  if (!recipe_.due(recipe_.probe.every, step)) return;
  const auto has_line = [&] { return last_step(std::filesystem::path(recipe_.out) / "probe.jsonl") == step; };
  if (!recipe_.probe.bank.empty()) {
    return ranks::together(group_, [&] {
      if (group_.leads() && !has_line()) append(measure_on_bank(step));
    });
  }
  const auto student = train::make_exact_engine(inputs_.student, inputs_.real_ids);
  engine::share_work(group_, {student.get()}, [&](const std::vector<engine::Engine*>& shared) {
    if (!has_line()) append(measure(step, *shared.front()));
  });
}

void ProbeLog::append(const Json& line) {
  const auto path = std::filesystem::path(recipe_.out) / "probe.jsonl";
  std::ofstream file(path, std::ios::app);
  if (file.tellp() == 0) file << start_.dump() << '\n';
  before_write([&] { file << line.dump().substr(0, 7) << std::flush; });
  file << line.dump() << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", path.string());
  const double before = start_["mass"], mass = line["mass"];
  note_ = fmt::format(", mass on fixed states {:.4f} ({:+.0f} %)", mass, 100 * (mass / before - 1));
}

}  // namespace routeopd::run
