// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/checker.h"

#include "routeopd/base/files.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::lab {

judge::Label label_of(const Task& task, std::string_view problem, const grade::EvalResponse& response) {
  if (const auto observed = judge::observed_label(response)) return *observed;
  return task.check_solution(problem, response.response);
}

void label_directory(const std::filesystem::path& directory, const Task& task,
                     const std::unordered_map<std::string, std::string>& problems) {
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
                      {"label", judge::name_of(label_of(task, problem->second, response))},
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
