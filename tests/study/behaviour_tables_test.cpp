// A study's tables of cost and behaviour, computed here once more from what the synthetic study is made of;
// and the files that tables are written to.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "routeopd/report/report_files.h"
#include "study/whole_study.h"

namespace routeopd::study {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BehaviourTables, CostHasRatiosAndThePapersRowOfTheSameSetting) {
  EXPECT_EQ(cell("cost", "routeopd", "relative time [95 %]"), "1.050 [1.040, 1.060]");
  EXPECT_EQ(cell("cost", "routeopd", "learner ms"), "250.0") << "with the making of routes";
  EXPECT_EQ(cell("cost", "sampled_rkl-lean", "relative time [95 %]"), "1.000 [0.990, 1.010]");
  EXPECT_EQ(cell("cost", "sampled_rkl-lean", "k"), kDash);
  EXPECT_EQ(cell("cost", "sampled_rkl-lean", "paper s per step"), "184.6");
  EXPECT_EQ(cell("cost", "sampled_rkl", "relative time [95 %]"), "1.010 [1.000, 1.020]");
  EXPECT_EQ(cell("cost", "sampled_rkl", "paper s per step"), kDash) << "the paper's is the lean one";
  EXPECT_EQ(cell("cost", "routeopd", "ms per step"), "550.0");
  EXPECT_EQ(cell("cost", "routeopd", "peak MB"), "504");
  EXPECT_EQ(cell("cost", "routeopd", "relative teacher calls"), "1.00");
  EXPECT_EQ(cell("cost", "routeopd", "paper peak GB"), "65.0");
  EXPECT_EQ(cell("cost", "routeopd", "paper tokens/s"), "22510");
  EXPECT_EQ(cell("cost", "routeopd", "paper relative time"), "1.015");     // k = 16, m = 2
  EXPECT_EQ(cell("cost", "routeopd-m8", "paper relative time"), "1.055");  // its own default k, m = 8
  EXPECT_EQ(cell("cost", "routeopd-kfull", "paper relative time"), "1.125");
  EXPECT_EQ(cell("cost", "routeopd-k8", "paper relative time"), "–");
  EXPECT_EQ(cell("cost", "full_rkl", "paper relative learner time"), fmt::format("{:.3f}", 46.1 / 31.8));
  EXPECT_THAT(block("cost").words, HasSubstr("sampled_rkl-lean scores the tokens taken alone"));
  EXPECT_EQ(verdict("time of a step, full_rkl to sampled_rkl-lean"),
            "1.090 times | 1.020 [1.010, 1.030] times | shown");
  EXPECT_EQ(cell("route-construction", "64", "routing"), "12.80");
  EXPECT_EQ(cell("route-construction", "64", "paper routing"), "6.9");
  EXPECT_EQ(verdict("time of top k from k = 16, m = 2 to k = 64, m = 2"),
            "2.9 times | 4.0 times | same direction (no interval)");
}

TEST(BehaviourTables, TransitionsAndLabelsAreCountedOverSeeds) {
  int both = 0, lost = 0, repaired = 0, neither = 0, from_reasoning = 0, to_format = 0;
  std::map<std::string, int> labels;
  for (const int seed : Study::seeds()) {
    for (int p = 0; p < Study::kProblems; ++p) {
      for (int s = 0; s < Study::kSamples; ++s) {
        const bool a = Study::right("fixed_mid", seed, 20, p, s),
                   b = Study::right("routeopd", seed, 20, p, s);
        ++(a ? (b ? both : lost) : (b ? repaired : neither));
        const std::string before = Study::label("fixed_mid", seed, 20, p, s),
                          after = Study::label("routeopd", seed, 20, p, s);
        from_reasoning += before == "reasoning" && b ? 1 : 0;
        to_format += a && after == "format" ? 1 : 0;
        ++labels[after];
      }
    }
  }
  const std::string row = "fixed_mid → routeopd";
  EXPECT_EQ(cell("correctness-transitions", row, "both right"), std::to_string(both));
  EXPECT_EQ(cell("correctness-transitions", row, "first only"), std::to_string(lost));
  EXPECT_EQ(cell("correctness-transitions", row, "routeopd only"), std::to_string(repaired));
  EXPECT_EQ(cell("correctness-transitions", row, "both wrong"), std::to_string(neither));
  EXPECT_EQ(cell("correctness-transitions", row, "paper RouteOPD only"), "27");
  EXPECT_EQ(cell("correctness-transitions", row, "paper net %"), "+2.29");  // 11 of 480
  EXPECT_EQ(cell("error-transitions", "reasoning → correct", row), std::to_string(from_reasoning));
  EXPECT_EQ(cell("error-transitions", "correct → format", row), std::to_string(to_format));
  EXPECT_EQ(cell("error-transitions", "correct → format", "fixed_mid, paper"), "1");
  EXPECT_EQ(cell("error-transitions", "reasoning → correct", "sampled_rkl, paper"), "34");
  const double total = 2.0 * Study::kProblems * Study::kSamples;
  EXPECT_EQ(cell("error-distribution", "routeopd", "premature_stop"),
            fmt::format("{:.1f}", 100 * labels["premature_stop"] / total));
  EXPECT_EQ(cell("error-distribution", "routeopd", "responses"), fmt::format("{:.0f}", total));
  EXPECT_EQ(cell("error-distribution", "routeopd", "paper reasoning"),
            fmt::format("{:.1f}", 100.0 * 130 / 480));
  EXPECT_EQ(cell("error-distribution", "routeopd", "wrong, not told apart"), "0.0");
}

