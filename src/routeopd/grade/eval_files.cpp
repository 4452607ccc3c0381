// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/eval_files.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::grade {
namespace {

template <class Value>
Value field_of(const Json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) throw UserError("{}: {} is missing", where, name);
  bool fits = false;
  const char* expected = "";
  if constexpr (std::is_same_v<Value, std::string>) {
    fits = found->is_string();
    expected = "a string";
  } else if constexpr (std::is_same_v<Value, bool>) {
    fits = found->is_boolean();
    expected = "true or false";
  } else {
    // An unsigned value beyond the signed range would become negative.
    fits = found->is_number_integer() && found->template get<std::int64_t>() >= 0;
    expected = "a whole number from 0";
  }
  if (!fits) throw UserError("{}: {}: expected {}, got {}", where, name, expected, shown(*found));
  return found->template get<Value>();
}

constexpr std::int64_t kMaxSummaryBytes = 1 << 26;

Json read_summary(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw UserError("{}: cannot be read; is this an eval directory?", path.string());
  Json summary = formats::read_json_object(path, kMaxSummaryBytes);
  formats::naming(path.string(), [&] { formats::refuse_zero_bytes(summary); });
  for (const char* name : {"decoding", "seed", "template", "extractor", "suites"}) {
    if (!summary.contains(name)) throw UserError("{}: {} is missing", path.string(), name);
  }
  if (!summary["suites"].is_object() || summary["suites"].empty()) {
    throw UserError("{}: suites: expected an object with an entry for each suite", path.string());
  }
  return summary;
}

struct Promise {
  std::int64_t problems = 0;
  std::int64_t samples = 0;
  ResponseGrid grid;
};

}  // namespace

Json json_of(const EvalResponse& response) {
  Json line = {
      {"suite", response.suite},         {"problem", response.problem},     {"sample", response.sample},
      {"response", response.response},   {"extracted", response.extracted}, {"correct", response.correct},
      {"format_ok", response.format_ok}, {"clipped", response.clipped},     {"tokens", response.tokens}};
  if (response.in_thought) line["in_thought"] = *response.in_thought;
  return line;
}

std::string line_of(const EvalResponse& response) {
  return json_of(response).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

EvalResponse response_of(const Json& line, const std::string& where) {
  EvalResponse response;
  const auto read = [&]<class Value>(const char* name, Value& value) {
    value = field_of<Value>(line, name, where);
  };
  read("suite", response.suite);
  read("problem", response.problem);
  read("sample", response.sample);
  read("response", response.response);
  read("extracted", response.extracted);
  read("correct", response.correct);
  read("format_ok", response.format_ok);
  read("clipped", response.clipped);
  read("tokens", response.tokens);
  if (line.contains("in_thought")) response.in_thought = field_of<bool>(line, "in_thought", where);
  return response;
}

std::int64_t ResponseGrid::add(const std::string& problem, std::int64_t sample, bool correct) {
  const auto [found, fresh] = rows_.try_emplace(problem, static_cast<std::int64_t>(problems_.size()));
  if (fresh) problems_.push_back(problem);
  entries_.push_back({found->second, sample, correct});
  return found->second;
}

Correctness ResponseGrid::correctness(std::int64_t samples, const std::string& where) const {
  if (entries_.empty()) throw UserError("{}: has no responses", where);
  std::vector<Entry> sorted = entries_;
  std::sort(sorted.begin(), sorted.end(), [](const Entry& left, const Entry& right) {
    return std::tie(left.problem, left.sample) < std::tie(right.problem, right.sample);
  });
  const auto refuse = [&](std::int64_t problem, std::int64_t sample, const char* what) {
    throw UserError("{}: problem {}, sample {} {}, expected {} samples of each problem, once each", where,
                    problems_[static_cast<std::size_t>(problem)], sample, what, samples);
  };
  const auto same = [](const Entry& left, const Entry& right) {
    return left.problem == right.problem && left.sample == right.sample;
  };
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end(), same); twice != sorted.end()) {
    refuse(twice->problem, twice->sample, "is there twice");
  }
  Correctness suite{static_cast<std::int64_t>(problems_.size()), samples, {}};
  std::int64_t problem = 0;
  std::int64_t sample = 0;  // the pair that comes next when none is missing
  for (const Entry& entry : sorted) {
    ROUTEOPD_INVARIANT(entry.sample >= 0 && entry.sample < samples);
    if (entry.problem != problem || entry.sample != sample) refuse(problem, sample, "is missing");
    suite.correct_PS.push_back(entry.correct);
    if (++sample == samples) {
      ++problem;
      sample = 0;
    }
  }
  if (problem < suite.problems) refuse(problem, sample, "is missing");
  return suite;
}

EvalRun read_eval_directory(const std::filesystem::path& directory) {
  EvalRun run{directory.string(), read_summary(directory / "summary.json"), {}};
  std::map<std::string, Promise> promises;
  for (const auto& [name, suite] : run.summary["suites"].items()) {
    const std::string where = fmt::format("{}: suite {}", (directory / "summary.json").string(), name);
    if (!suite.is_object()) throw UserError("{}: expected an object, got {}", where, shown(suite));
    field_of<std::string>(suite, "sha256", where);
    promises[name] = {
        field_of<std::int64_t>(suite, "n", where), field_of<std::int64_t>(suite, "samples", where), {}};
  }
  const std::string path = (directory / "responses.jsonl").string();
  formats::JsonLines lines(path);
  while (const auto line = lines.next()) {
    const EvalResponse response = response_of(*line, lines.where());
    const auto promise = promises.find(response.suite);
    if (promise == promises.end()) {
      throw UserError("{}: suite {} is not in summary.json", lines.where(), response.suite);
    }
    if (response.sample >= promise->second.samples) {
      throw UserError("{}: suite {}, problem {}: sample {} is past the {} samples of summary.json",
                      lines.where(), response.suite, response.problem, response.sample,
                      promise->second.samples);
    }
    promise->second.grid.add(response.problem, response.sample, response.correct);
  }
  for (auto& [name, promise] : promises) {
    const std::string where = fmt::format("{}: suite {}", path, name);
    EvalSuite suite{name, promise.grid.problems(), promise.grid.correctness(promise.samples, where)};
    if (suite.correctness.problems != promise.problems) {
      throw UserError("{}: has responses to {} problems, expected the {} of summary.json", where,
                      suite.correctness.problems, promise.problems);
    }
    const Json claimed = run.summary["suites"][name].value("avg", Json());
    if (const double found = average(suite.correctness);
        claimed.is_number() && std::abs(claimed.get<double>() - found) > 1e-9)
      throw UserError(
          "{}: {:.6f} of the samples are right, but summary.json says {:.6f}; was one of them edited?", where,
          found, claimed.get<double>());
    run.suites.push_back(std::move(suite));
  }
  return run;
}

}  // namespace routeopd::grade
