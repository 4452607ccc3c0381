// A study's tables: every family of cells computed here once more from what the synthetic study is made of.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "routeopd/report/report_files.h"
#include "routeopd/study/probe_contrast.h"
#include "routeopd/study/study_answer.h"
#include "routeopd/study/study_view.h"
#include "study/whole_study.h"

namespace routeopd::study {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(StudyTables, AWholeStudyFillsEveryTable) {
  std::vector<std::string> ids;
  for (const Section& section : sections()) {
    for (const Block& each : section.blocks) {
      EXPECT_TRUE(each.table) << each.id;
      EXPECT_THAT(each.missing, IsEmpty()) << each.id;
      EXPECT_FALSE(each.words.empty()) << each.id;
      ids.push_back(each.id);
    }
  }
  EXPECT_THAT(ids, testing::ElementsAre("main-table", "paired-contrasts", "ablation-destination",
                                        "ablation-objective", "ablation-budget", "target-realization",
                                        "accuracy-by-concentration", "support-sweep", "pair-sweep",
                                        "probe-arms", "probe-ladder", "strata-mismatch", "strata-entropy",
                                        "strata-concentration", "route-cases", "training-dynamics",
                                        "stability", "cost", "route-construction", "correctness-transitions",
                                        "error-distribution", "error-transitions", "response-lengths"));
}

// Every part of the study gives its rows to the one table of verdicts, each effect once.
TEST(StudyTables, VerdictsComeFromEveryPart) {
  std::set<std::string> parts, effects;
  for (const Verdict& each : tables().verdicts) {
    parts.insert(each.part);
    EXPECT_TRUE(effects.insert(each.effect).second) << each.effect;
    EXPECT_FALSE(each.paper.empty() || each.here.empty() || each.outcome.empty()) << each.effect;
  }
  EXPECT_THAT(parts, testing::UnorderedElementsAre("Accuracy", "Ablations", "Support and pairs", "Mechanism",
                                                   "Training", "Cost", "Behaviour"));
  for (const Section& section : sections())
    for (const Block& each : section.blocks)
      EXPECT_THAT(each.words, Not(HasSubstr("The paper has"))) << each.id;
}

TEST(StudyTables, TheMainTableHasMeansIntervalsAndTheSpreadOverSeeds) {
  const double first = share("routeopd", 42), second = share("routeopd", 43), mean = (first + second) / 2;
  EXPECT_EQ(cell("main-table", "routeopd", "Avg@4 %"), fmt::format("{:.2f}", 100 * mean));
  EXPECT_EQ(cell("main-table", "routeopd", "seeds"), "2");
  EXPECT_EQ(cell("main-table", "routeopd", "sd over seeds"),
            fmt::format("{:.2f}", 100 * std::abs(first - second) / std::sqrt(2)));
  const grade::Correctness all = grades("routeopd");
  const grade::Interval own = grade::average_interval({&all, 1}, {});
  EXPECT_EQ(cell("main-table", "routeopd", "95 % interval"),
            fmt::format("[{:.2f}, {:.2f}]", 100 * own.low, 100 * own.high));
  EXPECT_EQ(cell("main-table", "routeopd", "over sampled_rkl [95 %]"),
            points(contrast("sampled_rkl", "routeopd")));
  EXPECT_EQ(cell("main-table", "sampled_rkl", "over sampled_rkl [95 %]"), "–");
  EXPECT_EQ(cell("main-table", "routeopd", "paper 1"), "33.79");
  EXPECT_EQ(cell("main-table", "base (untrained)", "paper 3"), "70.44");
  EXPECT_EQ(cell("main-table", "union_rkl", "paper 2"), "–");
  EXPECT_EQ(cell("main-table", "base (untrained)", "Avg@4 %"),
            fmt::format("{:.2f}", 100 * share("base", 0, 0)));
  EXPECT_EQ(cell("main-table", "teacher", "Avg@4 %"), fmt::format("{:.2f}", 100 * share("teacher", 0, 0)));
  EXPECT_EQ(cell("main-table", "teacher", "seeds"), "–");
}

TEST(StudyTables, ContrastsAreSecondLessFirstWithThePapersBeside) {
  const grade::Interval expected = contrast("full_rkl", "routeopd");
  ASSERT_GT(expected.low, 0);
  EXPECT_EQ(cell("paired-contrasts", "full_rkl", "difference [95 %]"), points(expected));
  EXPECT_EQ(cell("paired-contrasts", "full_rkl", "paper's effect"), "shown");
  EXPECT_EQ(verdict("accuracy, routeopd over full_rkl"), fmt::format("+1.13 | {} | shown", points(expected)));
  EXPECT_EQ(cell("paired-contrasts", "full_rkl", "paper 2 [95 %]"), "+1.13 [+0.46, +1.80]");
  EXPECT_EQ(cell("paired-contrasts", "full_rkl", "paper's mean of four [95 %]"), "+1.24 [+0.90, +1.58]");
  EXPECT_EQ(cell("paired-contrasts", "union_fkl", "paper's effect"), "–");
}

TEST(StudyTables, TheTopSaysWhatTheIntervalsShowAndWhatTheyDoNot) {
  const StudyView view{study_files(), StudyGrades(study_files())};
  EXPECT_EQ(study_question(view),
            "Does routeopd end above sampled_rkl, full_rkl, full_fkl, fixed_mid, exact, union_rkl and "
            "union_fkl in Avg@4 on 12 held-out problems?");
  const std::string answer = study_answer(view);
  EXPECT_THAT(answer, StartsWith(fmt::format("In points of Avg@4, routeopd ends above sampled_rkl ({})",
                                             points(contrast("sampled_rkl", "routeopd")))));
  const grade::Interval open = contrast("exact", "routeopd");
  ASSERT_LT(open.low, 0);
  EXPECT_THAT(answer, HasSubstr("Not shown is a difference from "));
  EXPECT_THAT(answer, HasSubstr(fmt::format("exact ({})", points(open))));
  EXPECT_THAT(answer, EndsWith("over 12 problems of 4 samples with up to 2 training seeds pooled, and say "
                               "nothing of other seeds, tasks or models."));
}

// Runs that say their learning rates; the shared ones are worse.
TEST(StudyTables, RatesAreAColumnAndTheSharedRateATableOfItsOwn) {
  StudyResults study = study_files();
  const auto set_rates = [&](double other) {
    for (StudyRun& run : study.runs)
      run.files.recipe["optimizer"]["lr"] = run.name == "routeopd" ? other : 5e-4;
  };
  set_rates(5e-4);
  std::vector<Section> all = study_tables(study).sections;
  EXPECT_EQ(cell(block_in(all, "main-table"), "routeopd", "learning rate"), "no column");
  EXPECT_THAT(block_in(all, "main-table").words, StartsWith("All arms at learning rate 0.0005. "));
  EXPECT_THAT(study_question({study, StudyGrades(study)}), EndsWith(", all at learning rate 0.0005?"));
  // One rate for all, and each arm's own choice.
  study.tuning = Tuning{.rates = {}, .shared_lr = 2.5e-4, .samples = 8, .problems = 64};
  EXPECT_THAT(block_in(study_tables(study).sections, "main-table").words,
              StartsWith("Each arm at its own learning rate, chosen on validation problems that are neither "
                         "trained on nor held out; here 0.0005 for all of them. "));
  EXPECT_THAT(study_question({study, StudyGrades(study)}), EndsWith(", each arm at its own learning rate?"));
  // What a reader should know stands beside it; a run whose recipe is gone has the rate of study.json.
  study.manifest["notes"] = {"the learning rates were chosen for another student"};
  for (StudyRun& run : study.runs) {
    if (run.name != "routeopd") continue;
    run.files.recipe = Json();
    run.lr = 2e-3;
  }
  all = study_tables(study).sections;
  EXPECT_THAT(block_in(all, "main-table").words,
              HasSubstr("Note: the learning rates were chosen for another student. "));
  EXPECT_EQ(cell(block_in(all, "main-table"), "routeopd", "learning rate"), "0.002");
  set_rates(1e-3);
  for (const StudyRun& run : study.runs) {
    if (run.name != "routeopd" && run.name != "sampled_rkl") continue;
    study.shared_runs.push_back(run);
    if (run.name == "routeopd") study.shared_runs.back().eval = study.base.value();
  }
  all = study_tables(study).sections;
  EXPECT_EQ(cell(block_in(all, "main-table"), "routeopd", "learning rate"), "0.001");
  EXPECT_EQ(cell(block_in(all, "main-table"), "teacher", "learning rate"), "–");
  EXPECT_THAT(block_in(all, "main-table").words, HasSubstr("chosen on validation problems"));
  const Block& shared = block_in(all, "main-table-shared");
  EXPECT_EQ(cell(shared, "routeopd", "Avg@4 %"), fmt::format("{:.2f}", 100 * share("base", 0, 0)));
  EXPECT_EQ(cell(shared, "sampled_rkl", "Avg@4 %"),
            cell(block_in(all, "main-table"), "sampled_rkl", "Avg@4 %"));
  EXPECT_EQ(cell(shared, "fixed_mid", "Avg@4 %"), "no row");
  EXPECT_THAT(shared.words, StartsWith("All arms at learning rate 0.00025,"));
  EXPECT_THAT(shared.missing, IsEmpty());
}

TEST(StudyTables, AblationsStandAgainstFixedMid) {
  EXPECT_EQ(cell("ablation-destination", "rank_matched", "over fixed_mid [95 %]"),
            points(contrast("fixed_mid", "rank_matched")));
  EXPECT_EQ(cell("ablation-destination", "rank_matched", "paper Avg@16 %"), "63.72");
  EXPECT_EQ(cell("ablation-destination", "rank_matched", "paper over fixed_mid"), "-0.71");
  EXPECT_EQ(cell("ablation-destination", "rank_matched_neutral", "over fixed_mid [95 %]"),
            points(contrast("fixed_mid", "rank_matched_neutral")));
  EXPECT_EQ(cell("ablation-destination", "rank_matched_neutral", "paper Avg@16 %"), kDash);
  EXPECT_EQ(cell("ablation-destination", "rank_matched_neutral", "paper over fixed_mid"), kDash);
  EXPECT_EQ(cell("ablation-objective", "source_only-one", "over fixed_mid [95 %]"),
            points(contrast("fixed_mid", "source_only-one")));
  EXPECT_EQ(cell("ablation-objective", "source_only-one", "paper Avg@16 %"), "–");
  EXPECT_EQ(cell("ablation-budget", "reversed", "Avg@4 %"),
            fmt::format("{:.2f}", 50 * (share("reversed", 42) + share("reversed", 43))));
  EXPECT_THAT(verdict("accuracy, reversed over fixed_mid"),
              StartsWith("-0.55 | " + points(contrast("fixed_mid", "reversed"))));
}

TEST(StudyTables, ConcentrationBinsHoldTheirProblems) {
  const auto second_bin = [](int p) { return p % 4 == 1; };  // .25, .35 and .35
  for (const char* bin : {"[0, .25)", "[.25, .5)", "[.5, .75)", "[.75, 1]"})
    EXPECT_EQ(cell("accuracy-by-concentration", bin, "problems"), "3");
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "states"), std::to_string(21 + 25 + 29));
  const double budget = (21 * 0.21 + 25 * 0.25 + 29 * 0.29) / (21 + 25 + 29);
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "budget"), fmt::format("{:.3f}", budget));
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "Avg@4 %"),
            fmt::format("{:.2f}", 100 * grade::average(grades("routeopd", second_bin))));
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "arm", 1), "exact");
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "Avg@4 %", 1),
            fmt::format("{:.2f}", 100 * grade::average(grades("exact", second_bin))));
  // Three problems have no interval to speak of.
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "over fixed_mid [95 %]"),
            points(contrast("fixed_mid", "routeopd", second_bin).mean));
  EXPECT_THAT(verdict("accuracy at concentration [.25, .5), routeopd over fixed_mid"),
              EndsWith(" | too few problems (3)"));
  EXPECT_EQ(cell("accuracy-by-concentration", "[.25, .5)", "paper over fixed_mid"), "+0.40");
}

