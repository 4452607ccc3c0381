// A study's tables where files are missing, broken, of another protocol or of other types.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/study_answer.h"
#include "routeopd/study/study_figures.h"
#include "routeopd/study/study_tables.h"
#include "routeopd/study/study_view.h"
#include "study/study_blocks.h"
#include "study/synthetic_study.h"

namespace routeopd::study {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Study = SyntheticStudy;

// A study changed by `change` before it is read.
StudyTables all_after(const std::function<void(Study&, const std::filesystem::path&)>& change,
                      bool few = true) {
  const TemporaryDirectory home;
  Study study(home.path(), few);
  change(study, home.path());
  const StudyResults files = read_results(home.path());
  EXPECT_FALSE(study_answer({files, StudyGrades(files)}).empty());
  return study_tables(files);
}

std::vector<Section> tables_after(const std::function<void(Study&, const std::filesystem::path&)>& change,
                                  bool few = true) {
  return all_after(change, few).sections;
}

TEST(StudyTablesMissing, WithoutLabelsTheSummaryTellsRightFromWrong) {
  const std::vector<Section> all = tables_after([](Study&, const std::filesystem::path& home) {
    std::filesystem::remove(home / "runs/routeopd-seed42/eval/step_20/labels.jsonl");
  });
  int format = 0, right = 0;
  for (int p = 0; p < Study::kProblems; ++p) {
    for (int s = 0; s < Study::kSamples; ++s) {
      format += Study::label("routeopd", 42, 20, p, s) == "format" ? 1 : 0;
      right += Study::right("routeopd", 42, 20, p, s) ? 1 : 0;
    }
  }
  const double total = Study::kProblems * Study::kSamples;
  const Block& errors = block_in(all, "error-distribution");
  EXPECT_EQ(cell(errors, "routeopd", "correct"), fmt::format("{:.1f}", 100 * right / total));
  EXPECT_EQ(cell(errors, "routeopd", "format"), fmt::format("{:.1f}", 100 * format / total));
  EXPECT_EQ(cell(errors, "routeopd", "wrong, not told apart"),
            fmt::format("{:.1f}", 100 * (total - right - format) / total));
  EXPECT_FALSE(block_in(all, "error-transitions").table);
  EXPECT_THAT(block_in(all, "error-transitions").missing, Contains(HasSubstr("fixed_mid")));
}

// One part, and the manifest of a study that keeps to it.
void keep_to_main(Study& study, const std::vector<std::string>& names) {
  study.manifest["parts"] = {{"main", {{"complete", true}}}};
  study.manifest["probes"] = Json::array();
  study.manifest["cost"] = nullptr;
  study.manifest["concentration"] = nullptr;
  Json runs = Json::array();
  for (const Json& run : study.manifest["runs"])
    if (std::find(names.begin(), names.end(), run["name"]) != names.end()) runs.push_back(run);
  study.manifest["runs"] = runs;
  study.save();
}

TEST(StudyTablesMissing, WhatWasNeverAskedForIsAbsent) {
  const std::vector<Section> all = tables_after(
      [](Study& study, const std::filesystem::path& home) {
        keep_to_main(study, {"sampled_rkl", "fixed_mid", "routeopd", "union_rkl"});
        std::vector<std::string> figures;
        for (const Block& block : study_figures(read_results(home)).blocks) figures.push_back(block.id);
        EXPECT_THAT(figures, testing::ElementsAre("dynamics"));
      },
      false);
  EXPECT_THAT(ids_of(all),
              testing::ElementsAre("main-table", "paired-contrasts", "training-dynamics", "stability"));
  for (const Section& section : all)
    for (const Block& block : section.blocks) EXPECT_THAT(block.missing, IsEmpty()) << block.id;
}

// The same study asked for an ablation and a probe, which are not there.
TEST(StudyTablesMissing, WhatWasAskedForAndIsNotThereIsSaid) {
  const std::vector<Section> all = tables_after([](Study& study, const std::filesystem::path&) {
    keep_to_main(study, {"routeopd", "fixed_mid"});
    study.manifest["parts"]["mechanism"] = {{"complete", false}};
    study.manifest["parts"]["cost"] = {{"complete", true}};
    study.save();
  });
  for (const char* id : {"probe-arms", "probe-ladder", "strata-mismatch", "cost"})
    EXPECT_THAT(block_in(all, id).missing, Not(IsEmpty())) << id;
  EXPECT_THAT(ids_of(all), Not(Contains("support-sweep")));
  EXPECT_THAT(ids_of(all), Not(Contains("ablation-budget")));
}

// A study that keeps to some arms has no ladder of routeopd, whatever parts it was asked for.
TEST(StudyTablesMissing, ArmsThatWereLeftOutAreNotMissed) {
  const std::vector<Section> all = tables_after([](Study& study, const std::filesystem::path&) {
    keep_to_main(study, {"fixed_mid"});
    study.manifest["options"]["arms"] = {"fixed_mid"};
    for (const char* part : {"ablations", "sweeps", "mechanism", "behaviour"})
      study.manifest["parts"][part] = {{"complete", true}};
    study.save();
  });
  EXPECT_THAT(ids_of(all), testing::ElementsAre(
                               "main-table", "target-realization", "accuracy-by-concentration", "probe-arms",
                               "training-dynamics", "stability", "error-distribution", "response-lengths"));
}

TEST(StudyTablesMissing, MissingInputsAreSentencesInPlaceOfTables) {
  const StudyResults nothing = read_results("/nowhere/at/all");
  EXPECT_THAT(nothing.missing, Contains(HasSubstr("is no directory")));
  EXPECT_THAT(study_tables(nothing).sections, IsEmpty());
  EXPECT_THAT(study_tables(nothing).verdicts, IsEmpty());
  EXPECT_THAT(study_answer({nothing, StudyGrades(nothing)}), HasSubstr("nothing is compared"));
  EXPECT_EQ(study_question({nothing, StudyGrades(nothing)}), "");
  const std::vector<Section> all = tables_after([](Study& study, const std::filesystem::path& home) {
    std::filesystem::remove_all(home / "probes/arms");
    std::filesystem::remove(home / "runs/fixed_mid-seed42/eval/step_20/responses.jsonl");
    study.manifest["concentration"] = nullptr;
    study.manifest["cost"] = nullptr;
    study.save();
  });
  EXPECT_TRUE(block_in(all, "main-table").table);
  EXPECT_THAT(block_in(all, "main-table").missing, Contains("No readable evaluation of: fixed_mid."));
  for (const char* id : {"probe-arms", "target-realization", "strata-entropy", "route-cases",
                         "accuracy-by-concentration", "cost", "route-construction"}) {
    EXPECT_FALSE(block_in(all, id).table) << id;
    EXPECT_THAT(block_in(all, id).missing, Not(IsEmpty())) << id;
  }
}

TEST(StudyTablesMissing, WhatCannotBeSeenIsSaid) {
  const std::vector<Section> all = tables_after([](Study& study, const std::filesystem::path& home) {
    const std::string lines = bytes_in(home / "concentration.jsonl");
    std::istringstream text(lines);
    std::ofstream file(home / "concentration.jsonl");
    for (std::string line; std::getline(text, line);)
      if (Json::parse(line)["concentration"] < 0.5) file << line << '\n';
    study.manifest["probes"] = Json::array();
    study.manifest["parts"]["mechanism"] = {{"complete", false}, {"note", "no bank"}};
    study.save();
    file.flush();
    EXPECT_THAT(read_results(home).missing, Contains("study.json: part mechanism is not complete (no bank)"));
  });
  const Block& bins = block_in(all, "accuracy-by-concentration");
  EXPECT_EQ(cell(bins, "[.5, .75)", "problems"), "0");
  EXPECT_EQ(cell(bins, "[.5, .75)", "over fixed_mid [95 %]"), "–");
  EXPECT_THAT(
      bins.words,
      HasSubstr("No problem lies in [.5, .75) and [.75, 1]: what the paper has there cannot be seen here."));
  // Without a probe the runs' first step knows what the support holds.
  EXPECT_EQ(cell(block_in(all, "support-sweep"), "16", "teacher's mass in it %"), "96.0");
  EXPECT_EQ(cell(block_in(all, "support-sweep"), "16", "fidelity % [95 %]"), "–");
}

// A response labelled twice while another has none: as many lines as there should be.
TEST(StudyTablesMissing, LabelsThatDoNotFitTheResponsesGiveNoContrast) {
  for (const bool twice : {true, false}) {
    const StudyTables tables = all_after([twice](Study&, const std::filesystem::path& home) {
      const std::filesystem::path path = home / "runs/fixed_mid-seed42/eval/step_20/labels.jsonl";
      const std::string good = bytes_in(path);
      const std::size_t first = good.find('\n') + 1;
      const std::string line = good.substr(0, first);
      if (twice) std::ofstream(path) << line << line << good.substr(good.find('\n', first) + 1);
    });
    const std::vector<Section>& all = tables.sections;
    EXPECT_EQ(verdict_in(tables.verdicts, "share of reasoning, routeopd over fixed_mid") == "no verdict",
              twice);
    const auto sentence =
        Contains("runs/fixed_mid-seed42/eval/step_20/labels.jsonl: does not label every response once");
    if (twice)
      EXPECT_THAT(block_in(all, "main-table").missing, sentence);
    else
      EXPECT_THAT(block_in(all, "main-table").missing, Not(sentence));
  }
}

TEST(StudyTablesMissing, EvaluationsOfAnotherProtocolAreNotCompared) {
  const std::vector<Section> all = tables_after([](Study&, const std::filesystem::path& home) {
    const std::filesystem::path path = home / "runs/fixed_mid-seed42/eval/step_20/summary.json";
    Json summary = Json::parse(bytes_in(path));
    summary["decoding"]["temperature"] = 1.0;
    std::ofstream(path) << summary.dump();
  });
  EXPECT_EQ(cell(block_in(all, "main-table"), "fixed_mid", "Avg@4 %"), "no row");
  EXPECT_THAT(block_in(all, "main-table").missing,
              Contains("runs/fixed_mid-seed42/eval/step_20: was evaluated under another protocol than "
                       "base/eval; it is not compared"));
}

TEST(StudyTablesMissing, ProblemsInAnotherOrderAreTheSameProblems) {
  const auto change = [](bool turn) {
    return [turn](Study&, const std::filesystem::path& home) {
      const std::filesystem::path path = home / "runs/routeopd-seed42/eval/step_20/responses.jsonl";
      std::vector<std::string> lines;
      std::istringstream text(bytes_in(path));
      for (std::string line; std::getline(text, line);) lines.push_back(line);
      if (turn) std::reverse(lines.begin(), lines.end());
      std::ofstream file(path);
      for (const std::string& line : lines) file << line << '\n';
    };
  };
  const std::vector<Section> turned = tables_after(change(true)), straight = tables_after(change(false));
  for (const char* id : {"paired-contrasts", "accuracy-by-concentration", "correctness-transitions"})
    EXPECT_EQ(block_in(turned, id).table->text(), block_in(straight, id).table->text()) << id;
}

// Every list cut to its first entry, but for the four quartiles of mismatch: one of each is as good as all.
void shorten(Json& value) {
  for (auto item = value.begin(); item != value.end(); ++item) {
    const bool keep = value.is_object() && item.key() == "mismatch";
    while (item->is_array() && !keep && item->size() > 1) item->erase(1);
    if (item->is_structured()) shorten(*item);
  }
}

// Values of other types in what tables are made of are dashes and sentences, and no crash.
TEST(StudyTablesMissing, WrongTypesAreNoCrash) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  const std::vector<Json> others = {Json("text"), Json::array({1}), Json{{"a", 1}}, Json(true), Json(-1e300)};
  std::size_t turn = 0;
  for (const char* name : {"probes/arms/probe.json", "cost.json", "base/eval/summary.json"}) {
    const std::string good = bytes_in(home.path() / name);
    Json small = Json::parse(good);
    for (const Json& row : small.value("rows", Json::array()))
      if (row["name"] == "routeopd") small["rows"] = Json::array({row});
    shorten(small);
    const Json flat = small.flatten();
    for (const auto& item : flat.items()) {
      Json bad = small;
      bad[Json::json_pointer(item.key())] = others[turn++ % others.size()];
      std::ofstream(home.path() / name) << bad.dump();
      EXPECT_NO_THROW(study_tables(read_results(home.path()))) << name << item.key();
    }
    std::ofstream(home.path() / name) << good;
  }
}

}  // namespace
}  // namespace routeopd::study
