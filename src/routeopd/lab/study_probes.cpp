//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/study_probes.h"

#include <algorithm>
#include <span>

#include "routeopd/formats/weight_files.h"
#include "routeopd/probe/run_probe.h"

namespace routeopd::lab {
namespace {

namespace fs = std::filesystem;
using probe::Intervention;

// Prompts whose answers the states are chosen from: responses of the laboratory have some 25 states.
constexpr std::size_t kBankPrompts = 128;
constexpr const char* kBank = "bank.safetensors";

std::vector<probe::ProbeArm> arms_of(const StudyOptions& options, const std::vector<Family>& families,
                                     const std::vector<std::string>& beside) {
  std::vector<probe::ProbeArm> arms;
  for (const Variant& variant : all_variants(options)) {
    if (std::find(families.begin(), families.end(), variant.family) != families.end() ||
        std::find(beside.begin(), beside.end(), variant.name) != beside.end())
      arms.push_back({variant.name, objective_of(variant, options)});
  }
  return arms;
}

class Probes {
 public:
  Probes(StudyFiles& files, const LoadedPair& pair, const ProbesWatch& watch)
      : files_(files), pair_(pair), watch_(watch) {}

  void run(const std::string& name, const fs::path& student, const fs::path& moments, const std::string& at,
           const std::vector<probe::ProbeArm>& arms, const std::vector<Intervention>& interventions) {
    const std::string path = "probes/" + name;
    if (!fs::exists(files_.path() / path / "probe.json")) {
      fs::create_directories(files_.path() / "probes");
      probe::run_probe({.bank = files_.path() / kBank,
                        .student = student,
                        .teacher = files_.pair().teacher,
                        .moments = moments,
                        .arms = arms,
                        .interventions = interventions,
                        .optimizer = pair_.recipe().optimizer,
                        .out = files_.path() / path,
                        .dump = {}},
                       [&](std::int64_t done, std::int64_t total, const std::string& what) {
                         if (watch_) watch_(fmt::format("{}: {}", name, what), done, total);
                       });
    }
    files_.put_probe(name, path, at);
  }

 private:
  StudyFiles& files_;
  const LoadedPair& pair_;
  const ProbesWatch& watch_;
};

}  // namespace

void make_bank(StudyFiles& files, const LoadedPair& pair) {
  if (files.has("bank")) return;
  const StudyOptions& options = files.options();
  const std::vector<Prompt>& prompts = pair.suites().empty() ? pair.prompts() : pair.suites().front().prompts;
  probe::BankOptions wanted;
  wanted.states = options.states;
  wanted.max_new_tokens = options.max_new;
  wanted.seed = options.main_seeds.front();
  wanted.objective = routing::objective_from({{"k", options.k}, {"m", options.m}});
  probe::Bank bank =
      probe::make_bank(pair.base(), pair.teacher(), pair.tokenizer().real_ids(),
                       std::span(prompts).first(std::min(prompts.size(), kBankPrompts)), wanted);
  bank.student = {files.pair().student, formats::weights_sha256(files.pair().student)};
  bank.teacher = {files.pair().teacher, formats::weights_sha256(files.pair().teacher)};
  probe::write_bank(bank, files.path() / kBank);
  files.put("bank", kBank);
}

void run_probes(StudyFiles& files, const LoadedPair& pair, const fs::path& checkpoint,
                const ProbesWatch& watch) {
  const StudyOptions& options = files.options();
  const fs::path base = files.pair().student;
  const std::vector<Intervention> all(probe::kInterventions.begin(), probe::kInterventions.end());
  Probes probes(files, pair, watch);
  probes.run("arms", base, {}, "base",
             arms_of(options, {Family::kMain, Family::kDestination, Family::kObjective, Family::kBudget}, {}),
             {Intervention::kFreshAdamW});
  probes.run("support", base, {}, "base",
             arms_of(options, {Family::kSupport, Family::kPairs}, {"routeopd", "exact"}),
             {Intervention::kFreshAdamW});
  probes.run("ladder", checkpoint, checkpoint,
             fmt::format("{} {}", checkpoint.parent_path().parent_path().filename().string(),
                         checkpoint.filename().string()),
             arms_of(options, {}, {"routeopd"}), all);
}

}  // namespace routeopd::lab
