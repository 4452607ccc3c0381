//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study_probes.h"

#include <algorithm>
#include <fstream>
#include <span>

#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::lab {
namespace {

constexpr std::size_t kBankPrompts = 32;

std::int64_t last_step(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return -1;
  std::int64_t step = -1;
  formats::JsonLines lines(path.string());
  while (const auto line = lines.next()) step = line->value("step", std::int64_t{-1});
  return step;
}

}  // namespace

StudyBank::StudyBank(const LoadedPair& pair, const StudyOptions& options) : pair_(pair) {
  // Held-out problems where there are some: the states are then none that a run trains on.
  const std::vector<Prompt>& prompts = pair.suites().empty() ? pair.prompts() : pair.suites().front().prompts;
  const std::int32_t ids = pair.tokenizer().real_ids();
  engine::LocalEngine base(pair.base(), ids), teacher(pair.teacher(), ids);
  routing::ObjectiveOptions objective;
  objective.k = options.k;
  bank_ = std::make_unique<probe::MismatchBank>(
      base, teacher, std::span(prompts).first(std::min(prompts.size(), kBankPrompts)), options.states,
      options.max_new, objective, options.main_seeds.front());
  base_mass_ = bank_->mass(base);
}

double StudyBank::mass_of(const model::Model& student) const {
  engine::LocalEngine engine(student, pair_.tokenizer().real_ids());
  return bank_->mass(engine);
}

RunProbe::RunProbe(const StudyBank& bank, std::filesystem::path run, const model::Model& student)
    : bank_(bank), file_(std::move(run) / "probe.jsonl"), student_(student) {}

void RunProbe::after(std::int64_t step) {
  const std::int64_t last = last_step(file_);
  if (last == step) return;
  std::ofstream file(file_, std::ios::app);
  if (last < 0) file << Json{{"step", 0}, {"mass", bank_.base_mass()}}.dump() << '\n';
  file << Json{{"step", step}, {"mass", bank_.mass_of(student_)}}.dump() << '\n' << std::flush;
  if (!file) throw UserError("{}: cannot be written; is the disk full?", file_.string());
}

bool make_bank(StudyFiles&, const LoadedPair&) {
  return false;
}

bool run_probes(StudyFiles&, const LoadedPair&, const std::filesystem::path&) {
  return false;
}

}  // namespace routeopd::lab
