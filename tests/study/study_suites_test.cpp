// A study of two suites: what is left of it with one, and the tables that are made of each.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_suites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/study_figures.h"
#include "routeopd/study/study_report.h"
#include "routeopd/study/study_tables.h"
#include "study/study_blocks.h"
#include "study/synthetic_study.h"

namespace routeopd::study {
namespace {

using report::Block;
using report::EvalFiles;
using report::ids_of;
using report::Section;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHard = "Hard";  // the second suite: all wrong, and twice as long

void add_suite(EvalFiles& eval) {
  if (eval.summary.is_object()) {
    Json hard = eval.summary["suites"]["heldout"];
    const double average = hard["avg"].get<double>();
    hard["avg"] = 0;
    for (auto& length : hard["length"]) length = 2 * length.get<double>();
    eval.summary["suites"][kHard] = hard;
    eval.summary["avg"] = average / 2;
    eval.summary["average"]["avg"] = average / 2;
  }
  if (eval.grades) {
    grade::EvalSuite hard = eval.grades->suites.front();
    hard.name = kHard;
    std::fill(hard.correctness.correct_PS.begin(), hard.correctness.correct_PS.end(), std::uint8_t{0});
    eval.grades->suites.insert(eval.grades->suites.begin(), hard);
    eval.grades->summary["suites"][kHard] = eval.grades->summary["suites"]["heldout"];
  }
  const std::size_t count = eval.labels.size();
  for (std::size_t i = 0; i < count; ++i) {
    report::ResponseLabel label = eval.labels[i];
    label.suite = kHard;
    label.label = judge::Label::kReasoning;
    eval.labels.push_back(std::move(label));
  }
}

// The synthetic study, and the same with a second suite.
const StudyResults& one_suite() {
  static const StudyResults study = [] {
    const TemporaryDirectory home;
    const SyntheticStudy made(home.path(), true);
    return read_results(home.path());
  }();
  return study;
}

const StudyResults& two_suites() {
  static const StudyResults study = [] {
    StudyResults both = one_suite();
    for (EvalFiles* eval : both.evals()) add_suite(*eval);
    for (StudyRun& run : both.runs)
      for (EvalFiles& eval : run.files.evals) add_suite(eval);
    return both;
  }();
  return study;
}

TEST(StudySuites, WithOneOfTwoSuitesAStudyIsAsIfItHadThatOneAlone) {
  EXPECT_THAT(suites_of(two_suites()), ElementsAre(kHard, "heldout"));
  const StudyResults rest = restricted_to(two_suites(), {"heldout"});
  const StudyTables expected = study_tables(one_suite()), found = study_tables(rest);
  ASSERT_EQ(ids_of(found.sections), ids_of(expected.sections));
  for (const Section& section : expected.sections) {
    for (const Block& block : section.blocks) {
      const Block& same = block_in(found.sections, block.id);
      ASSERT_EQ(same.table.has_value(), block.table.has_value()) << block.id;
      EXPECT_EQ(same.table ? same.table->text() : "", block.table ? block.table->text() : "") << block.id;
    }
  }
  const StudyResults none = restricted_to(two_suites(), {});
  EXPECT_FALSE(none.base->grades);
  EXPECT_TRUE(none.base->summary["avg"].is_null());
}

TEST(StudySuites, SeveralSuitesHaveATableTogetherAndOneEach) {
  const StudyTables tables = study_tables(two_suites());
  const std::vector<std::string> ids = ids_of(tables.sections);
  for (const char* id : {"ablation-budget", "training-dynamics", "error-distribution", "response-lengths"})
    for (const char* ending : {"", "-heldout", "-hard"}) EXPECT_THAT(ids, Contains(std::string(id) + ending));
  for (const char* id : {"main-table-hard", "stability-hard", "target-realization-hard", "cost-hard"})
    EXPECT_THAT(ids, Not(Contains(id)));
  const Block& hard = block_in(tables.sections, "error-distribution-hard");
  EXPECT_EQ(hard.title, "What responses are made of, in percent, Hard");
  EXPECT_EQ(cell(hard, "routeopd", "reasoning"), "100.0");
  EXPECT_EQ(cell(block_in(tables.sections, "training-dynamics-hard"), "routeopd", "Avg@4 %", 2), "0.00");
  EXPECT_EQ(
      cell(block_in(tables.sections, "error-distribution-heldout"), "routeopd", "reasoning"),
      cell(block_in(study_tables(one_suite()).sections, "error-distribution"), "routeopd", "reasoning"));
  std::vector<std::string> figures;
  for (const Block& block : study_figures(two_suites()).blocks) figures.push_back(block.id);
  for (const char* id : {"dynamics-hard", "composition-heldout", "composition"})
    EXPECT_THAT(figures, Contains(id));
  EXPECT_THAT(figures, Not(Contains("phase-portrait-hard")));
}

TEST(StudySuites, AChosenSuiteIsTheOnlyOneOfTheseTables) {
  const StudyTables tables = study_tables(two_suites(), {kHard, "of another study"});
  EXPECT_EQ(ids_of(tables.sections), ids_of(study_tables(one_suite()).sections));
  const Block& errors = block_in(tables.sections, "error-distribution");
  EXPECT_EQ(errors.title, "What responses are made of, in percent, Hard");
  EXPECT_EQ(cell(errors, "routeopd", "reasoning"), "100.0");
  EXPECT_EQ(block_in(tables.sections, "main-table").title, "Accuracy, Avg@4 in percent");
  EXPECT_NE(cell(block_in(tables.sections, "main-table"), "routeopd", "Avg@4 %"), "0.00");
  const Section figures = study_figures(two_suites(), {kHard});
  EXPECT_EQ(report::block_in({figures}, "dynamics").chart["title"], "Training dynamics, Hard");
  EXPECT_EQ(report::block_in({figures}, "phase-portrait").title, "Fidelity and specificity of an update");
}

TEST(StudySuites, AnUnknownSuiteIsRefused) {
  const TemporaryDirectory home;
  const SyntheticStudy made(home.path(), true);
  EXPECT_THAT(error_of([&] { report::report_of({home.path()}, "", study_reader({"AIME24"})); }),
              HasSubstr("--suite AIME24: expected a suite of the studies (heldout)"));
}

}  // namespace
}  // namespace routeopd::study