TEST(StudyTables, SweepsAreInOrderAndHaveTheirDiagnostics) {
  std::vector<std::string> ks, ms;
  for (const auto& row : block("support-sweep").table->rows()) ks.push_back(row[0]);
  for (const auto& row : block("pair-sweep").table->rows()) ms.push_back(row[0]);
  EXPECT_THAT(ks, testing::ElementsAre("8", "16", "64", "full"));
  EXPECT_THAT(ms, testing::ElementsAre("1", "2", "4", "8", "all (exact)"));
  const double f = 100 * Study::fidelity("routeopd-k64", "fresh_adamw"),
               l = 100 * Study::leakage("routeopd-k64", "fresh_adamw");
  EXPECT_EQ(cell("support-sweep", "64", "fidelity % [95 %]"),
            fmt::format("{:.1f} [{:.1f}, {:.1f}]", f, f - 1, f + 1));
  EXPECT_EQ(cell("support-sweep", "64", "leakage % [95 %]"),
            fmt::format("{:.1f} [{:.1f}, {:.1f}]", l, l - 1, l + 1));
  EXPECT_EQ(cell("support-sweep", "64", "seeds"), "2");
  EXPECT_EQ(cell("support-sweep", "64", "relative variance"), "0.2");
  EXPECT_THAT(verdict("fidelity, k = full over k = 16"), HasSubstr(", 16 states | "));
  EXPECT_EQ(cell("support-sweep", "64", "over the default [95 %]"),
            points(contrast("routeopd", "routeopd-k64")));
  EXPECT_EQ(cell("support-sweep", "64", "student's mass in it %"), "97.0");
  EXPECT_EQ(cell("support-sweep", "64", "paper Avg@16 %"), "65.38");
  EXPECT_EQ(cell("support-sweep", "full", "paper leakage %"), "10.4");
  EXPECT_EQ(cell("support-sweep", "8", "paper Avg@16 %"), "–");
  EXPECT_EQ(cell("pair-sweep", "8", "loss variance"), "0.025");
  EXPECT_EQ(cell("pair-sweep", "8", "coverage %"), "90.0");
  EXPECT_EQ(cell("pair-sweep", "8", "paper loss variance"), "0.037");
  EXPECT_EQ(cell("pair-sweep", "all (exact)", "Avg@4 %"),
            fmt::format("{:.2f}", 50 * (share("exact", 42) + share("exact", 43))));
}

