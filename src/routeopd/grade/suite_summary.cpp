// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/suite_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "routeopd/grade/answer.h"

namespace routeopd::grade {
namespace {

// One suite's responses, problem by problem, sample by sample.
struct Table {
  Correctness correctness;
  std::vector<const EvalResponse*> responses_PS;
};

Table table_of(std::span<const EvalResponse> responses) {
  if (responses.empty()) throw UserError("a suite without responses has no summary");
  const std::string& suite = responses.front().suite;
  ResponseGrid grid;
  std::vector<std::int64_t> rows;
  std::int64_t samples = 0;
  for (const EvalResponse& response : responses) {
    if (response.suite != suite) {
      throw UserError("suite {}: has a response of suite {}, expected one suite", suite, response.suite);
    }
    if (response.sample < 0 || response.tokens < 0) {
      throw UserError("suite {}: problem {}: sample {} of {} tokens, expected whole numbers from 0", suite,
                      response.problem, response.sample, response.tokens);
    }
    samples = std::max(samples, response.sample + 1);
    rows.push_back(grid.add(response.problem, response.sample, response.correct));
  }
  Table table{grid.correctness(samples, "suite " + suite), {}};
  table.responses_PS.resize(responses.size());
  for (std::size_t i = 0; i < responses.size(); ++i) {
    table.responses_PS[static_cast<std::size_t>(rows[i] * samples + responses[i].sample)] = &responses[i];
  }
  return table;
}

// Whether the vote of samples 0 … k-1 of one problem is right, for k = 1 … S. A sample votes for the first
// candidate that its answer is interchangeable with.
std::vector<bool> votes(std::span<const EvalResponse* const> responses_S) {
  struct Candidate {
    Answer answer;
    bool right;
    std::int64_t votes;
  };
  std::vector<Candidate> candidates;                    // by the sample that named each first
  std::unordered_map<std::string, std::size_t> by_key;  // which candidate; equal keys need no comparison
  std::vector<bool> won_S;
  for (const EvalResponse* response : responses_S) {
    if (response->format_ok) {
      Answer answer(response->extracted);
      const auto [known, is_new] = by_key.try_emplace(answer.key(), candidates.size());
      if (is_new) {
        const auto same = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
          return interchangeable(candidate.answer, answer);
        });
        known->second = static_cast<std::size_t>(same - candidates.begin());
        if (same == candidates.end()) candidates.push_back({std::move(answer), response->correct, 0});
      }
      ++candidates[known->second].votes;
    }
    const auto most = std::max_element(
        candidates.begin(), candidates.end(),
        [](const Candidate& left, const Candidate& other) { return left.votes < other.votes; });
    won_S.push_back(most != candidates.end() && most->right);
  }
  return won_S;
}

// The share of problems whose vote over the first k samples is right, at each k - 1.
std::vector<double> vote_shares(const Table& table) {
  const auto samples = static_cast<std::size_t>(table.correctness.samples);
  const std::span<const EvalResponse* const> all(table.responses_PS);
  std::vector<double> won_S(samples);
  for (std::size_t first = 0; first < all.size(); first += samples) {
    const std::vector<bool> won = votes(all.subspan(first, samples));
    for (std::size_t s = 0; s < samples; ++s) won_S[s] += won[s] ? 1 : 0;
  }
  for (double& share : won_S) share /= static_cast<double>(table.correctness.problems);
  return won_S;
}

Json lengths_of(std::span<const EvalResponse> responses) {
  std::vector<double> tokens;
  for (const EvalResponse& response : responses) tokens.push_back(static_cast<double>(response.tokens));
  std::sort(tokens.begin(), tokens.end());
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  return {{"mean", sum / static_cast<double>(tokens.size())},
          {"p10", quantile(tokens, 0.1)},
          {"p25", quantile(tokens, 0.25)},
          {"p50", quantile(tokens, 0.5)},
          {"p75", quantile(tokens, 0.75)},
          {"p90", quantile(tokens, 0.9)},
          {"max", tokens.back()}};
}

