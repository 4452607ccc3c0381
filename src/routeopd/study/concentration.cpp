// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/concentration.h"

#include <algorithm>
#include <span>

#include "routeopd/base/files.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/study/variants.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::study {
namespace {

constexpr std::int32_t kResponses = 4;
constexpr std::size_t kProblemsAtOnce = 32;  // bounds the states held

}  // namespace

void ConcentrationSums::add(const Routes& routes, std::size_t n) {
  if (routes.validity_N[n] != Validity::kValid) return;
  const auto m = static_cast<double>(routes.mass_N[n]);
  ++states;
  mass += m;
  if (routes.routed_N[n] == 0) return;
  ++routed;
  routed_mass += m;
  weighted += m * static_cast<double>(routes.concentration_N[n]);
  budget += static_cast<double>(routes.budget_N[n]);
}

Json ConcentrationSums::json(const std::string& suite, const std::string& problem) const {
  const auto mean = [](double sum, double count) { return count > 0 ? Json(sum / count) : Json(); };
  return {{"suite", suite},
          {"problem", problem},
          {"states", states},
          {"mass", mean(mass, static_cast<double>(states))},
          {"concentration", mean(weighted, routed_mass)},
          {"budget", mean(budget, static_cast<double>(routed))}};
}

void write_concentration(const std::filesystem::path& path, const LoadedPair& pair,
                         const StudyOptions& options,
                         const std::function<void(std::int64_t, std::int64_t)>& watch) {
  const std::int32_t ids = pair.tokenizer().real_ids();
  engine::LocalEngine student(pair.base(), ids), teacher(pair.teacher(), ids);
  const routing::ObjectiveOptions objective =
      objective_of({"routeopd", Family::kMain, {{"arm", "routeopd"}}}, options);
  const std::uint64_t seed = options.main_seeds.front();
  const train::Heads heads{
      .student_VH = pair.base().head_VH, .teacher_UX = pair.teacher().head_VH, .real_ids = ids};
  const engine::Sampling sampling{
      .n = kResponses, .decoding = {}, .max_new_tokens = options.max_new, .seed = seed};
  std::int64_t done = 0, total = 0;
  for (const eval::Suite& suite : pair.suites()) total += std::ssize(suite.prompts);
  AtomicFile file(path);
  for (const eval::Suite& suite : pair.suites()) {
    for (std::size_t first = 0; first < suite.prompts.size(); first += kProblemsAtOnce) {
      const auto prompts =
          std::span(suite.prompts).subspan(first, std::min(kProblemsAtOnce, suite.prompts.size() - first));
      Rollout rollout = student.generate(prompts, sampling, train::capture_options(objective));
      const Scores scores = engine::score_rollout(
          student, teacher, rollout, train::score_options(objective, rollout, /*rescore=*/false, seed, ids));
      const Routes routes = train::route_rollout(rollout, scores, objective, seed, heads);
      std::vector<ConcentrationSums> sums(prompts.size());
      for (const Response& response : rollout.responses_B) {
        for (std::int64_t j = 0; j < response.length; ++j)
          sums[static_cast<std::size_t>(response.prompt)].add(
              routes, static_cast<std::size_t>(response.first_state + j));
      }
      for (std::size_t p = 0; p < prompts.size(); ++p)
        file.write(
            sums[p].json(suite.name, prompts[p].id).dump(-1, ' ', false, Json::error_handler_t::replace) +
            "\n");
      done += std::ssize(prompts);
      if (watch) watch(done, total);
    }
  }
  file.commit();
}

}  // namespace routeopd::study