TEST(StudyTables, ProbesAreInPercentBesideThePapers) {
  const double f = Study::fidelity("rank_matched", "fresh_adamw"),
               l = Study::leakage("rank_matched", "fresh_adamw");
  EXPECT_EQ(cell("probe-arms", "rank_matched", "fidelity % [95 %]"),
            fmt::format("{:.1f} [{:.1f}, {:.1f}]", 100 * f, 100 * f - 1, 100 * f + 1));
  EXPECT_EQ(cell("probe-arms", "rank_matched", "P10"), fmt::format("{:.1f}", 100 * f - 30));
  EXPECT_EQ(cell("probe-arms", "rank_matched", "median"), fmt::format("{:.1f}", 100 * f + 2));
  EXPECT_EQ(cell("probe-arms", "rank_matched", "median leakage"), fmt::format("{:.1f}", 100 * l - 1));
  EXPECT_EQ(cell("probe-arms", "rank_matched", "paper P10"), "4.8");
  EXPECT_EQ(cell("probe-arms", "rank_matched", "paper leakage %"), "79.1");
  EXPECT_EQ(cell("probe-arms", "rank_matched", "paper median leakage"), "81.2");
  EXPECT_EQ(cell("probe-ladder", "sgd", "completion %"),
            fmt::format("{:.1f}", 85 - 0.2 * Study::place("routeopd")));
  EXPECT_EQ(cell("probe-ladder", "saved_adamw", "paper MAE"), "0.061");
  EXPECT_THAT(block("probe-ladder").words, HasSubstr("Measured at routeopd-seed42 step 10."));
  EXPECT_EQ(cell("target-realization", "independent_clipping", "cycle violations %"), "27.0");
  EXPECT_EQ(cell("target-realization", "independent_clipping", "target MAE"),
            fmt::format("{:.3f}", 0.05 + 0.001 * Study::place("independent_clipping")));
  EXPECT_EQ(cell("target-realization", "fixed_mid", "overshoot %, paper"), "18.7");
  EXPECT_EQ(cell("strata-mismatch", "Q3", "deficit reduction %"), "1.20");
  EXPECT_EQ(cell("strata-mismatch", "Q3", "completion %, paper"), "89.4");
  EXPECT_EQ(cell("strata-entropy", "Q4", "entropy"), "1.60");
  EXPECT_EQ(cell("strata-entropy", "Q4", "entropy, paper"), "2.18");
  EXPECT_EQ(cell("strata-concentration", "[.75, 1]", "budget"), "0.350");
  EXPECT_EQ(cell("strata-concentration", "[.75, 1]", "paper budget"), "0.326");
  EXPECT_EQ(cell("strata-concentration", "[.75, 1]", "paper budget", 1), "–");
  // State n achieves n / 15 of its target.
  EXPECT_EQ(cell("route-cases", "nearest to its target", "state"), "15");
  EXPECT_EQ(cell("route-cases", "median", "state"), "7");
  EXPECT_EQ(cell("route-cases", "farthest", "target / achieved"), "0.250 / 0.000");
  EXPECT_EQ(cell("route-cases", "farthest", "route"), "\" a\" → \" b\"");
  EXPECT_EQ(cell("strata-mismatch", "Q3", "arm", 1), "exact");
  EXPECT_EQ(cell("strata-mismatch", "Q3", "completion %, paper", 1), "–");
  EXPECT_THAT(verdict("completion, fresh_adamw over potential_matched"), StartsWith("88.1 against 92.6 | "));
}

