// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/tally.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "routeopd/grade/statistics.h"

namespace routeopd::judge {
namespace {

using Judgements = std::vector<Judgement>;
using Place = std::tuple<std::string, std::string, std::int64_t>;

bool in_scope(const grade::EvalResponse& response, const std::string& suite) {
  return suite.empty() || response.suite == suite;
}

RunTally run_tally(const LabelledRun& run, const Judgements& judgements, const std::string& suite) {
  RunTally tally;
  std::vector<double> tokens;
  std::int64_t clipped = 0;
  std::int64_t readable = 0;
  for (std::size_t i = 0; i < run.responses.size(); ++i) {
    const grade::EvalResponse& response = run.responses[i];
    if (!in_scope(response, suite)) continue;
    ++tally.counts[index_of(judgements[i].label)];
    ++tally.total;
    tokens.push_back(static_cast<double>(response.tokens));
    clipped += response.clipped ? 1 : 0;
    readable += response.format_ok ? 1 : 0;
  }
  const auto total = static_cast<double>(tally.total);
  std::sort(tokens.begin(), tokens.end());
  tally.mean = std::accumulate(tokens.begin(), tokens.end(), 0.0) / total;
  tally.p25 = grade::quantile(tokens, 0.25);
  tally.p50 = grade::quantile(tokens, 0.5);
  tally.p75 = grade::quantile(tokens, 0.75);
  tally.p90 = grade::quantile(tokens, 0.9);
  tally.clipped = static_cast<double>(clipped) / total;
  tally.format_valid = static_cast<double>(readable) / total;
  return tally;
}

std::map<Place, Label> labels_by_place(const LabelledRun& run, const Judgements& judgements,
                                       const std::string& suite) {
  std::map<Place, Label> labels;
  for (std::size_t i = 0; i < run.responses.size(); ++i) {
    const grade::EvalResponse& response = run.responses[i];
    if (in_scope(response, suite))
      labels[{response.suite, response.problem, response.sample}] = judgements[i].label;
  }
  return labels;
}

ScopeTally scope_tally(const JudgeInput& input, const std::vector<Judgements>& judgements,
                       const std::string& suite) {
  ScopeTally scope{.suite = suite, .runs = {}, .transitions = {}};
  const auto first = labels_by_place(input.runs[0], judgements[0], suite);
  for (std::size_t r = 0; r < input.runs.size(); ++r) {
    scope.runs.push_back(run_tally(input.runs[r], judgements[r], suite));
    if (r == 0) continue;
    TransitionTally& transitions = scope.transitions.emplace_back();
    transitions.to_run = r;
    const auto other = labels_by_place(input.runs[r], judgements[r], suite);
    for (const auto& [place, from] : first) {
      const auto pair = other.find(place);
      if (pair == other.end())
        throw UserError("{} and {} cannot be compared: problem {} of suite {} is in the first alone",
                        input.runs[0].directory, input.runs[r].directory, std::get<1>(place),
                        std::get<0>(place));
      const Label to = pair->second;
      if (from == to) continue;
      if (to == Label::kCorrect) ++transitions.into_correct[index_of(from)];
      if (from == Label::kCorrect) ++transitions.out_of_correct[index_of(to)];
    }
  }
  return scope;
}

}  // namespace

Agreement agreement_of(const Confusion& counts) {
  PerLabel<std::int64_t> rows{};
  PerLabel<std::int64_t> columns{};
  std::int64_t n = 0;
  std::int64_t equal = 0;
  for (std::size_t a = 0; a < kLabels; ++a) {
    for (std::size_t b = 0; b < kLabels; ++b) {
      rows[a] += counts[a][b];
      columns[b] += counts[a][b];
      n += counts[a][b];
    }
    equal += counts[a][a];
  }
  Agreement result{.n = n, .share = {}, .kappa = {}};
  if (n == 0) return result;
  const auto total = static_cast<double>(n);
  const double observed = static_cast<double>(equal) / total;
  result.share = observed;
  double expected = 0;
  for (std::size_t a = 0; a < kLabels; ++a) {
    if (rows[a] == n && columns[a] == n) return result;
    expected += static_cast<double>(rows[a]) / total * (static_cast<double>(columns[a]) / total);
  }
  result.kappa = (observed - expected) / (1 - expected);
  return result;
}

JudgeTally tally_of(const JudgeInput& input, const std::vector<Judgements>& judgements) {
  JudgeTally tally;
  std::set<std::string> suites;
  Confusion all{};
  Confusion judged{};
  for (std::size_t r = 0; r < input.runs.size(); ++r) {
    for (std::size_t i = 0; i < judgements[r].size(); ++i) {
      suites.insert(input.runs[r].responses[i].suite);
      const Judgement& judgement = judgements[r][i];
      tally.adjudicated += judgement.adjudicated ? 1 : 0;
      tally.unjudged += judgement.label == Label::kUnjudged ? 1 : 0;
      tally.unanswered += judgement.label == Label::kUnjudged && !judgement.answered ? 1 : 0;
      if (!input.runs[r].case_of[i]) {
        ++all[index_of(judgement.label)][index_of(judgement.label)];
      } else if (judgement.pass1 && judgement.pass2) {
        ++all[index_of(*judgement.pass1)][index_of(*judgement.pass2)];
        ++judged[index_of(*judgement.pass1)][index_of(*judgement.pass2)];
      }
    }
  }
  tally.all = agreement_of(all);
  tally.judged = agreement_of(judged);
  for (const std::string& suite : suites) tally.scopes.push_back(scope_tally(input, judgements, suite));
  if (suites.size() > 1) tally.scopes.push_back(scope_tally(input, judgements, ""));
  return tally;
}

}  // namespace routeopd::judge
