// libFuzzer: any bytes as the files of a study (scratch.h, Scratch::lay; "$PAIR" stands for a pair's
// directory, "$CONTENT" for what study.json says of its files). Reading for a report never throws, and what
// it has read can be shown; the record of tuning and the manifest are refused with a UserError or can be
// worked with. An input that begins with 'R' is made a page, which takes long.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "routeopd/base/error.h"
#include "routeopd/report/report_page.h"
#include "routeopd/study/rates.h"
#include "routeopd/study/study_files.h"
#include "routeopd/study/study_grades.h"
#include "routeopd/study/study_report.h"
#include "routeopd/study/study_results.h"
#include "scratch.h"

namespace {

namespace study = routeopd::study;
using routeopd::Json;
using routeopd::fuzz::replaced;
using routeopd::fuzz::require;

constexpr std::array kFiles = {"study/study.json",                            // a
                               "study/tune.json",                             // b
                               "study/concentration.jsonl",                   // c
                               "study/cost.json",                             // d
                               "study/recipe.toml",                           // e
                               "study/base/eval/summary.json",                // f
                               "study/base/eval/responses.jsonl",             // g
                               "study/runs/one/recipe.toml",                  // h
                               "study/runs/one/metrics.jsonl",                // i
                               "study/runs/one/probe.jsonl",                  // j
                               "study/runs/one/distance.jsonl",               // k
                               "study/runs/one/eval/step_2/summary.json",     // l
                               "study/runs/one/eval/step_2/responses.jsonl",  // m
                               "study/runs/one/eval/step_2/labels.jsonl",     // n
                               "study/runs/two/metrics.jsonl",                // o
                               "study/probes/arms/probe.json",                // p
                               "study/probes/arms/states.jsonl",              // q
                               "study/probes/arms/routes.jsonl",              // r
                               "study/probes/arms/example.json",              // s
                               "study/base/distance.jsonl"};                  // t

struct Pair {
  const std::filesystem::path tiny = std::filesystem::path(ROUTEOPD_FUZZ_ROOT) / "tests/goldens/tiny";
  routeopd::fuzz::Scratch files{"study-pair"};
  std::string content;

  Pair() {
    for (const char* const name : {"student", "teacher"})
      std::filesystem::copy(tiny / name, files.path() / name);
    study::StudyRequest request;
    request.pair = study::StudyPair{.family = {},
                                    .student = (files.path() / "student").string(),
                                    .teacher = (files.path() / "teacher").string(),
                                    .prompts = files.write("prompts.jsonl", "{\"prompt_ids\": [1]}\n"),
                                    .suites = {},
                                    .validation = {}};
    const study::StudyFiles begun(files.path() / "begun", request);
    content = begun.manifest()["pair"]["sha256"].dump();
  }
};

void resume(const std::filesystem::path& directory) {
  try {
    study::StudyFiles files(directory, {});
    files.complete("main");
    for (const auto& piece : {study::StudyFiles::kBank, study::StudyFiles::kCost, study::StudyFiles::kTuning})
      files.has(piece);
    files.has_eval("base");
    files.has_probe("arms");
    const study::PlannedRun run{
        .variant = {.name = "routeopd", .family = study::Family::kMain, .settings = {{"arm", "routeopd"}}},
        .seed = 42};
    files.complete(run);
    files.note_machine();
    files.finish("main", true, 1, "");
    files.put_eval("base");
    files.put_probe("arms", "base");
    require(files.complete("main"));
    files.chosen_by();
    files.record(run, true);
  } catch (const routeopd::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Pair pair;
  static const routeopd::fuzz::Scratch scratch("study");
  std::string input(routeopd::fuzz::text_of(data, size));
  const bool shown = input.starts_with('R');
  if (shown) input.erase(0, 1);
  input = replaced(std::move(input), "$PAIR", pair.files.path().string());
  scratch.lay(replaced(std::move(input), "$CONTENT", pair.content), kFiles);
  const std::filesystem::path directory = scratch.path() / "study";
  const study::StudyResults results = study::read_results(directory);
  require(results.all_missing().size() >= results.missing.size());
  const study::StudyGrades grades(results);
  require(grades.samples() >= 0 && grades.problems() >= 0);
  if (shown) {
    const std::string page = routeopd::report::report_html(study::study_report(results, "a study"), {});
    require(!page.empty());
  }
  try {
    const study::Tuning tuning = study::read_tuning(directory / "tune.json");
    const study::Rates rates = study::rates_of(tuning);
    require(rates.shared > 0 && rates.shared <= 1);
  } catch (const routeopd::UserError&) {
  }
  resume(directory);
  return 0;
}
