// Two runs of one protocol compared, and the sentences for two that are not.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "grade/eval_testing.h"

namespace routeopd::grade {
namespace {

using ::testing::HasSubstr;

EvalRun run_of(const std::string& name, const std::vector<std::string>& math,
               const std::vector<std::string>& aime) {
  Json suites;
  EvalRun run{name, {}, {}};
  const auto add = [&](const std::string& suite, const std::vector<std::string>& rows) {
    const auto samples = static_cast<std::int64_t>(rows[0].size());
    const auto problems = static_cast<std::int64_t>(rows.size());
    suites[suite] = {{"sha256", "hash of " + suite}, {"n", problems}, {"samples", samples}};
    EvalSuite read{suite, {}, {problems, samples, {}}};
    for (const EvalResponse& response : responses_of(suite, rows)) {
      if (response.sample == 0) read.problems.push_back(response.problem);
      read.correctness.correct_PS.push_back(response.correct);
    }
    run.suites.push_back(read);
  };
  add("aime", aime);
  add("math", math);
  run.summary = summary_of(suites);
  return run;
}

const std::vector<std::string> kMathA{"1100", "0011", "1111", "0000"};
const std::vector<std::string> kMathB{"1110", "0000", "1110", "0000"};
const std::vector<std::string> kAimeA{"10", "00"};
const std::vector<std::string> kAimeB{"01", "11"};

TEST(Compare, GivesContrastsTransitionsAndChanges) {
  const EvalRun a = run_of("A", kMathA, kAimeA);
  const EvalRun b = run_of("B", kMathB, kAimeB);
  const Bootstrap bootstrap{.draws = 300};
  const Comparison comparison = compare_runs(a, b, bootstrap);
  EXPECT_EQ(comparison.run_a, "A");
  EXPECT_EQ(comparison.run_b, "B");
  ASSERT_EQ(comparison.suites.size(), 2U);

  const SuiteComparison& math = comparison.suites[1];
  EXPECT_EQ(math.name, "math");
  EXPECT_EQ(math.problems, 4);
  EXPECT_EQ(math.samples, 4);
  EXPECT_EQ(math.average_a, 0.5);
  EXPECT_EQ(math.average_b, 0.375);
  EXPECT_EQ(math.contrast.mean, -0.125);
  EXPECT_EQ(math.transitions.both, 5);
  EXPECT_EQ(math.transitions.a_only, 3);
  EXPECT_EQ(math.transitions.b_only, 1);
  EXPECT_EQ(math.transitions.neither, 7);
  ASSERT_EQ(math.changes.size(), 3U);
  EXPECT_EQ(math.changes[0].problem, "p1");
  EXPECT_EQ(math.changes[0].right_a, 2);
  EXPECT_EQ(math.changes[0].right_b, 0);
  EXPECT_EQ(math.changes[1].problem, "p2");
  EXPECT_EQ(math.changes[2].problem, "p0");

  const SuiteComparison& aime = comparison.suites[0];
  ASSERT_EQ(aime.changes.size(), 1U) << "another sample, but as many: no change of the problem";
  EXPECT_EQ(aime.contrast.mean, 0.5);

  EXPECT_EQ(comparison.average_a, (0.5 + 0.25) / 2);
  EXPECT_EQ(comparison.average_b, (0.375 + 0.75) / 2);
  EXPECT_EQ(comparison.contrast.mean, (0.5 - 0.125) / 2);
  EXPECT_EQ(comparison.transitions.both, 5);
  EXPECT_EQ(comparison.transitions.a_only, 4);
  EXPECT_EQ(comparison.transitions.b_only, 4);
  EXPECT_EQ(comparison.transitions.neither, 7);
}

TEST(Compare, ASuiteHasItsOwnDrawsInItsRowAsInTheAverage) {
  // Enough problems with changes of every size that two series of draws do not end at the same values.
  std::vector<std::string> rows_a;
  std::vector<std::string> rows_b;
  for (int p = 0; p < 60; ++p) {
    rows_a.push_back(fmt::format("{:08b}", (p * 37) % 256));
    rows_b.push_back(fmt::format("{:08b}", (p * p * 11) % 256));
  }
  const EvalRun a = run_of("A", rows_a, rows_b);
  const EvalRun b = run_of("B", rows_b, rows_a);
  const Bootstrap bootstrap{.draws = 500};
  const Comparison comparison = compare_runs(a, b, bootstrap);
  const auto math = [&](std::uint32_t number) {
    return paired_contrast({&a.suites[1].correctness, 1}, {&b.suites[1].correctness, 1},
                           {.draws = 500, .first_suite = number});
  };
  EXPECT_EQ(comparison.suites[1].contrast.low, math(1).low);
  EXPECT_EQ(comparison.suites[1].contrast.high, math(1).high);
  EXPECT_NE(math(0).low, math(1).low) << "this test cannot fail";
  const std::vector<Correctness> all_a{a.suites[0].correctness, a.suites[1].correctness};
  const std::vector<Correctness> all_b{b.suites[0].correctness, b.suites[1].correctness};
  EXPECT_EQ(comparison.contrast.low, paired_contrast(all_a, all_b, bootstrap).low);
  EXPECT_EQ(comparison.contrast.high, paired_contrast(all_a, all_b, bootstrap).high);
}

TEST(Compare, PairsProblemsByIdWhateverTheirOrder) {
  const EvalRun a = run_of("A", kMathA, kAimeA);
  const EvalRun b = run_of("B", kMathB, kAimeB);
  EvalRun shuffled = run_of("B", {kMathB[2], kMathB[0], kMathB[3], kMathB[1]}, kAimeB);
  shuffled.suites[1].problems = {"p2", "p0", "p3", "p1"};
  const Comparison straight = compare_runs(a, b, {});
  const Comparison crossed = compare_runs(a, shuffled, {});
  EXPECT_EQ(straight.suites[1].transitions.both, crossed.suites[1].transitions.both);
  EXPECT_EQ(straight.suites[1].contrast.low, crossed.suites[1].contrast.low);
  EXPECT_EQ(straight.suites[1].changes[0].problem, crossed.suites[1].changes[0].problem);
}

// Of two extractors the older one's responses are to be graded again.
TEST(Compare, RefusesToMixExtractorsAndSaysWhatToDo) {
  const auto error_with = [](const char* first, const char* second) {
    EvalRun a = run_of("runs/a", kMathA, kAimeA);
    EvalRun b = run_of("runs/b", kMathB, kAimeB);
    a.summary["extractor"] = first;
    b.summary["extractor"] = second;
    return error_of([&] { compare_runs(a, b, {.draws = 10}); });
  };
  const std::string begins =
      "runs/a and runs/b cannot be compared: extractor is \"math-2\" in the first and \"math-3\" in the "
      "second; run the `routeopd eval` command of runs/a again, ";
  EXPECT_EQ(error_with("math-2", "math-3"),
            begins + "which samples nothing and grades the responses by math-3");
  EXPECT_THAT(error_with("math-3", "math-2"), HasSubstr("command of runs/b again"));
  EXPECT_THAT(error_with("math-1", "math-2"), HasSubstr("command of runs/a and runs/b again"));
  EXPECT_EQ(error_with("math-2", "math-2"), "");
}

TEST(Compare, RefusesRunsOfAnotherProtocolAndSaysWhere) {
  const EvalRun a = run_of("runs/a", kMathA, kAimeA);
  const auto error_with = [&](const auto& change) {
    EvalRun b = run_of("runs/b", kMathB, kAimeB);
    change(b);
    return error_of([&] { compare_runs(a, b, {.draws = 10}); });
  };
  EXPECT_EQ(error_with([](EvalRun&) {}), "");
  EXPECT_EQ(error_with([](EvalRun& b) { b.summary["decoding"]["temperature"] = 1.0; }),
            "runs/a and runs/b cannot be compared: decoding.temperature is 0.6 in the first and 1.0 in the "
            "second");
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["decoding"]["top_k"] = 20; }),
              HasSubstr("decoding.top_k is null in the first and 20 in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["decoding"].erase("top_p"); }),
              HasSubstr("decoding.top_p is 1.0 in the first and null in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["decoding"] = "greedy"; }),
              HasSubstr("in the first and \"greedy\" in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["seed"] = 43; }),
              HasSubstr("seed is 42 in the first and 43 in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["template"] = "raw"; }),
              HasSubstr("template is \"chat\" in the first and \"raw\" in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["extractor"] = "box"; }),
              HasSubstr("extractor is \"phrase or box, 1\" in the first and \"box\" in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.summary["suites"]["math"]["sha256"] = "x"; }),
              HasSubstr("sha256 of suite math is \"hash of math\" in the first and \"x\" in the second"));
  EXPECT_THAT(
      error_with([](EvalRun& b) { b.suites.pop_back(); }),
      HasSubstr("the list of suites is [\"aime\",\"math\"] in the first and [\"aime\"] in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b = run_of("runs/b", {"11", "00", "11", "00"}, kAimeB); }),
              HasSubstr("samples of suite math is 4 in the first and 2 in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b = run_of("runs/b", {"1100"}, kAimeB); }),
              HasSubstr("the number of problems of suite math is 4 in the first and 1 in the second"));
  EXPECT_THAT(error_with([](EvalRun& b) { b.suites[1].problems[2] = "other"; }),
              HasSubstr("problem p2 of suite math is in the first alone"));
}

// The draws of a suite are the same in all pairs: the mean over pairs is then the contrast of the summed
// scores, which one comparison of runs with both pairs' samples side by side has too.
TEST(ComparePairs, SharesTheDrawsOfASuite) {
  const std::vector<std::string> more_a{"10", "01", "11", "00"}, more_b{"11", "11", "10", "00"};
  const std::vector<std::string> first_a{"11", "00", "11", "00"}, first_b{"11", "10", "01", "00"};
  const auto beside = [](std::vector<std::string> left, const std::vector<std::string>& right) {
    for (std::size_t p = 0; p < left.size(); ++p) left[p] += right[p];
    return left;
  };
  const std::vector<std::pair<EvalRun, EvalRun>> pairs{
      {run_of("A", first_a, kAimeA), run_of("B", first_b, kAimeB)},
      {run_of("C", more_a, kAimeB), run_of("D", more_b, kAimeA)}};
  const Bootstrap bootstrap{.draws = 400};
  const MacroComparison macro = compare_pairs(pairs, bootstrap);
  const Comparison together =
      compare_runs(run_of("A", beside(first_a, more_a), beside(kAimeA, kAimeB)),
                   run_of("B", beside(first_b, more_b), beside(kAimeB, kAimeA)), bootstrap);
  ASSERT_EQ(macro.suites.size(), 2U);
  for (std::size_t s = 0; s < 2; ++s) {
    const MacroRow& row = macro.suites[s];
    EXPECT_EQ(row.name, together.suites[s].name);
    EXPECT_EQ(row.pairs, 2);
    EXPECT_DOUBLE_EQ(row.average_a, together.suites[s].average_a);
    EXPECT_DOUBLE_EQ(row.contrast.mean, together.suites[s].contrast.mean);
    EXPECT_NEAR(row.contrast.low, together.suites[s].contrast.low, 1e-15);
    EXPECT_NEAR(row.contrast.high, together.suites[s].contrast.high, 1e-15);
  }
  EXPECT_NEAR(macro.average.contrast.mean, together.contrast.mean, 1e-15);
  EXPECT_NEAR(macro.average.contrast.low, together.contrast.low, 1e-15);
  EXPECT_NEAR(macro.average.contrast.high, together.contrast.high, 1e-15);
  EXPECT_EQ(macro.average.transitions.b_only, together.transitions.b_only);
}

// Pairs weigh the same, however many suites each has.
TEST(ComparePairs, WeighsPairsAndNotSuites) {
  std::vector<std::pair<EvalRun, EvalRun>> pairs{{run_of("A", kMathA, kAimeA), run_of("B", kMathB, kAimeB)},
                                                 {run_of("C", kMathB, kAimeA), run_of("D", kMathA, kAimeB)}};
  for (EvalRun* run : {&pairs[1].first, &pairs[1].second}) {
    run->suites.erase(run->suites.begin());
    run->summary["suites"].erase("aime");
  }
  const MacroComparison macro = compare_pairs(pairs, {.draws = 300});
  EXPECT_DOUBLE_EQ(macro.average.contrast.mean,
                   (macro.pairs[0].contrast.mean + macro.pairs[1].contrast.mean) / 2);
  EXPECT_NE(macro.pairs[0].contrast.mean, macro.pairs[1].contrast.mean);
  ASSERT_EQ(macro.suites.size(), 2U);
  EXPECT_EQ(macro.suites[0].pairs, 1);
  EXPECT_EQ(macro.suites[1].pairs, 2);
  EXPECT_EQ(macro.suites[1].contrast.mean, 0) << "the second pair is the first turned round";
}

TEST(ComparePairs, TakesProblemsInOneOrderAndRefusesOtherSuites) {
  const Bootstrap bootstrap{.draws = 200};
  std::vector<std::pair<EvalRun, EvalRun>> pairs{{run_of("A", kMathA, kAimeA), run_of("B", kMathB, kAimeB)},
                                                 {run_of("C", kMathA, kAimeA), run_of("D", kMathB, kAimeB)}};
  const Interval straight = compare_pairs(pairs, bootstrap).average.contrast;
  for (EvalRun* run : {&pairs[1].first, &pairs[1].second}) {
    EvalSuite& math = run->suites[1];
    std::reverse(math.problems.begin(), math.problems.end());
    std::vector<std::uint8_t> rows;
    for (std::int64_t p = math.correctness.problems; p-- > 0;) {
      const auto row = math.correctness.correct_PS.begin() + p * math.correctness.samples;
      rows.insert(rows.end(), row, row + math.correctness.samples);
    }
    math.correctness.correct_PS = rows;
  }
  const Interval mixed = compare_pairs(pairs, bootstrap).average.contrast;
  EXPECT_EQ(mixed.low, straight.low);
  EXPECT_EQ(mixed.high, straight.high);
  for (EvalRun* run : {&pairs[1].first, &pairs[1].second})
    run->summary["suites"]["math"]["sha256"] = "another";
  EXPECT_THAT(error_of([&] { compare_pairs(pairs, bootstrap); }), HasSubstr("sha256 of suite math"));
}

}  // namespace
}  // namespace routeopd::grade
