// Reports of directories, and their page.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/report_page.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "routeopd/report/directory_report.h"
#include "routeopd/report/report_files.h"
#include "testing_files.h"

namespace routeopd::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Block block_of(const std::string& id, bool chart) {
  table::TextTable table({{"name", table::Align::kLeft}, {"value", table::Align::kRight}});
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

TEST(ReportPage, WhatLeadsStandsBeforeTheContents) {
  Report report{.title = "t",
                .verdict = "An answer.",
                .sections = {{"First", {block_of("x", true), block_of("y", false)}, true}, {"Next", {}}},
                .missing = {"one thing"},
                .question = "A <question>?"};
  std::string page = report_html(report, {});
  EXPECT_THAT(
      page, HasSubstr("<p class=\"question\">A &lt;question&gt;?</p>\n<p class=\"verdict\">An answer.</p>"));
  EXPECT_THAT(page, HasSubstr("<section class=\"lead\" aria-labelledby=\"s--irst\">"));
  EXPECT_LT(page.find("id=\"y\""), page.find("<nav"));
  EXPECT_GT(page.find("id=\"s--ext\""), page.find("<nav"));
  EXPECT_THAT(page, HasSubstr("<summary>1 thing is missing or broken in the files</summary>"));
  report.sections.pop_back();
  EXPECT_THAT(report_html(report, {}), HasSubstr("<nav"));
  report.sections[0].leads = false;
  page = report_html(report, {});
  EXPECT_GT(page.find("id=\"x\""), page.find("<nav"));
}

TEST(ReportPage, LongTablesScrollInABoxOfTheirOwn) {
  Block block = block_of("x", false);
  const auto page = [&] {
    return report_html({.title = "t", .verdict = {}, .sections = {{"s", {block}}}, .missing = {}}, {});
  };
  EXPECT_THAT(page(), Not(HasSubstr("class=\"scroll long\"")));
  for (int i = 0; i < 40; ++i) block.table->add(std::vector<std::string>(block.table->columns().size(), "a"));
  EXPECT_THAT(page(), HasSubstr("class=\"scroll long\""));
}

TEST(ReportPage, UniqueIdsAreWordsOfPlainLetters) {
  std::set<std::string> used = {"content"};
  EXPECT_EQ(unique_id("content", used), "content-2");
  EXPECT_EQ(unique_id("../A b", used), "-----b");
  EXPECT_EQ(unique_id("", used), "block");
  EXPECT_EQ(unique_id("", used), "block-2");
  EXPECT_EQ(used.size(), 5U);
}

TEST(ReportPage, PrintsWideTablesWhole) {
  const std::string page = report_html({.title = "t", .verdict = {}, .sections = {}, .missing = {}}, {});
  const std::size_t print = page.find("@media print");
  ASSERT_NE(print, std::string::npos);
  const std::string rules = page.substr(print, page.find("</style>") - print);
  for (const char* rule : {"table{font-size:7pt}", "th,td{white-space:normal}", "@page{size:landscape}",
                           ".scroll{overflow:visible;max-height:none}"})
    EXPECT_THAT(rules, HasSubstr(rule));
}

// While it lives, a shell script is asked for drawings in place of Python.
class StandInRenderer {
 public:
  StandInRenderer(const TemporaryDirectory& home, const std::string& script) {
    const std::filesystem::path path = home.write("python", "#!/bin/sh\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ::setenv("ROUTEOPD_CHART_PYTHON", path.c_str(), 1);
  }
  ~StandInRenderer() { ::unsetenv("ROUTEOPD_CHART_PYTHON"); }
  StandInRenderer(const StandInRenderer&) = delete;
  StandInRenderer& operator=(const StandInRenderer&) = delete;
};

// A page that is drawn, and pictures as files that are asked for with PNG and answered by `answer`.
class FiguresOfAPage : public ::testing::Test {
 protected:
  WrittenReport written(const std::string& answer) {
    std::filesystem::create_directories(figures());
    home_.write("figures/x.svg", "old");
    home_.write("figures/x.png", "old");
    const StandInRenderer python(home_, fmt::format(R"sh(read -r asked
case "$asked" in
*'"png":true'*) printf '%s\n' '{}' ;;
*) printf '%s\n' '{{"svg":"<svg width=\"9\" height=\"9\"><path d=\"M0,0\"/></svg>"}}' ;;
esac
)sh",
                                                    answer));
    const Report report{
        .title = "t", .verdict = {}, .sections = {{"s", {block_of("x", true)}}}, .missing = {}};
    return write_report(report, {.page = home_.path() / "page.html", .figures = figures(), .tables = {}});
  }
  std::filesystem::path figures() const { return home_.path() / "figures"; }

 private:
  TemporaryDirectory home_;
};

