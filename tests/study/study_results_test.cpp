// Readers of runs, probes and studies: what a good directory holds, and that a broken one is a sentence and
// no crash.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/report/tolerant_files.h"
#include "study/synthetic_study.h"

namespace routeopd::study {
namespace {

using report::ProbeFiles;
using report::read_probe;
using report::read_run;
using report::RunFiles;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Study = SyntheticStudy;

std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) found.push_back(std::filesystem::relative(entry.path(), directory));
  std::sort(found.begin(), found.end());
  return found;
}

TEST(StudyResults, AGoodStudyIsReadWhole) {
  const TemporaryDirectory home;
  const Study study(home.path());
  const StudyResults files = read_results(home.path());
  EXPECT_THAT(files.all_missing(), IsEmpty());
  EXPECT_EQ(files.runs.size(), Study::variants().size() * Study::seeds().size());
  const std::vector<const StudyRun*> runs = files.runs_of("routeopd-kfull");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1]->seed, 43);
  const RunFiles& run = runs[1]->files;
  EXPECT_EQ(run.arm, "routeopd");
  EXPECT_EQ(run.k, "full");
  EXPECT_EQ(run.m, 2);
  EXPECT_EQ(run.seed, 43);
  EXPECT_EQ(run.steps, Study::kSteps);
  EXPECT_EQ(run.shown, "runs/routeopd-kfull-seed43");
  ASSERT_EQ(run.metrics.size(), static_cast<std::size_t>(Study::kSteps));
  const Json read = json_of(run.metrics[6]), written = Study::metrics_line("routeopd-kfull", 43, 7);
  for (const auto& item : written.items()) EXPECT_EQ(read[item.key()], item.value()) << item.key();
  ASSERT_EQ(run.probe.size(), 3U);
  EXPECT_EQ(run.probe[0]["step"], 0);
  ASSERT_EQ(run.evals.size(), 2U);
  EXPECT_EQ(run.evals[0].step, 10);
  EXPECT_FALSE(run.evals[0].grades);
  ASSERT_TRUE(runs[1]->eval.grades);
  EXPECT_EQ(runs[1]->eval.grades->suites[0].correctness.problems, Study::kProblems);
  EXPECT_EQ(runs[1]->eval.labels.size(), static_cast<std::size_t>(Study::kProblems * Study::kSamples));
  ASSERT_TRUE(files.base && files.base->grades && files.teacher && files.teacher->grades);
  EXPECT_EQ(files.concentration.size(), static_cast<std::size_t>(Study::kProblems));
  const ProbeFiles* const arms = files.probe("arms");
  ASSERT_NE(arms, nullptr);
  EXPECT_EQ(arms->row("fixed_mid", "fresh_adamw"), Study::probe_row("fixed_mid", "fresh_adamw"));
  EXPECT_TRUE(arms->row("fixed_mid", "sgd").is_null());
  EXPECT_EQ(arms->arm("fixed_mid")["coverage"], 0.6);
  EXPECT_EQ(arms->states.size(), static_cast<std::size_t>(Study::kStates));
  EXPECT_EQ(arms->example["state"], 1);
  EXPECT_EQ(report::number_at(files.cost, {"rounds"}), 5);
}

// Every file in turn: cut in its middle, replaced by rubbish, removed, replaced by a directory.
TEST(StudyResults, EveryBrokenFileIsASentenceThatNamesIt) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  ASSERT_THAT(read_results(home.path()).all_missing(), IsEmpty());
  for (const std::filesystem::path& file : files_below(home.path())) {
    const std::string name = file.string();
    // Of evaluations on the way only the summary is read.
    if (name.find("step_10/") != std::string::npos && !name.ends_with("summary.json")) continue;
    const std::filesystem::path path = home.path() / file;
    const std::string good = bytes_in(path);
    const auto damaged = [&](const std::string& how, const std::string& bytes) {
      std::ofstream(path, std::ios::binary) << bytes;
      const std::vector<std::string> missing = read_results(home.path()).all_missing();
      EXPECT_THAT(missing, Contains(HasSubstr(name))) << how;
    };
    const bool toml = name.ends_with(".toml");
    damaged("cut",
            toml ? good.substr(0, good.find('"') + 3) : good.substr(0, good.size() - good.size() / 3 - 1));
    damaged("rubbish", "\x01\xff{]rubbish");
    damaged("a list", "[1]\n[2]\n");
    damaged("a zero byte", std::string("{\0}", 3));
    damaged("deep", std::string(100000, '['));
    damaged("empty", "");
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_THAT(read_results(home.path()).all_missing(),
                Contains(AllOf(HasSubstr(name), HasSubstr("no ordinary file"))));
    std::filesystem::remove(path);
    const bool may_be_absent = name.ends_with("labels.jsonl") || name.ends_with("/probe.jsonl") ||
                               name.ends_with("states.jsonl") || name.ends_with("routes.jsonl") ||
                               name.ends_with("example.json");
    const std::vector<std::string> missing = read_results(home.path()).all_missing();
    if (may_be_absent)
      EXPECT_THAT(missing, IsEmpty()) << name;
    else
      EXPECT_THAT(missing, Contains(AllOf(HasSubstr(name), HasSubstr("not there"))));
    std::ofstream(path, std::ios::binary) << good;
  }
  ASSERT_THAT(read_results(home.path()).all_missing(), IsEmpty());
}

