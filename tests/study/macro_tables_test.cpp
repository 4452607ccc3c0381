// Several studies together: the mean over them and its interval.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/macro_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/study_report.h"
#include "study/study_blocks.h"
#include "study/synthetic_study.h"

namespace routeopd::study {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const StudyResults& synthetic() {
  static const StudyResults study = [] {
    const TemporaryDirectory home;
    const SyntheticStudy made(home.path());
    return read_results(home.path());
  }();
  return study;
}

// Another study: the arms of `synthetic` in other roles, judged by another suite of the same problems.
const StudyResults& other() {
  static const StudyResults study = [] {
    StudyResults changed = synthetic();
    for (StudyRun& run : changed.runs) {
      if (run.name == "routeopd") run.eval = synthetic().runs_of("fixed_mid")[run.seed == 43 ? 1 : 0]->eval;
      if (run.name == "union_rkl") run.name = "renamed";
    }
    for (EvalFiles* eval : changed.evals()) eval->grades->summary["suites"]["heldout"]["sha256"] = "other";
    return changed;
  }();
  return study;
}

TEST(MacroTables, TheMeanOverStudiesHasAStratifiedInterval) {
  const std::vector<StudyView> studies = {{synthetic(), StudyGrades(synthetic())},
                                          {other(), StudyGrades(other())}};
  const grade::Interval one = studies[0].grades.contrast("full_rkl", "routeopd")->difference,
                        two = studies[1].grades.contrast("full_rkl", "routeopd")->difference;
  const grade::Interval mean = macro_contrast(studies, "full_rkl", "routeopd").value();
  EXPECT_NEAR(mean.mean, (one.mean + two.mean) / 2, 1e-15);
  const PairedGrades a = studies[0].grades.paired("full_rkl", "routeopd").value(),
                     b = studies[1].grades.paired("full_rkl", "routeopd").value();
  const auto term = [](const PairedGrades& of, std::uint32_t suite) {
    return grade::WeightedContrast{.a = &of.first[0], .b = &of.second[0], .suite = suite, .weight = 1};
  };
  const std::vector<grade::WeightedContrast> apart = {term(a, 0), term(b, 1)},
                                             same = {term(a, 0), term(b, 0)};
  EXPECT_EQ(mean.low, grade::weighted_contrast(apart, {}).low);
  EXPECT_EQ(mean.high, grade::weighted_contrast(apart, {}).high);
  EXPECT_NE(mean.low, grade::weighted_contrast(same, {}).low) << "the test can tell the two apart";
  EXPECT_FALSE(macro_contrast(studies, "union_rkl", "routeopd")) << "one study has no such arm";
}

// A suite that both have is drawn once: the mean of a study with itself is that study's.
TEST(MacroTables, ASuiteOfSeveralStudiesHasOneDraw) {
  const std::vector<StudyView> twice = {{synthetic(), StudyGrades(synthetic())},
                                        {synthetic(), StudyGrades(synthetic())}};
  const grade::Interval one = twice[0].grades.contrast("full_rkl", "routeopd")->difference,
                        mean = macro_contrast(twice, "full_rkl", "routeopd").value();
  EXPECT_NEAR(mean.low, one.low, 1e-15);
  EXPECT_NEAR(mean.high, one.high, 1e-15);
  const grade::Interval own = twice[0].grades.accuracy("routeopd")->average,
                        average = macro_average(twice, "routeopd").value();
  EXPECT_NEAR(average.mean, own.mean, 1e-15);
  EXPECT_NEAR(average.low, own.low, 1e-15);
  EXPECT_NEAR(average.high, own.high, 1e-15);
}

TEST(MacroTables, HasASectionForEachSettingAndTheMacroRow) {
  std::vector<StudyResults> results = {synthetic(), other()};
  results[0].directory = "runs/a";
  results[1].directory = "runs/b";
  const std::vector<StudyView> studies = {{results[0], StudyGrades(results[0])},
                                          {results[1], StudyGrades(results[1])}};
  const MacroReport report = macro_report(studies);
  EXPECT_THAT(report.question, StartsWith("Does routeopd end above sampled_rkl, "));
  EXPECT_THAT(report.question, HasSubstr(" in the mean over 2 studies?"));
  EXPECT_THAT(report.answer, HasSubstr("problems drawn within each"));
  std::vector<std::string> ids;
  for (const Block& block : report.section.blocks) ids.push_back(block.id);
  EXPECT_THAT(ids, ElementsAre("macro-contrasts", "macro-table", "macro-paired"));
  const Block& table = report.section.blocks[1];
  std::vector<std::string> settings;
  for (const auto& row : table.table->rows())
    if (settings.empty() || settings.back() != row[0]) settings.push_back(row[0]);
  EXPECT_THAT(settings, ElementsAre("runs/a", "runs/b", "mean over studies"));
  // base, seven common arms, teacher.
  EXPECT_EQ(table.table->rows().size(), 3 * 9U);
  const auto mean = [&](const StudyView& view) { return view.grades.accuracy("routeopd")->average.mean; };
  for (const auto& row : table.table->rows()) {
    if (row[0] != "mean over studies" || row[1] != "routeopd") continue;
    EXPECT_EQ(row[3], percent((mean(studies[0]) + mean(studies[1])) / 2));
    EXPECT_EQ(row[6], points(*macro_contrast(studies, "sampled_rkl", "routeopd")));
  }
  EXPECT_EQ(report::cell(report.section.blocks[2], "full_rkl", "paper's mean of four [95 %]"),
            "+1.24 [+0.90, +1.58]");
  EXPECT_EQ(report::cell(report.section.blocks[2], "full_rkl", "mean over studies [95 %]"),
            points(*macro_contrast(studies, "full_rkl", "routeopd")));
}

TEST(MacroTables, APageOfTwoStudiesBeginsWithThemTogether) {
  const TemporaryDirectory home;
  const SyntheticStudy a(home.path() / "a", true), b(home.path() / "b", true);
  const std::vector<std::string> directories = {home.path() / "a", home.path() / "b"};
  const report::Report page = report::report_of(directories, "", study_reader());
  EXPECT_EQ(page.question, "Does routeopd end above fixed_mid in the mean over 2 studies?");
  ASSERT_GT(page.sections.size(), 4U);
  EXPECT_EQ(page.sections[0].title, "In short");
  EXPECT_TRUE(page.sections[0].leads);
  EXPECT_EQ(page.sections[1].title, "What was run");
  EXPECT_EQ(page.sections[2].title, "In short, " + directories[0]);
  EXPECT_FALSE(page.sections[2].leads);
  EXPECT_EQ(page.sections[2].blocks.front().id, "answer");
  EXPECT_THAT(page.sections[2].blocks.front().words,
              StartsWith("Does routeopd end above fixed_mid in Avg@4 "));
  EXPECT_THAT(page.sections.back().title, HasSubstr(directories[1]));
}

TEST(MacroTables, StudiesWithoutACommonArmSaySo) {
  StudyResults empty;
  const std::vector<StudyView> studies = {{synthetic(), StudyGrades(synthetic())},
                                          {empty, StudyGrades(empty)}};
  const MacroReport report = macro_report(studies);
  EXPECT_TRUE(report.section.blocks.empty());
  EXPECT_THAT(report.answer, HasSubstr("no arm in common"));
}

}  // namespace
}  // namespace routeopd::study
