// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/directory_facts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/cells.h"

namespace routeopd::report {
namespace {

constexpr std::int64_t kMostFiles = 100'000;  // that are searched for the newest date
constexpr std::size_t kFactWidth = 72;        // characters of a value before it is broken

std::string whole_cell(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : table::kDash;
}

}  // namespace

std::string newest_date(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::file_time_type newest = fs::file_time_type::min();
  std::int64_t seen = 0;
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && seen < kMostFiles;
       at.increment(error), ++seen) {
    const fs::path name = at->path().filename();
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      if (name == "tables" || name == "figures") at.disable_recursion_pending();
      continue;
    }
    if (name.extension() == ".html") continue;
    const fs::file_time_type time = at->last_write_time(unknown);
    if (!unknown) newest = std::max(newest, time);
  }
  if (newest == fs::file_time_type::min()) return "unknown";
  const auto system = std::chrono::file_clock::to_sys(newest);
  return fmt::format("{:%Y-%m-%d %H:%M} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(
                         std::chrono::time_point_cast<std::chrono::system_clock::duration>(system))));
}

const Json& at_or_null(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

std::string text_in(const Json& object, const char* section, const char* key) {
  return text_at(at_or_null(object, section), key);
}

std::string compact(const Json& value) {
  const auto plain = [](const Json& each) {
    return each.is_string() ? each.get<std::string>()
                            : each.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (!value.is_object()) return value.is_null() ? "" : plain(value);
  std::string words;
  for (auto each = value.begin(); each != value.end(); ++each)
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", each.key(), plain(each.value()));
  return words;
}

std::vector<Fact> facts_of(const RunFiles& run) {
  const std::int64_t done = run.metrics.empty() ? 0 : run.metrics.back().step;
  return {{"kind", "run"},
          {"student", text_in(run.recipe, "student", "path")},
          {"teacher", text_in(run.recipe, "teacher", "path")},
          {"objective", fmt::format("{}, k = {}, m = {}", run.arm.empty() ? "unknown arm" : run.arm,
                                    run.k.empty() ? table::kDash : run.k, whole_cell(run.m))},
          {"seed", whole_cell(run.seed)},
          {"steps", fmt::format("{} of {}", done, whole_cell(run.steps))},
          {"newest file", newest_date(run.directory.string())}};
}

std::vector<Fact> facts_of(const EvalFiles& eval) {
  return {{"kind", "evaluation"},
          {"model", text_in(eval.summary, "model", "path")},
          {"decoding", compact(at_or_null(eval.summary, "decoding"))},
          {"newest file", newest_date(eval.directory.string())}};
}

std::vector<Fact> facts_of(const ProbeFiles& probe) {
  return {{"kind", "probe"},
          {"student", text_in(probe.probe, "student", "path")},
          {"teacher", text_in(probe.probe, "teacher", "path")},
          {"bank", compact(at_or_null(probe.probe, "bank"))},
          {"newest file", newest_date(probe.directory.string())}};
}

std::vector<Fact> facts_of(const JudgeFiles& judge, const std::string& directory) {
  std::string runs;
  for (const JudgedRun& run : judge.runs)
    runs += fmt::format("{}{}", runs.empty() ? "" : ", ", run.directory);
  return {{"kind", "judgement"},
          {"judge", text_in(judge.summary, "judge", "model")},
          {"labelled", runs},
          {"newest file", newest_date(directory)}};
}

Section facts_section(const std::vector<std::pair<std::string, std::vector<Fact>>>& by_directory) {
  table::TextTable table(
      {{"directory", table::Align::kLeft}, {"what", table::Align::kLeft}, {"", table::Align::kLeft}});
  std::string last;
  const auto add = [&](const std::string& directory, const std::string& what, const std::string& value) {
    table.add({directory == last ? "" : directory, what, value});
    last = directory;
  };
  for (const auto& [directory, facts] : by_directory) {
    for (const Fact& fact : facts) {
      std::string what = fact.what, value = fact.value;
      for (std::size_t end = 0;
           value.size() > kFactWidth && (end = value.rfind(", ", kFactWidth)) != std::string::npos;) {
        add(directory, what, value.substr(0, end + 1));
        value.erase(0, end + 2);
        what.clear();
      }
      add(directory, what, value.empty() ? "unknown" : value);
    }
  }
  Block block = titled("inputs", "Directories, models and settings");
  block.table = std::move(table);
  return {.title = "What was run", .blocks = {std::move(block)}};
}

}  // namespace routeopd::report