TEST(StudyTables, ProbedStepsArePairedByStateAndDrawnBySequence) {
  ProbeFiles probe = *study_files().probe("arms");
  double sum = 0;
  for (int n = 0; n < Study::kStates; ++n)
    if (n != 3)  // has no leakage
      sum += Study::state_value(Study::leakage("routeopd", "fresh_adamw"), "routeopd", n) -
             Study::state_value(Study::leakage("sampled_rkl", "fresh_adamw"), "sampled_rkl", n);
  const ProbedStep mine{"routeopd", "fresh_adamw"}, other{"sampled_rkl", "fresh_adamw"};
  const std::optional<ProbeContrast> paired = probe_contrast(probe, mine, other, "leakage");
  ASSERT_TRUE(paired);
  EXPECT_EQ(paired->states, static_cast<std::size_t>(Study::kStates - 1));
  const grade::Interval& found = paired->difference;
  EXPECT_NEAR(found.mean, sum / (Study::kStates - 1), 1e-12);
  EXPECT_LT(found.low, found.mean);
  EXPECT_GT(found.high, found.mean);
  EXPECT_THAT(verdict("leakage, routeopd over sampled_rkl"),
              EndsWith(fmt::format(": {:+.1f} [{:+.1f}, {:+.1f}], 15 states | the opposite", 100 * found.mean,
                                   100 * found.low, 100 * found.high)));
  // The draws are of sequences: where two become one, the interval is another.
  for (Json& state : probe.states)
    if (state["sequence"] == 1) state["sequence"] = 10;
  EXPECT_TRUE(probe_contrast(probe, mine, other, "leakage"));
  for (Json& state : probe.states)
    if (state["sequence"] == 10) state["sequence"] = 0;
  EXPECT_FALSE(probe_contrast(probe, mine, other, "leakage")) << "nine sequences are too few";
  EXPECT_FALSE(probe_contrast(probe, mine, {"nobody", "fresh_adamw"}, "leakage"));
  EXPECT_FALSE(probe_contrast(ProbeFiles{}, mine, other, "leakage"));
}

