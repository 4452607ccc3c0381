//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/training_probe.h"

#include <cmath>

#include "routeopd/base/error.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/summary.h"

namespace routeopd::probe {
namespace {

Json shape_of(const std::vector<double>& values_S, const Bank& bank) {
  Json spread = spread_of(values_S, bank);
  return {{"mean", spread["mean"]}, {"p10", spread["p10"]}, {"median", spread["median"]}};
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double mean_mass(const Frozen& frozen) {
  double sum = 0;
  for (const auto& state : frozen.transport_S) sum += state.mass;
  return sum / static_cast<double>(frozen.transport_S.size());
}

}  // namespace

TrainingProbe::TrainingProbe(const train::Recipe& recipe, const train::Inputs& inputs)
    : recipe_(recipe), inputs_(inputs), bank_(read_bank(recipe.probe.bank)) {
  const auto differs = [](const std::string& hash, const std::string& directory) {
    return !hash.empty() && hash != formats::weights_sha256(directory);
  };
  if (bank_.real_ids != inputs.real_ids || differs(bank_.teacher.sha256, recipe.teacher.path) ||
      differs(bank_.student.sha256, recipe.student.path))
    throw UserError(
        "[probe] bank: {} was made with another student or teacher than the recipe names; `routeopd probe "
        "make` "
        "makes one for this pair",
        recipe.probe.bank);
  start_hidden_SH_ = hidden_at(inputs.student, bank_.rollout, bank_.states_S);
  start_head_VH_ = inputs.student.head_VH.detach().clone();
}

Json TrainingProbe::measure(std::int64_t step) const {
  Json line = {{"step", step}};
  Prober prober(bank_, inputs_.student, inputs_.teacher->head_VH, recipe_.optimizer, /*banks_own=*/step == 0);
  const ProbeArm arm{.name = recipe_.objective.arm, .objective = recipe_.objective};
  const ProbeRow row = prober.run(arm, Intervention::kFreshAdamW);
  line["fidelity"] = shape_of(row.changes.fidelity_S, bank_);
  line["leakage"] = shape_of(row.changes.leakage_S, bank_);
  line["rms"] = row.rms;
  line["mass"] = mean_mass(bank_.frozen);
  line["since_start"] = nullptr;
  if (step == 0) return line;
  const Changes since =
      change_between(bank_, {start_hidden_SH_, start_head_VH_}, prober.before(), inputs_.teacher->head_VH);
  line["mass"] = mean_of(since.mass_after_S);
  line["since_start"] = {{"fidelity", shape_of(since.fidelity_S, bank_)},
                         {"leakage", shape_of(since.leakage_S, bank_)},
                         {"deficit_reduction", mean_mass(bank_.frozen) - mean_of(since.mass_after_S)}};
  return line;
}

}  // namespace routeopd::probe
