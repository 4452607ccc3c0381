// Reports of directories, and their page.
//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/report_page.h"

#include <gmock/gmock.h>

#include "report/synthetic_study.h"
#include "routeopd/report/directory_report.h"
#include "testing_files.h"

namespace routeopd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Block block_of(const std::string& id, bool chart) {
  TextTable table({{"name", Align::kLeft}, {"value", Align::kRight}});
  table.add({"<i>", "1.5"});
  return {.id = id,
          .title = "Title <b>",
          .words = "Words & more",
          .table = table,
          .chart = chart ? Json{{"description", "what it shows"}, {"title", "Title"}} : Json(),
          .missing = {"a <u> is missing"}};
}

const char* const kSvg = "<svg width=\"10\" height=\"5\"><path d=\"M0,0\" fill=\"#0072b2\"/></svg>";

TEST(ReportPage, EscapesWhatItIsGiven) {
  const Report report{.title = "<script>t",
                      .verdict = "<script>v",
                      .sections = {{"<script>s", {block_of("x", false)}}},
                      .missing = {"<script>m"}};
  const std::string page = report_html(report, {});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  for (const char* words :
       {"&lt;script&gt;t</h1>", "&lt;script&gt;v", "&lt;script&gt;s</h2>", "&lt;script&gt;m",
        "Title &lt;b&gt;</h3>", "Words &amp; more", "&lt;i&gt;", "a &lt;u&gt; is missing"})
    EXPECT_THAT(page, HasSubstr(words));
}

TEST(ReportPage, ShowsADrawingWithItsData) {
  const Report report{.title = "t", .verdict = {}, .sections = {{"s", {block_of("x", true)}}}, .missing = {}};
  const std::string page = report_html(report, {{.svg = kSvg, .png = {}, .trouble = {}}});
  EXPECT_THAT(
      page,
      HasSubstr(
          "<svg role=\"img\" aria-label=\"Title &lt;b&gt;. what it shows\" width=\"10\" height=\"5\">"));
  EXPECT_THAT(page, HasSubstr("fill=\"var(--blue)\""));
  EXPECT_THAT(page, HasSubstr("<details><summary>The data of this figure</summary>"));
  EXPECT_THAT(page, HasSubstr("--blue:#0072b2"));
}

TEST(ReportPage, ShowsTheDataWhereThereIsNoDrawing) {
  const Report report{.title = "t",
                      .verdict = {},
                      .sections = {{"s", {block_of("x", true), block_of("y", true)}}},
                      .missing = {}};
  const std::string page =
      report_html(report, {{.svg = {}, .png = {}, .trouble = "No Python here."},
                           {.svg = "<svg width=\"1\"><script/></svg>", .png = {}, .trouble = {}}});
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
  EXPECT_THAT(page, HasSubstr("No Python here. The data are in the table instead."));
  EXPECT_THAT(page, HasSubstr("The chart is not shown: the drawing has &lt;script&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<details>")));
}

TEST(ReportPage, HasUniqueIdsAndALinkToEach) {
  const Report report{.title = "t",
                      .verdict = {},
                      .sections = {{"Same", {block_of("x", false), block_of("x", false)}}, {"Same", {}}},
                      .missing = {}};
  const std::string page = report_html(report, {});
  for (const char* id : {"x", "x-2", "s--ame", "s--ame-2"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format(" id=\"{}\"", id)));
    EXPECT_THAT(page, HasSubstr(fmt::format("href=\"#{}\"", id)));
  }
}

TEST(ReportPage, FoldsALongListOfWhatIsMissing) {
  Report report{.title = "t", .verdict = {}, .sections = {}, .missing = std::vector<std::string>(3, "m")};
  EXPECT_THAT(report_html(report, {}), HasSubstr("What is missing or broken"));
  report.missing.resize(20, "m");
  EXPECT_THAT(report_html(report, {}), HasSubstr("<summary>20 things are missing"));
}

TEST(DirectoryReport, KnowsDirectoriesByTheirFiles) {
  const TemporaryDirectory directory;
  const auto kind = [&](const std::string& file) {
    const std::string path = directory.path() / ("d-" + file);
    std::filesystem::create_directory(path);
    directory.write("d-" + file + "/" + file, "{}");
    return kind_of_directory(path);
  };
  EXPECT_EQ(kind("study.json"), DirectoryKind::kStudy);
  EXPECT_EQ(kind("probe.json"), DirectoryKind::kProbe);
  EXPECT_EQ(kind("recipe.toml"), DirectoryKind::kRun);
  EXPECT_EQ(kind("metrics.jsonl"), DirectoryKind::kRun);
  EXPECT_EQ(kind("responses.jsonl"), DirectoryKind::kEval);
  EXPECT_EQ(kind("summary.json"), DirectoryKind::kEval);
  EXPECT_EQ(kind("labels.jsonl"), DirectoryKind::kJudge);
  EXPECT_THAT(error_of([&] { kind("other.txt"); }), HasSubstr("holds none of study.json"));
  EXPECT_THAT(error_of([&] { kind_of_directory(directory.path() / "none"); }), HasSubstr("is no directory"));
}

TEST(DirectoryReport, OfAStudyHasEveryFigure) {
  const TemporaryDirectory directory;
  const SyntheticStudy study(directory.path());
  const Report report = report_of({directory.path()}, "A study");
  EXPECT_EQ(report.title, "A study");
  EXPECT_FALSE(report.verdict.empty());
  ASSERT_GT(report.sections.size(), 3U);
  EXPECT_EQ(report.sections[0].title, "What was run");
  std::vector<std::string> ids;
  for (const Block& block : report.sections[1].blocks) ids.push_back(block.id);
  EXPECT_THAT(ids, ElementsAre("cost-tradeoff", "component-contrasts", "phase-portrait", "dynamics",
                               "composition", "route-records", "scalar-credit", "operator"));
  EXPECT_GE(charted(report).size(), 6U);
  EXPECT_EQ(report_html(report, {}), report_html(report_of({directory.path()}, "A study"), {}));
}

TEST(DirectoryReport, OfAnEmptyStudySaysWhatIsMissing) {
  const TemporaryDirectory directory;
  directory.write("study.json", "{\"kind\":\"study\"");
  const Report report = report_of({directory.path()}, "");
  EXPECT_FALSE(report.missing.empty());
  for (const Block& block : report.sections[1].blocks) EXPECT_EQ(block.missing.size(), 1U) << block.id;
}

}  // namespace
}  // namespace routeopd::report