// A study's own plan: the first seed is looked at on the way, the others at their end. Unfinished runs are
// left out.
TEST(StudyTables, TrainingFollowsWhatWasLookedAtOnTheWay) {
  StudyResults study = study_files();
  for (StudyRun& run : study.runs) {
    if (run.seed != 43) continue;
    run.files.probe.clear();
    run.files.evals.erase(run.files.evals.begin(), run.files.evals.end() - 1);
  }
  std::vector<Section> all = study_tables(study).sections;
  EXPECT_EQ(cell(block_in(all, "training-dynamics"), "fixed_mid", "seeds", 2), "1");
  EXPECT_EQ(cell(block_in(all, "training-dynamics"), "fixed_mid", "Avg@4 %", 2),
            fmt::format("{:.2f}", 100 * share("fixed_mid", 42, 20)));
  const auto clip = [](double own) { return fmt::format("{:.2f}", 100 * (0.02 + 0.001 * own)); };
  EXPECT_EQ(cell(block_in(all, "stability"), "fixed_mid", "clip ratio %"),
            clip(Study::place("fixed_mid") + 0.5));
  for (StudyRun& run : study.runs)
    if (run.seed == 43) run.complete = false;
  all = study_tables(study).sections;
  EXPECT_EQ(cell(block_in(all, "stability"), "fixed_mid", "clip ratio %"), clip(Study::place("fixed_mid")));
}

