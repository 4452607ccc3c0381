// libFuzzer: any bytes as the files of an eval directory (scratch.h, Scratch::lay; "$SUITE" is the hash of
// its suite), which is reported, compared, handed to a judge, graded again and resumed. Two readers of the
// same responses agree, and a directory that is resumed misses what is not there.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"
#include "routeopd/eval/eval_directory.h"
#include "routeopd/grade/compare.h"
#include "routeopd/judge/cases.h"
#include "routeopd/report/directory_report.h"
#include "routeopd/report/evaluation_files.h"
#include "scratch.h"

namespace {

using routeopd::Json;
using routeopd::fuzz::require;

constexpr std::array kFiles = {"eval/summary.json", "eval/responses.jsonl", "eval/labels.jsonl",
                               "eval/problems.jsonl", "eval/protocol.json"};
constexpr const char* kProblems =
    "{\"id\": \"p0\", \"problem\": \"1 + 1?\", \"answer\": \"2\"}\n{\"id\": \"p1\", \"problem\": \"2?\", "
    "\"answer\": 2}\n";
constexpr std::int32_t kSamples = 2;

template <class Work>
auto unless_refused(const Work& work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const routeopd::UserError&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace grade = routeopd::grade;
  namespace eval = routeopd::eval;
  static const routeopd::fuzz::Scratch scratch("eval");
  static const routeopd::fuzz::Scratch beside("eval-suite");
  static const std::string suite = beside.write("suite.jsonl", kProblems);
  static const std::string sha256 = routeopd::sha256_of_file(suite);
  static const Json protocol = {{"model", {{"path", "m"}, {"sha256", "a"}}},
                                {"decoding", {{"temperature", 1}}},
                                {"seed", 42},
                                {"template", "raw"},
                                {"extractor", "boxed-2"},
                                {"suites", {{"s", {{"file", suite}, {"sha256", sha256}}}}}};
  const std::string input(routeopd::fuzz::text_of(data, size));
  scratch.lay(routeopd::fuzz::replaced(input, "$SUITE", sha256), kFiles);
  const std::filesystem::path directory = scratch.path() / "eval";
  if (!std::filesystem::exists(directory)) return 0;

  const routeopd::report::EvalFiles files = routeopd::report::read_eval(directory);
  const auto run = unless_refused([&] { return grade::read_eval_directory(directory); });
  require(!files.grades || run);
  if (run) {
    const grade::Comparison same = grade::compare_runs(*run, *run, {.draws = 20});
    require(same.average_a == same.average_b && same.contrast.low == 0 && same.contrast.high == 0);
  }
  unless_refused([&] { return routeopd::report::report_of({directory.string()}, ""); });
  unless_refused([&] { return routeopd::judge::read_judge_input({directory.string()}, {{"s", suite}}); });

  unless_refused([&] { return eval::finished_evaluation(directory, protocol); });
  const bool resumable = eval::is_resumable(directory, protocol);
  unless_refused([&] {
    return eval::grade_again(directory, protocol,
                             [](grade::EvalResponse& response) { response.correct = true; });
  });
  unless_refused([&] {
    eval::EvalDirectory resumed(directory, protocol, {{"s", {"p0", "p1"}}}, kSamples);
    std::size_t missing = 0;
    for (std::size_t p = 0; p < 2; ++p) missing += resumed.missing(0, p).size();
    require(resumed.total() == 4 && resumed.missing() == static_cast<std::int64_t>(missing));
    require(resumed.found() + resumed.missing() == resumed.total());
    require(resumable || resumed.found() == 0 || eval::is_resumable(directory, protocol));
    for (std::size_t p = 0; p < 2; ++p) {
      for (const std::int32_t sample : resumed.missing(0, p)) {
        grade::EvalResponse response;
        response.suite = "s";
        response.problem = p == 0 ? "p0" : "p1";
        response.sample = sample;
        resumed.add(0, p, std::move(response));
      }
    }
    resumed.finish();
    require(eval::is_complete(directory) && !eval::is_resumable(directory, protocol));
    return 0;
  });
  return 0;
}