TEST(StudyResults, ACutLineSaysWhatIsShown) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  const std::filesystem::path path = home.path() / "runs/routeopd-seed42/metrics.jsonl";
  std::string lines;
  for (int step = 1; step <= 6; ++step) lines += Study::metrics_line("routeopd", 42, step).dump() + "\n";
  std::ofstream(path) << lines << R"({"step": 7, "lo)";
  const StudyResults files = read_results(home.path());
  EXPECT_THAT(
      files.all_missing(),
      testing::ElementsAre("runs/routeopd-seed42/metrics.jsonl: line 7 is cut; steps 1 to 6 are shown"));
  EXPECT_EQ(files.runs_of("routeopd")[0]->files.metrics.size(), 6U);
}

// Every value of a file in turn, replaced by ones of other types.
TEST(StudyResults, WrongTypesAreNoCrash) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  const std::vector<Json> others = {Json("text"), Json(-1.5),     Json::array({1}),
                                    Json(),       Json{{"a", 1}}, Json(true)};
  std::size_t turn = 0;
  const auto for_each_value = [&](const Json& good, const auto& use) {
    const Json flat = good.flatten();
    for (const auto& item : flat.items()) {
      for (int i = 0; i < 2; ++i) {  // two of the others, by turns
        Json bad = good;
        bad[Json::json_pointer(item.key())] = others[turn++ % others.size()];
        use(bad);
      }
      ++turn;
    }
  };
  for_each_value(study.manifest, [&](const Json& bad) {
    std::ofstream(home.path() / "study.json") << bad.dump();
    EXPECT_NO_THROW(read_results(home.path()));
  });
  const std::filesystem::path probe = home.path() / "probes/ladder";
  const Json good_probe = Json::parse(bytes_in(probe / "probe.json"));
  Json one_row = good_probe;
  while (one_row["rows"].size() > 1) one_row["rows"].erase(1);
  for_each_value(one_row, [&](const Json& bad) {
    std::ofstream(probe / "probe.json") << bad.dump();
    EXPECT_NO_THROW(read_probe(probe).row("routeopd", "sgd"));
  });
  const std::filesystem::path run = home.path() / "runs/routeopd-seed42";
  for_each_value(Study::metrics_line("routeopd", 42, 1), [&](const Json& bad) {
    std::ofstream(run / "metrics.jsonl") << bad.dump() << "\n";
    EXPECT_NO_THROW(read_run(run));
  });
}

TEST(StudyResults, AWrongTypeIsASentenceAndNull) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  const std::filesystem::path run = home.path() / "runs/routeopd-seed42";
  Json line = Study::metrics_line("routeopd", 42, 1);
  line["entropy"] = "high";
  std::ofstream(run / "metrics.jsonl") << line.dump() << "\n";
  const RunFiles files = read_run(run, "RUN");
  EXPECT_THAT(
      files.missing,
      testing::ElementsAre("RUN/metrics.jsonl: entropy: expected a number, got string; it is not shown"));
  EXPECT_FALSE(files.metrics[0].entropy.has_value());
}

TEST(StudyResults, NoPathLeadsOutOfTheStudy) {
  const TemporaryDirectory home;
  Study study(home.path() / "study", true);
  std::filesystem::rename(home.path() / "study/base", home.path() / "base");
  std::filesystem::rename(home.path() / "study/probes", home.path() / "probes");
  study.manifest["evals"]["base"] = "../base/eval";
  study.manifest["runs"][0]["path"] = (home.path() / "study/runs/fixed_mid-seed42").string();
  study.manifest["runs"][1]["eval"] = "runs/../../base/eval";
  study.manifest["probes"][0]["path"] = "../probes/arms";
  study.manifest["cost"] = "../cost.json";
  study.manifest["concentration"] = "/dev/zero";
  study.save();
  const StudyResults files = read_results(home.path() / "study");
  for (const char* where : {"evals: \"base\"", "runs[0]: \"path\"", "runs[1]: \"eval\"",
                            "probes[0]: \"path\"", "the study: \"cost\"", "the study: \"concentration\""})
    EXPECT_THAT(files.missing, Contains(AllOf(HasSubstr(where), HasSubstr("leads out of the study"))));
  EXPECT_FALSE(files.base);
  EXPECT_EQ(files.probe("arms"), nullptr);
  EXPECT_TRUE(files.cost.is_null());
  EXPECT_THAT(files.concentration, IsEmpty());
  EXPECT_EQ(files.runs_of("fixed_mid").size(), 0U);
}

