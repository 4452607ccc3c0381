// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/cases.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "routeopd/base/hashes.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/grade/compare.h"

namespace routeopd::judge {
namespace {

struct Problem {
  std::string text;
  std::string answer;
};
using Problems = std::unordered_map<std::string, Problem>;  // by id

// What was asked, as a person reads it: the words of the user's messages where the problem is a chat.
std::string problem_text(const Json& line, const std::string& where) {
  for (const char* name : {"problem", "prompt"}) {
    const Json& value = formats::value_or_null(line, name);
    if (value.is_string()) return value.get<std::string>();
  }
  std::string text;
  const Json& messages = formats::value_or_null(line, "messages");
  if (messages.is_array()) {
    for (const Json& message : messages) {
      if (!message.is_object() || formats::value_or_null(message, "role") != "user") continue;
      const Json& content = formats::value_or_null(message, "content");
      if (content.is_string()) text += (text.empty() ? "" : "\n\n") + content.get<std::string>();
    }
  }
  if (text.empty())
    throw UserError("{}: expected problem, prompt or messages with words for the judge", where);
  return text;
}

Problems read_problems(const std::string& path) {
  formats::JsonLines lines(path);
  Problems problems;
  std::int64_t number = 0;  // the id of a problem without one
  while (const auto line = lines.next()) {
    const std::string id = formats::naming(lines.where(), [&] { return formats::id_of(*line, number); });
    if (!line->contains("answer")) throw UserError("{}: answer is missing", lines.where());
    problems[id] = {problem_text(*line, lines.where()), shown((*line)["answer"])};
    ++number;
  }
  return problems;
}

// The file of a suite, whose contents are those that the runs were evaluated on.
std::string file_of(const std::string& suite, const std::vector<grade::EvalRun>& runs,
                    const std::map<std::string, std::string>& suite_files) {
  std::string path;
  if (const auto given = suite_files.find(suite); given != suite_files.end()) path = given->second;
  for (const grade::EvalRun& run : runs) {
    const Json& file = formats::value_or_null(run.summary.at("suites").at(suite), "file");
    if (path.empty() && file.is_string()) path = file.get<std::string>();
  }
  if (path.empty())
    throw UserError("suite {}: {} does not tell where its problems are; add --suite {}=FILE", suite,
                    runs.front().directory, suite);
  if (!std::filesystem::is_regular_file(path))
    throw UserError("suite {}: {} cannot be read; add --suite {}=FILE", suite, path, suite);
  const std::string expected = shown(runs.front().summary.at("suites").at(suite).at("sha256"));
  const std::string found = sha256_of_file(path);
  if (found != expected)
    throw UserError("suite {}: {} has sha256 {}, expected {}, on which {} was evaluated; add --suite {}=FILE",
                    suite, path, found, expected, runs.front().directory, suite);
  return path;
}

std::vector<std::string> names_of(const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const std::string& directory : directories)
    names.push_back(
        (std::filesystem::path(directory) / "").lexically_normal().parent_path().filename().string());
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const bool unique = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  return unique && sorted.front() != "" ? names : directories;
}

std::string key_of(const JudgeCase& asked) {
  return sha256(Json({asked.problem, asked.reference, asked.response, asked.extracted})
                    .dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Refuses suites that were not evaluated.
void check_suites(const std::set<std::string>& named, const grade::EvalRun& run) {
  std::vector<std::string> there;
  for (const grade::EvalSuite& suite : run.suites) there.push_back(suite.name);
  for (const std::string& name : named) {
    if (std::find(there.begin(), there.end(), name) == there.end())
      throw UserError("--suite {}: no such suite was evaluated; there are {}", name, fmt::join(there, ", "));
  }
}

}  // namespace

JudgeInput read_judge_input(const std::vector<std::string>& directories,
                            const std::map<std::string, std::string>& suite_files,
                            const std::set<std::string>& only) {
  std::vector<grade::EvalRun> runs;
  for (const std::string& directory : directories) {
    for (const grade::EvalRun& other : runs) {
      std::error_code missing;  // reading the directory reports it better
      if (std::filesystem::equivalent(other.directory, directory, missing))
        throw UserError("{} and {} are the same directory", other.directory, directory);
    }
    runs.push_back(grade::read_eval_directory(directory));
    grade::check_protocol(runs.front(), runs.back());
  }
  std::set<std::string> named = only;
  for (const auto& given : suite_files) named.insert(given.first);
  check_suites(named, runs.front());
  std::map<std::string, Problems> suites;
  for (const grade::EvalSuite& suite : runs.front().suites) {
    if (only.empty() || only.contains(suite.name))
      suites[suite.name] = read_problems(file_of(suite.name, runs, suite_files));
  }

  JudgeInput input;
  std::unordered_map<std::string, std::size_t> number_of;
  const std::vector<std::string> names = names_of(directories);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    LabelledRun& run = input.runs.emplace_back(LabelledRun{names[r], directories[r], {}, {}});
    formats::JsonLines lines((std::filesystem::path(directories[r]) / "responses.jsonl").string());
    while (const auto line = lines.next()) {
      grade::EvalResponse read = grade::response_of(*line, lines.where());
      if (!only.empty() && !only.contains(read.suite)) continue;
      grade::EvalResponse& response = run.responses.emplace_back(std::move(read));
      std::optional<std::size_t>& number = run.case_of.emplace_back();
      JudgeCase asked{{}, {}, std::move(response.response), response.extracted};
      response.response.clear();
      if (observed_label(response)) continue;
      const Problems& problems = suites.at(response.suite);
      const auto problem = problems.find(response.problem);
      if (problem == problems.end())
        throw UserError("{}: problem {} is not in the file of suite {}", lines.where(), response.problem,
                        response.suite);
      asked.problem = problem->second.text;
      asked.reference = problem->second.answer;
      const auto [found, fresh] = number_of.try_emplace(key_of(asked), input.cases.size());
      if (fresh) input.cases.push_back(std::move(asked));
      number = found->second;
    }
  }
  return input;
}

}  // namespace routeopd::judge
