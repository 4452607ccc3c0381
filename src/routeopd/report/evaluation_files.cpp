// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/evaluation_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

std::optional<judge::Label> label_named(const std::string& name) {
  const auto found = std::find_if(judge::kAllLabels.begin(), judge::kAllLabels.end(),
                                  [&](judge::Label label) { return judge::name_of(label) == name; });
  if (found == judge::kAllLabels.end()) return std::nullopt;
  return *found;
}

std::vector<ResponseLabel> read_labels(TolerantDirectory& files) {
  std::vector<ResponseLabel> labels;
  std::int64_t number = 0;
  for (const Json& line : files.lines("labels.jsonl", "labels", TolerantDirectory::Absent::kIsFine)) {
    ++number;
    const std::optional<judge::Label> label = label_named(text_at(line, "label"));
    const std::optional<std::int64_t> sample = whole_at(line, "sample");
    if (!label || !sample || text_at(line, "problem").empty()) {
      files.say("labels.jsonl",
                fmt::format("label {} has no problem, sample or known label; no label is shown", number));
      return {};
    }
    labels.push_back({text_at(line, "suite"), text_at(line, "problem"), *sample, *label});
  }
  return labels;
}

// The longest line of a file: a reader that takes whole lines is asked only for lines of a sane length.
std::int64_t longest_line(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> block(1U << 16U);
  std::int64_t longest = 0, length = 0;
  while (stream.read(block.data(), std::ssize(block)) || stream.gcount() > 0) {
    for (std::streamsize i = 0; i < stream.gcount(); ++i) {
      length = block[static_cast<std::size_t>(i)] == '\n' ? 0 : length + 1;
      longest = std::max(longest, length);
    }
  }
  return longest;
}

void read_grades(TolerantDirectory& files, EvalFiles& eval) {
  if (eval.summary.is_null() || !files.readable("responses.jsonl", kMaxFileBytes)) return;
  if (longest_line(files.path("responses.jsonl")) > kMaxLineBytes) {
    files.say("responses.jsonl", "has a line that is too long; no response is shown");
    return;
  }
  try {
    eval.grades = grade::read_eval_directory(eval.directory);
  } catch (const std::exception& error) {
    // The message begins with the path of the file; the sentence names it as the others do.
    std::string what = error.what();
    const std::string prefix = eval.directory.string() + "/";
    std::string file = "responses.jsonl";
    if (what.starts_with(prefix)) {
      what.erase(0, prefix.size());
      const std::size_t end = what.find(':');
      if (end != std::string::npos) {
        file = what.substr(0, end);
        what.erase(0, end + 1);
      }
    }
    constexpr std::size_t kMost = 300;  // bytes
    files.say(file, fmt::format("{}; no response is shown",
                                table::visible(what.substr(what.find_first_not_of(' '), kMost))));
  }
}

JudgedRun& run_named(const std::string& name, JudgeFiles& judge) {
  const auto found = std::find_if(judge.runs.begin(), judge.runs.end(),
                                  [&](const JudgedRun& run) { return run.name == name; });
  if (found != judge.runs.end()) return *found;
  judge.runs.push_back({.name = name, .directory = {}, .labels = {}});
  return judge.runs.back();
}

}  // namespace

EvalFiles read_eval(const std::filesystem::path& directory, bool responses, std::string shown) {
  EvalFiles eval;
  eval.directory = directory;
  eval.shown = shown.empty() ? directory.string() : std::move(shown);
  TolerantDirectory files(directory, eval.shown, eval.missing);
  if (!files.is_there()) return eval;
  eval.summary = files.object("summary.json");
  if (!responses) return eval;
  read_grades(files, eval);
  eval.labels = read_labels(files);
  return eval;
}

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
    const std::string name = text_at(line, "run");
    const std::optional<judge::Label> label = label_named(text_at(line, "label"));
    const auto sample = whole_at(line, "sample");
    if (!label || !sample) {
      files.say(
          "labels.jsonl",
          fmt::format("label {} has no sample or no known label; what stands before it is shown", number));
      break;
    }
    if (judge.runs.size() >= kMaxEntries) break;
    run_named(name.empty() ? only : name, judge)
        .labels.push_back({text_at(line, "suite"), text_at(line, "problem"), *sample, *label});
  }
  return judge;
}

void use_judgements(const std::vector<JudgeFiles>& judges, EvalFiles& eval) {
  for (const JudgeFiles& judge : judges) {
    for (const JudgedRun& run : judge.runs) {
      std::error_code error;
      if (std::filesystem::equivalent(run.directory, eval.directory, error) && !error)
        eval.labels = run.labels;
    }
  }
}

}  // namespace routeopd::report
