//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/probe_log.h"

#include <algorithm>
#include <fstream>

#include "routeopd/base/error.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::probe {
namespace {

constexpr std::size_t kPrompts = 64;

std::int64_t last_step(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return -1;
  std::int64_t step = -1;
  formats::JsonLines lines(path.string());
  while (const auto line = lines.next()) step = line->value("step", std::int64_t{-1});
  return step;
}

}  // namespace

ProbeLog::ProbeLog(const train::Recipe& recipe, const train::Inputs& inputs)
    : recipe_(recipe), inputs_(inputs) {
  if (recipe.probe.every == 0) return;
  if (!recipe.probe.bank.empty()) {
    bank_.emplace(recipe, inputs);
  } else {
    engine::LocalEngine base(inputs.student, inputs.real_ids), teacher(*inputs.teacher, inputs.real_ids);
    const auto prompts = std::min<std::size_t>(inputs.prompts.size(), kPrompts);
    masses_.emplace(base, teacher, std::span(inputs.prompts).first(prompts), recipe.probe.states,
                    recipe.rollout.max_new_tokens, recipe.objective, recipe.seed);
  }
  start_ = measure(0);
}

Json ProbeLog::measure(std::int64_t step) const {
  if (bank_) return bank_->measure(step);
  engine::LocalEngine student(inputs_.student, inputs_.real_ids);
  return {{"step", step}, {"mass", masses_->mass(student)}};
}

void ProbeLog::after(std::int64_t step) {
  const std::int64_t every = recipe_.probe.every;
  if (every == 0 || (step % every != 0 && step != recipe_.train.steps)) return;
  const auto path = std::filesystem::path(recipe_.out) / "probe.jsonl";
  if (last_step(path) == step) return;
  const Json line = measure(step);
  std::ofstream file(path, std::ios::app);
  if (file.tellp() == 0) file << start_.dump() << '\n';
  file << line.dump() << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", path.string());
  const double before = start_["mass"], mass = line["mass"];
  note_ = fmt::format(", mass on fixed states {:.4f} ({:+.0f} %)", mass, 100 * (mass / before - 1));
}

}  // namespace routeopd::probe