double share_of(std::span<const EvalResponse> responses, bool EvalResponse::* flag) {
  const auto count = std::count_if(responses.begin(), responses.end(),
                                   [flag](const EvalResponse& response) { return response.*flag; });
  return static_cast<double>(count) / static_cast<double>(responses.size());
}

// pass@k and maj@k for k = 1, 2, 4, … and S. `voted`: the share of right votes at each k - 1.
Json at_k(const Correctness& suite, const std::vector<double>& voted) {
  Json pass = Json::object(), majority = Json::object();
  for (std::int64_t k = 1;; k = std::min(2 * k, suite.samples)) {
    pass[std::to_string(k)] = pass_at_k(suite, k);
    majority[std::to_string(k)] = voted[static_cast<std::size_t>(k - 1)];
    if (k == suite.samples) return {{"pass@k", pass}, {"maj@k", majority}};
  }
}

// The same object with every number replaced by its mean over all objects.
Json mean_of(const std::vector<Json>& objects) {
  Json mean = objects.front();
  for (const auto& item : mean.items()) {
    std::vector<Json> values;
    for (const Json& object : objects) values.push_back(object.at(item.key()));
    if (item.value().is_object()) {
      item.value() = mean_of(values);
    } else {
      double sum = 0;
      for (const Json& value : values) sum += value.get<double>();
      item.value() = sum / static_cast<double>(values.size());
    }
  }
  return mean;
}

}  // namespace

Json suite_summary(std::span<const EvalResponse> responses, const Bootstrap& bootstrap) {
  const Table table = table_of(responses);
  const Correctness& suite = table.correctness;
  const Interval interval = average_interval({&suite, 1}, bootstrap);
  Json summary = {{"n", suite.problems},
                  {"samples", suite.samples},
                  {"avg", interval.mean},
                  {"avg_interval", {interval.low, interval.high}},
                  {"length", lengths_of(responses)},
                  {"clip_rate", share_of(responses, &EvalResponse::clipped)},
                  {"format_rate", share_of(responses, &EvalResponse::format_ok)}};
  summary.update(at_k(suite, vote_shares(table)));
  return summary;
}

std::vector<Json> problem_summaries(std::span<const EvalResponse> responses) {
  const Table table = table_of(responses);
  const auto samples = static_cast<std::size_t>(table.correctness.samples);
  std::vector<Json> problems;
  for (std::size_t first = 0; first < responses.size(); first += samples) {
    std::vector<EvalResponse> own;
    for (std::size_t s = 0; s < samples; ++s) own.push_back(*table.responses_PS[first + s]);
    const Table alone = table_of(own);
    const double share = average(alone.correctness);
    Json& problem = problems.emplace_back(Json{{"suite", own.front().suite},
                                               {"problem", own.front().problem},
                                               {"samples", samples},
                                               {"right", std::llround(share * static_cast<double>(samples))},
                                               {"avg", share},
                                               {"tokens", lengths_of(own)["mean"]},
                                               {"clip_rate", share_of(own, &EvalResponse::clipped)},
                                               {"format_rate", share_of(own, &EvalResponse::format_ok)}});
    problem.update(at_k(alone.correctness, vote_shares(alone)));
  }
  return problems;
}

Json average_summary(std::span<const std::vector<EvalResponse>> responses, std::vector<Json> summaries,
                     const Bootstrap& bootstrap) {
  std::vector<Correctness> suites;
  for (const auto& suite : responses) suites.push_back(table_of(suite).correctness);
  const Interval interval = average_interval(suites, bootstrap);
  for (Json& summary : summaries)
    for (const char* name : {"n", "samples", "avg", "avg_interval"}) summary.erase(name);
  Json average = mean_of(summaries);
  average["avg"] = interval.mean;
  average["avg_interval"] = {interval.low, interval.high};
  return average;
}

}  // namespace routeopd::grade