TEST(BehaviourTables, LabelsHavePairedIntervalsToo) {
  const auto labelled = [](const std::string& who) {
    grade::Correctness all{Study::kProblems, 2 * Study::kSamples, {}};
    for (int p = 0; p < Study::kProblems; ++p)
      for (const int seed : Study::seeds())
        for (int s = 0; s < Study::kSamples; ++s)
          all.correct_PS.push_back(Study::label(who, seed, 20, p, s) == "reasoning");
    return all;
  };
  const grade::Correctness a = labelled("sampled_rkl"), b = labelled("routeopd");
  EXPECT_THAT(verdict("share of reasoning, routeopd over sampled_rkl"),
              StartsWith(fmt::format("-4.38 | {} | ", points(grade::paired_contrast({&a, 1}, {&b, 1}, {})))));
}

TEST(BehaviourTables, LengthsAreThoseOfTheSummaries) {
  std::vector<double> tokens;
  for (int p = 0; p < Study::kProblems; ++p)
    for (int s = 0; s < Study::kSamples; ++s) tokens.push_back(Study::tokens("union_rkl", p, s));
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(cell("response-lengths", "union_rkl", "P90"),
            fmt::format("{:.1f}", grade::quantile(tokens, 0.9)));
  EXPECT_EQ(cell("response-lengths", "union_rkl", "paper P90"), "–");
  EXPECT_EQ(cell("response-lengths", "fixed_mid", "paper P90"), "4388");
  EXPECT_EQ(cell("response-lengths", "routeopd", "paper clipped %"), "2.34");
}

// Of two studies on one page, both keep their tables.
TEST(BehaviourTables, TablesOfOneNameBothStay) {
  const TemporaryDirectory home;
  std::vector<Section> twice = sections();
  twice.insert(twice.end(), sections().begin(), sections().end());
  report::write_tables(twice, home.path());
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(home.path()))
    files += entry.path().extension() == ".csv" ? 1 : 0;
  EXPECT_EQ(files, 2 * 23U);
}

TEST(BehaviourTables, TablesAreWrittenInThreeFormats) {
  const TemporaryDirectory home;
  report::write_tables(sections(), home.path() / "tables");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(home.path() / "tables"))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 23U * 3);
  const Block& main = block("main-table");
  const std::string markdown = bytes_in(home.path() / "tables/main-table.md"),
                    csv = bytes_in(home.path() / "tables/main-table.csv"),
                    latex = bytes_in(home.path() / "tables/main-table.tex");
  EXPECT_TRUE(markdown.starts_with("### Accuracy, Avg@4 in percent\n\nIntervals are 95 % "));
  EXPECT_TRUE(markdown.ends_with(main.table->rendered(table::TableFormat::kMarkdown)));
  EXPECT_TRUE(csv.starts_with("# Accuracy; Avg@4 in percent\r\n# Intervals are 95 % "));
  EXPECT_TRUE(csv.ends_with(main.table->rendered(table::TableFormat::kCsv)));
  EXPECT_TRUE(latex.starts_with("% Accuracy, Avg@4 in percent\n% Intervals are 95"));
  EXPECT_TRUE(latex.ends_with(main.table->rendered(table::TableFormat::kLatex)));
  // Paragraphs of Markdown are apart from the table, or it is none.
  EXPECT_THAT(markdown, HasSubstr("\n\n| arm |"));
}

}  // namespace
}  // namespace routeopd::study