TEST_F(FiguresOfAPage, AreSaidWhenTheyFailAndLeaveNoOldOnes) {
  const WrittenReport report = written(R"({"error":"no picture"})");
  EXPECT_EQ(report.drawn, 1);  // on the page
  EXPECT_THAT(report.trouble, AllOf(HasSubstr("Figure x"), HasSubstr("no picture")));
  EXPECT_FALSE(std::filesystem::exists(figures() / "x.svg"));
  EXPECT_FALSE(std::filesystem::exists(figures() / "x.png"));
  EXPECT_TRUE(std::filesystem::exists(figures() / "x.vl.json"));
}

TEST_F(FiguresOfAPage, AreSaidWhenAPngIsMissing) {
  EXPECT_THAT(written(R"({"svg":"<svg/>"})").trouble, HasSubstr("gave no PNG"));
  EXPECT_EQ(bytes_in(figures() / "x.svg"), "<svg/>");
  EXPECT_FALSE(std::filesystem::exists(figures() / "x.png"));
}

TEST_F(FiguresOfAPage, AreWrittenInPlaceOfOldOnes) {
  EXPECT_EQ(written(R"({"svg":"<svg/>","png":"4142"})").trouble, "");
  EXPECT_EQ(bytes_in(figures() / "x.svg"), "<svg/>");
  EXPECT_EQ(bytes_in(figures() / "x.png"), "AB");
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
    return kind_of_directory(path, "study.json");
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

// How a study is read is handed in; without it there is none.
TEST(DirectoryReport, TakesChaptersOfStudies) {
  const TemporaryDirectory directory;
  std::vector<std::string> directories;
  for (const char* name : {"a", "b"}) {
    directories.push_back(directory.path() / name);
    std::filesystem::create_directory(directories.back());
    directory.write(std::string(name) + "/s.json", "{}");
  }
  EXPECT_THAT(error_of([&] { report_of(directories, ""); }), HasSubstr("holds none of probe.json"));
  const Chapter chapter{.facts = {{"kind", "study"}},
                        .question = "What?",
                        .verdict = "Found.",
                        .lead = {"In short", {block_of("y", false)}, true},
                        .sections = {{"Tables", {block_of("x", false)}}},
                        .missing = {"m"}};
  const StudyReader reader{
      .manifest = "s.json",
      .read = [&](const std::vector<std::string>& given, const std::vector<JudgeFiles>&) {
        const bool several = given.size() > 1;
        return StudyChapters{.chapters = std::vector<Chapter>(given.size(), chapter),
                             .question = several ? "Both?" : "",
                             .verdict = several ? "Both." : "",
                             .lead = several ? Section{"In short", {block_of("z", false)}, true} : Section{}};
      }};
  const Report one = report_of({directories[0]}, "", reader);
  EXPECT_EQ(one.title, "Report of " + directories[0]);
  EXPECT_EQ(one.question, "What?");
  EXPECT_EQ(one.verdict, "Found.");
  ASSERT_EQ(one.sections.size(), 3U);
  EXPECT_TRUE(one.sections[0].leads);
  EXPECT_EQ(one.sections[1].blocks[0].table->rows()[0][2], "study");
  EXPECT_EQ(one.sections[2].title, "Tables");
  EXPECT_THAT(one.missing, ElementsAre("m"));
  const Report two = report_of(directories, "", reader);
  EXPECT_EQ(two.question, "Both?");
  EXPECT_EQ(two.verdict, "Both.");
  ASSERT_EQ(two.sections.size(), 6U);
  EXPECT_EQ(two.sections[0].blocks[0].id, "z");
  EXPECT_EQ(two.sections[1].title, "What was run");
  EXPECT_EQ(two.sections[2].title, "In short, " + directories[0]);
  EXPECT_EQ(two.sections[2].blocks[0].words, "What? Found.");
  EXPECT_FALSE(two.sections[2].leads);
  EXPECT_EQ(two.sections[5].title, "Tables, " + directories[1]);
}

}  // namespace
}  // namespace routeopd::report
