// A study's directory in a report.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_report.h"

#include <gmock/gmock.h>

#include "routeopd/report/report_page.h"
#include "study/synthetic_study.h"
#include "testing_files.h"

namespace routeopd::study {
namespace {

using report::Block;
using report::charted;
using report::Report;
using report::report_html;
using report::report_of;
using ::testing::ElementsAre;

TEST(StudyReport, OfAStudyHasEveryFigure) {
  const TemporaryDirectory directory;
  const SyntheticStudy study(directory.path());
  const Report report = report_of({directory.path()}, "A study", study_reader());
  EXPECT_EQ(report.title, "A study");
  EXPECT_FALSE(report.verdict.empty());
  ASSERT_GT(report.sections.size(), 3U);
  EXPECT_FALSE(report.question.empty());
  EXPECT_EQ(report.sections[0].title, "In short");
  EXPECT_TRUE(report.sections[0].leads);
  std::vector<std::string> first;
  for (const Block& block : report.sections[0].blocks) first.push_back(block.id);
  EXPECT_THAT(first, ElementsAre("main-contrasts", "verdicts"));
  EXPECT_EQ(report.sections[1].title, "What was run");
  std::vector<std::string> ids;
  for (const Block& block : report.sections[2].blocks) ids.push_back(block.id);
  EXPECT_THAT(ids, ElementsAre("cost-tradeoff", "component-contrasts", "phase-portrait", "dynamics",
                               "composition", "route-records", "scalar-credit", "operator"));
  EXPECT_GE(charted(report).size(), 6U);
  EXPECT_EQ(report_html(report, {}),
            report_html(report_of({directory.path()}, "A study", study_reader()), {}));
}

TEST(StudyReport, OfAnEmptyStudySaysWhatIsMissing) {
  const TemporaryDirectory directory;
  directory.write("study.json", "{\"kind\":\"study\"");
  const Report report = report_of({directory.path()}, "", study_reader());
  EXPECT_FALSE(report.missing.empty());
  ASSERT_EQ(report.sections.size(), 1U);
  EXPECT_EQ(report.sections[0].title, "What was run");
}

}  // namespace
}  // namespace routeopd::study
