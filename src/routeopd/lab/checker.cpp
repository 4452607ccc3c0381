// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/checker.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "routeopd/base/files.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/lab/words.h"

namespace routeopd::lab {
namespace {

using Sentence = std::vector<std::string_view>;

Sentence words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  Sentence words;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// Up to three digits: the task has no others, and a response may hold anything.
std::optional<std::int32_t> number_of(std::string_view word) {
  constexpr std::size_t kLongest = 3;
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  std::int32_t value = 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

bool says(std::string_view word, const Phrases& phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](const Phrase& one) { return one.words == word; });
}

// N of "… final answer is N".
std::optional<std::int32_t> answer_in(const Sentence& words) {
  if (words.size() < 4) return std::nullopt;
  const std::size_t at = words.size() - 4;
  if (words[at] != "final" || words[at + 1] != "answer" || words[at + 2] != "is") return std::nullopt;
  return number_of(words.back());
}

// N of "We start with N" and its like.
std::optional<std::int32_t> start_in(const Sentence& words, const std::string& name) {
  const auto opens = [&](const Phrase& opener) {
    const Sentence said = words_of(opener.words);
    if (words.size() != said.size() + 1) return false;
    return std::equal(said.begin(), said.end(), words.begin(), [&](std::string_view a, std::string_view b) {
      return b == (a == "NAME" ? std::string_view(name) : a);
    });
  };
  if (!std::any_of(kOpeners.begin(), kOpeners.end(), opens)) return std::nullopt;
  return number_of(words.back());
}

struct Step {
  std::int32_t left = 0;
  bool gains = false;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

// "Next 12 plus 5 makes 17".
std::optional<Step> step_in(const Sentence& words) {
  if (words.size() != 6 || !says(words[0], kConnectives) || !says(words[4], kResults)) return std::nullopt;
  const bool gains = says(words[2], kPlus);
  const auto left = number_of(words[1]), right = number_of(words[3]), result = number_of(words[5]);
  if ((!gains && !says(words[2], kMinus)) || !left || !right || !result) return std::nullopt;
  return Step{*left, gains, *right, *result};
}

}  // namespace

judge::Label check_solution(const Problem& problem, std::string_view response) {
  using judge::Label;
  std::int32_t value = problem.start;
  std::size_t done = 0;
  bool begun = false;  // something of a solution is there, and right
  for (std::size_t at = 0; at < response.size();) {
    const std::size_t end = std::min(response.find('.', at), response.size());
    const Sentence words = words_of(response.substr(at, end - at));
    at = end + 1;
    if (words.empty()) continue;
    if (const auto answer = answer_in(words)) {
      const bool stopped = begun && done < problem.moves.size() && *answer == value;
      return stopped ? Label::kPrematureStop : Label::kReasoning;
    }
    if (const auto start = start_in(words, problem.name)) {
      if (begun || *start != problem.start) return Label::kReasoning;
      begun = true;
      continue;
    }
    const auto step = step_in(words);
    if (!step || done == problem.moves.size()) return Label::kReasoning;
    const std::int32_t move = problem.moves[done];
    if (step->left != value || step->gains != (move > 0) || step->right != std::abs(move))
      return Label::kReasoning;
    value += move;
    if (step->result != value) return Label::kArithmetic;
    ++done;
    begun = true;
  }
  return Label::kReasoning;
}

judge::Label label_of(const Problem& problem, const grade::EvalResponse& response) {
  if (const auto observed = judge::observed_label(response)) return *observed;
  return check_solution(problem, response.response);
}

void label_directory(const std::filesystem::path& directory,
                     const std::unordered_map<std::string, Problem>& problems) {
  formats::JsonLines lines((directory / "responses.jsonl").string());
  AtomicFile labels(directory / "labels.jsonl");
  while (const auto line = lines.next()) {
    const grade::EvalResponse response = grade::response_of(*line, lines.where());
    const auto problem = problems.find(response.problem);
    if (problem == problems.end())
      throw UserError("{}: problem {} is none of the laboratory's", lines.where(), response.problem);
    labels.write(Json{{"suite", response.suite},
                      {"problem", response.problem},
                      {"sample", response.sample},
                      {"label", judge::name_of(label_of(problem->second, response))},
                      {"pass1", nullptr},
                      {"pass2", nullptr},
                      {"adjudicated", false},
                      {"clipped", response.clipped}}
                     .dump() +
                 "\n");
  }
  labels.commit();
}

}  // namespace routeopd::lab
