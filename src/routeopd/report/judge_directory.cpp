//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/judge_directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "routeopd/report/tolerant_files.h"

namespace routeopd::report {
namespace {

JudgedRun& run_named(const std::string& name, JudgeFiles& judge) {
  const auto found = std::find_if(judge.runs.begin(), judge.runs.end(),
                                  [&](const JudgedRun& run) { return run.name == name; });
  if (found != judge.runs.end()) return *found;
  judge.runs.push_back({.name = name, .directory = {}, .labels = {}});
  return judge.runs.back();
}

}  // namespace

JudgeFiles read_judge(const std::filesystem::path& directory) {
  JudgeFiles judge;
  judge.shown = directory.string();
  TolerantDirectory files(directory, judge.shown, judge.missing);
  judge.summary = files.object("summary.json");
  const auto directories =
      judge.summary.is_object() ? judge.summary.find("directories") : judge.summary.end();
  if (judge.summary.is_object() && directories != judge.summary.end() && directories->is_object()) {
    for (auto run = directories->begin(); run != directories->end() && judge.runs.size() < kMaxEntries; ++run)
      run_named(run.key(), judge).directory = text_at(*directories, run.key().c_str());
  }
  // The lines name their run where there are several.
  const std::string only = judge.runs.size() == 1 ? judge.runs.front().name : judge.shown;
  std::int64_t number = 0;
  for (const Json& line : files.lines("labels.jsonl", "labels")) {
    ++number;
    const std::string label = text_at(line, "label"), name = text_at(line, "run");
    const auto* const known = std::find_if(judge::kAllLabels.begin(), judge::kAllLabels.end(),
                                           [&](judge::Label each) { return judge::name_of(each) == label; });
    const auto sample = whole_at(line, "sample");
    if (known == judge::kAllLabels.end() || !sample) {
      files.say(
          "labels.jsonl",
          fmt::format("label {} has no sample or no known label; what stands before it is shown", number));
      break;
    }
    if (judge.runs.size() >= kMaxEntries) break;
    run_named(name.empty() ? only : name, judge)
        .labels.push_back({text_at(line, "suite"), text_at(line, "problem"), *sample, *known});
  }
  return judge;
}

}  // namespace routeopd::report