TEST(StudyTables, TrainingIsTheMeanOverSeeds) {
  // Rows of an arm are steps 0, 10 and 20.
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "step", 1), "10");
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "seeds", 1), "2");
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "Avg@4 %", 1),
            fmt::format("{:.2f}", 50 * (share("fixed_mid", 42, 10) + share("fixed_mid", 43, 10))));
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "Avg@4 %", 0),
            fmt::format("{:.2f}", 100 * share("base", 0, 0)));
  const double own = Study::place("fixed_mid") + 0.5;
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "mass %", 2),
            fmt::format("{:.2f}", 100 * (0.1 - 0.0001 * own)));
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "fidelity %", 1),
            fmt::format("{:.1f}", 100 * (0.6 + 0.001 * own)));
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "paper mass %", 2), "6.94");
  EXPECT_EQ(cell("training-dynamics", "fixed_mid", "paper mass %", 1), "–");
  EXPECT_EQ(cell("training-dynamics", "routeopd", "paper AIME24/25 %", 0), "27.19");
  EXPECT_EQ(cell("stability", "fixed_mid", "policy entropy"), fmt::format("{:.3f}", 1.5 - 0.01 * own - 0.02));
  EXPECT_EQ(cell("stability", "fixed_mid", "clip ratio %"),
            fmt::format("{:.2f}", 100 * (0.02 + 0.001 * own)));
  EXPECT_EQ(cell("stability", "fixed_mid", "routed tokens %"),
            fmt::format("{:.1f}", 100 * (0.8 + 0.0012 * own)));
  EXPECT_EQ(cell("stability", "sampled_rkl", "routed tokens %"), "–");
  EXPECT_EQ(cell("stability", "sampled_rkl", "routed tokens %, paper"), "–");
  EXPECT_EQ(cell("stability", "routeopd", "mean length, paper"), "1265");
  EXPECT_THAT(block("stability").words,
              HasSubstr("The teacher's entropy on the arms' last responses is 1.250"));
}

}  // namespace
}  // namespace routeopd::study