TEST(StudyResults, ListsAndLinesAreBounded) {
  const TemporaryDirectory home;
  Study study(home.path(), true);
  study.manifest["runs"] = Json::array();
  for (std::size_t i = 0; i <= kMaxRuns; ++i) study.manifest["runs"].push_back(Json::object());
  study.save();
  const StudyResults files = read_results(home.path());
  EXPECT_THAT(files.runs, IsEmpty());
  EXPECT_LE(files.missing.size(), report::kMaxSentences);
  EXPECT_THAT(files.missing,
              Contains("study.json: \"runs\" has more than 4096 entries; the rest is not shown"));
  const std::filesystem::path run = home.path() / "runs/routeopd-seed42";
  std::ofstream(run / "metrics.jsonl")
      << "{\"step\":1}\n{\"step\":2,\"x\":\"" << std::string(report::kMaxLineBytes, 'x') << "\"}\n";
  const RunFiles cut = read_run(run, "RUN");
  EXPECT_THAT(cut.missing,
              Contains("RUN/metrics.jsonl: line 2 is too long; the first of its steps is shown"));
  EXPECT_EQ(cut.metrics.size(), 1U);
}

// What a study may cost in all: no file is read for two entries, and lists end.
TEST(StudyResults, NoDirectoryIsReadTwice) {
  const TemporaryDirectory home;
  Study study(home.path(), true);
  Json& runs = study.manifest["runs"];
  ASSERT_EQ(runs.size(), 2U);
  runs.push_back(runs[0]);  // the same path under another name, spelled otherwise
  runs[2]["name"] = "other";
  runs[2]["path"] = fmt::format("runs/./{}", runs[0]["path"].get<std::string>().substr(5));
  runs.push_back(runs[0]);  // another path with the same evaluation
  runs[3]["name"] = "another";
  runs[3]["path"] = "base";
  Json& probes = study.manifest["probes"];
  ASSERT_EQ(probes.size(), 3U);
  probes.push_back({{"name", "more"}, {"path", probes[0]["path"]}, {"at", "base"}});
  probes.push_back({{"name", probes[0]["name"]}, {"path", "probes"}, {"at", "base"}});
  study.save();
  const StudyResults files = read_results(home.path());
  ASSERT_EQ(files.runs.size(), 3U);
  EXPECT_EQ(files.runs_of("other").size(), 0U);
  ASSERT_EQ(files.runs_of("another").size(), 1U);
  EXPECT_FALSE(files.runs_of("another")[0]->eval.grades);
  EXPECT_EQ(files.probes.size(), 3U);
  EXPECT_EQ(files.probe("more"), nullptr);
  for (const char* sentence :
       {"study.json: runs[2] names runs/./", "study.json: runs[3]: \"eval\" names runs/",
        "study.json: probes[3] names probes/", "study.json: probes[4] is arms once more"})
    EXPECT_THAT(files.missing, Contains(AllOf(HasSubstr(sentence), HasSubstr("once more; it is not shown"))));
}

TEST(StudyResults, ProbesAndCostsAreBounded) {
  const TemporaryDirectory home;
  Study study(home.path(), true);
  study.manifest["probes"] = Json::array();
  for (std::size_t i = 0; i <= kMaxProbes; ++i)
    study.manifest["probes"].push_back(
        {{"name", fmt::format("p{}", i)}, {"path", fmt::format("probes/p{}", i)}, {"at", "base"}});
  study.save();
  Json cost = {{"rounds", 5}, {"arms", Json::array()}, {"routes", Json::array()}};
  for (std::size_t i = 0; i <= kMaxCostEntries; ++i) {
    cost["arms"].push_back({{"name", fmt::format("a{}", i)}});
    cost["routes"].push_back({{"k", i}});
  }
  study.write("cost.json", cost.dump());
  const StudyResults files = read_results(home.path());
  EXPECT_EQ(files.probes.size(), kMaxProbes);
  EXPECT_EQ(files.cost["arms"].size(), kMaxCostEntries);
  EXPECT_EQ(files.cost["routes"].size(), kMaxCostEntries);
  EXPECT_EQ(files.cost["arms"][0]["name"], "a0");
  for (const char* sentence : {"study.json: \"probes\" has more than 64 entries; the rest is not shown",
                               "cost.json: \"arms\" has more than 256 entries; the rest is not shown",
                               "cost.json: \"routes\" has more than 256 entries; the rest is not shown"})
    EXPECT_THAT(files.missing, Contains(sentence));
}

TEST(StudyResults, AHugeNumberIsASentenceAndNull) {
  const TemporaryDirectory home;
  const Study study(home.path(), true);
  const std::filesystem::path run = home.path() / "runs/routeopd-seed42";
  Json line = Study::metrics_line("routeopd", 42, 1);
  line["loss"] = 1e300;
  std::ofstream(run / "metrics.jsonl") << line.dump() << "\n";
  const RunFiles files = read_run(run, "RUN");
  EXPECT_THAT(files.missing, testing::ElementsAre(
                                 "RUN/metrics.jsonl: loss: expected a number up to 1e+15; it is not shown"));
  EXPECT_FALSE(files.metrics[0].loss.has_value());
}

}  // namespace
}  // namespace routeopd::study
