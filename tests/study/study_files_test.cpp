// The study's files: what a manifest keeps, what is refused, what is still to be done.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/cost.h"
#include "routeopd/study/distances.h"
#include "routeopd/study/study_plan.h"
#include "routeopd/study/study_probes.h"
#include "routeopd/study/study_summary.h"
#include "testing_files.h"

namespace routeopd::study {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Files of a pair that nothing loads.
class Files : public testing::Test {
 protected:
  Files() {
    for (const char* name : {"base", "teacher"}) {
      std::filesystem::create_directories(directory_.path() / "lab" / name);
      directory_.write(fmt::format("lab/{}/model.safetensors", name), name);
    }
    directory_.write("lab/train.jsonl", "{}\n");
    directory_.write("lab/heldout.jsonl", "{}\n");
    directory_.write("lab/lab.json", R"({"kind": "laboratory", "version": 1, "family": "sums"})");
    request_.pair = laboratory_pair(directory_.path() / "lab");
  }
  void with_validation() {
    directory_.write("lab/validation.jsonl", "{}\n");
    request_.pair = laboratory_pair(directory_.path() / "lab");
  }
  std::filesystem::path out() const { return directory_.path() / "study"; }
  std::string error() const {
    return error_of([&] { StudyFiles files(out(), request_); });
  }
  PlannedRun run() const { return runs_of(part_named("main"), default_options(true, false)).front(); }

  // Something of that name in the study, which nobody reads.
  void put(const std::string& name) const {
    std::filesystem::create_directories((out() / name).parent_path());
    directory_.write("study/" + name, "x");
  }
  void put_eval(const std::string& name) const {
    put(name + "/summary.json");
    put(name + "/labels.jsonl");
  }
  // All that a part makes.
  void fill(StudyFiles& files, const std::string& part) const {
    put(distance_path(kBase));
    for (const PlannedRun& planned : runs_of(part_named(part), files.options())) {
      put(distance_path(StudyFiles::run_path(planned)));
      put(StudyFiles::run_path(planned) + "/metrics.jsonl");
      put_eval(StudyFiles::eval_path(planned, files.options().steps));
      files.record(planned, true);
    }
    for (const char* name : kUntrained) {
      put_eval(StudyFiles::untrained_eval_path(name));
      files.put_eval(name);
    }
    for (const StudyFiles::Piece& piece :
         {StudyFiles::kBank, StudyFiles::kConcentration, StudyFiles::kCost}) {
      put(piece.file);
      files.put(piece);
    }
    for (const PlannedProbe& planned : probes_of(files.options()))
      put(StudyFiles::probe_path(planned.name) + "/probe.json");
    files.finish(part, true, 1, "");
  }

  TemporaryDirectory directory_;
  StudyRequest request_;
};

TEST_F(Files, ResumeWithWhatTheyBeganWith) {
  request_.settings = {{"steps", 3}};
  {
    StudyFiles files(out(), request_);
    files.record(run(), false);
    EXPECT_FALSE(files.complete(run()));
    files.record(run(), true);
    files.finish("main", false, 2, "");
    files.finish("main", true, 3, "a note");
    files.put_probe("arms", "base");
    files.put_probe("arms", "base");
  }
  request_ = {};  // nothing is said
  const StudyFiles files(out(), request_);
  EXPECT_EQ(files.options().steps, 3);
  EXPECT_TRUE(files.complete("main"));
  EXPECT_FALSE(files.complete("sweeps"));
  EXPECT_EQ(files.manifest()["parts"]["main"],
            (Json{{"complete", true}, {"seconds", 5.0}, {"note", "a note"}}));
  EXPECT_EQ(files.manifest()["runs"].size(), 1U);
  EXPECT_EQ(files.manifest()["probes"].size(), 1U);
  EXPECT_FALSE(files.complete(run())) << "its files are not there";
}

TEST_F(Files, RefuseAnotherStudy) {
  request_.settings = {{"steps", 3}, {"seeds", 2}};
  {
    StudyFiles files(out(), request_);
  }
  EXPECT_EQ(error(), "");
  request_.settings = {{"steps", 4}};
  EXPECT_THAT(error(), HasSubstr("another steps (3, now 4)"));
  request_.settings = {{"seeds", 3}};
  EXPECT_THAT(error(), HasSubstr("another seeds ([42,43], now [42,43,44])"));
  request_.settings = Json::object();
  request_.quick = true;
  EXPECT_THAT(error(), HasSubstr("another quick (false, now true)"));
  request_.quick = false;
  request_.pair->student = "/elsewhere";
  EXPECT_THAT(error(), HasSubstr("another pair.student"));
  request_.pair.reset();
  EXPECT_EQ(error(), "");
  directory_.write("lab/teacher/model.safetensors", "another teacher");
  EXPECT_THAT(error(), HasSubstr("another content of pair.teacher"));
}

TEST_F(Files, RefuseModelsThatReadOrWriteOtherwise) {
  directory_.write("lab/base/tokenizer.json", "{}");
  {
    StudyFiles files(out(), request_);
  }
  EXPECT_EQ(error(), "");
  const std::filesystem::path added = directory_.write("lab/teacher/chat_template.jinja", "now there is one");
  EXPECT_THAT(error(), HasSubstr("another content of pair.teacher/chat_template.jinja"));
  std::filesystem::remove(added);
  EXPECT_EQ(error(), "");
  directory_.write("lab/base/tokenizer.json", "{ }");
  EXPECT_THAT(error(), HasSubstr("another content of pair.student/tokenizer.json"));
}

TEST_F(Files, NoteAnotherMachineOnce) {
  request_.settings["lr"] = 1e-3;
  {
    StudyFiles files(out(), request_);
    files.note_machine();
    EXPECT_EQ(files.manifest()["notes"].size(), 0U);
  }
  Json manifest = Json::parse(bytes_in(out() / "study.json"));
  manifest["machine"]["threads"] = 1000;
  directory_.write("study/study.json", manifest.dump());
  for (int turn = 0; turn < 2; ++turn) {
    StudyFiles files(out(), request_);
    files.note_machine();
    EXPECT_EQ(files.manifest()["notes"].size(), 1U);
    EXPECT_THAT(summary_text(summarize(files, files.results())), HasSubstr("with 1000 threads"));
  }
}

TEST_F(Files, APartIsDoneWhileAllOfItIsThere) {
  request_.settings = {{"arms", "sampled_rkl,routeopd"}, {"seeds", 1}};
  StudyFiles files(out(), request_);
  for (const std::string& part : part_names()) {
    if (part == "tune") continue;
    EXPECT_FALSE(is_done(files, part)) << part;
    fill(files, part);
    EXPECT_TRUE(is_done(files, part)) << part;
  }
  const std::vector<std::pair<std::string, std::string>> pieces = {
      {"main", "base/eval/summary.json"},
      {"main", "base/distance.jsonl"},
      {"main", "runs/routeopd-seed42/distance.jsonl"},
      {"sweeps", "teacher/eval/labels.jsonl"},
      {"ablations", "runs/routeopd-seed42/eval/step_30/labels.jsonl"},
      {"dynamics", "runs/sampled_rkl-seed42/metrics.jsonl"},
      {"mechanism", "concentration.jsonl"},
      {"mechanism", "bank.safetensors"},
      {"mechanism", "probes/support/probe.json"},
      {"cost", "cost.json"}};
  for (const auto& [part, piece] : pieces) {
    std::filesystem::remove(out() / piece);
    EXPECT_FALSE(is_done(files, part)) << piece;
    put(piece);
    EXPECT_TRUE(is_done(files, part)) << piece;
  }
}

TEST_F(Files, WorkLeftIsWhatWillBeRun) {
  request_.settings = {{"arms", "sampled_rkl,routeopd"}, {"seeds", 1}, {"steps", 10}};
  StudyFiles files(out(), request_);
  const auto left = [&](const std::vector<std::string>& parts) {
    const StudyPace work = work_left(files, parts);
    return std::vector<std::int64_t>{work.steps(), work.evaluations(), work.rows()};
  };
  EXPECT_THAT(left({"cost"}), ElementsAre(cost_steps(files.options()), 0, 0));
  // Two runs of 10 steps, looked at twice each; the two that are not trained; the bank, and the distances of
  // the runs and of their start. Once, though three parts want them.
  EXPECT_THAT(left({"main", "dynamics", "behaviour"}), ElementsAre(20, 6, 1 + 3));
  // One run, the untrained, the concentration; two arms, one support, a ladder of six, and the bank.
  EXPECT_THAT(left({"mechanism"}), ElementsAre(10, 5, 10));
  fill(files, "mechanism");
  EXPECT_THAT(left({"mechanism"}), ElementsAre(0, 0, 0));
  std::filesystem::remove(out() / "probes/arms/probe.json");
  EXPECT_THAT(left({"mechanism"}), ElementsAre(0, 0, 2));
}

TEST_F(Files, WithoutASuiteEveryPartButCostSaysSo) {
  request_.pair->suites.clear();
  request_.settings = {{"arms", "sampled_rkl,full_rkl"}, {"seeds", 1}};
  const StudyFiles files(out(), request_);
  for (const std::string& part : part_names()) {
    if (part == "cost" || part == "tune") {
      EXPECT_EQ(lack_of(files, part), "");
    } else {
      EXPECT_THAT(lack_of(files, part), HasSubstr("there is no accuracy")) << part;
    }
  }
  EXPECT_THAT(lack_of(files, "mechanism"), AllOf(HasSubstr("by concentration"), HasSubstr("no ladder")));
  const StudyPace work = work_left(files, {"mechanism"});
  EXPECT_EQ(work.evaluations(), 0) << "neither a concentration nor the untrained";
  EXPECT_EQ(work.rows(), 2 + 1);
}

// A record of two arms, of which sampled_rkl's rate is the shared one.
Json two_rates() {
  const StudyOptions options =
      with_settings(default_options(true, false),
                    {{"tune_arms", "sampled_rkl,routeopd"}, {"lrs", "1e-4,2e-4,4e-4,8e-4"}, {"steps", 3}});
  std::vector<Trial> done;
  while (std::optional<Trial> trial = next_trial(options, done)) {
    trial->average = trial->lr == (trial->arm == "routeopd" ? 4e-4 : 2e-4) ? 0.9 : 0.5;
    done.push_back(*trial);
  }
  return tuning_json(options, done, {{"student", "?"}, {"validation", "?"}}, chosen_rates(options, done));
}

TEST_F(Files, TuneBeforeWhatTrains) {
  with_validation();
  request_.settings = {{"steps", 3}, {"seeds", 1}, {"arms", "sampled_rkl,routeopd"}};
  StudyFiles files(out(), request_);
  EXPECT_TRUE(files.options().tuned());
  EXPECT_THAT(with_tuning(files, {"main"}), ElementsAre("tune", "main"));
  EXPECT_THAT(with_tuning(files, {"mechanism"}), ElementsAre("tune", "mechanism"));
  EXPECT_THAT(with_tuning(files, {"tune", "main"}), ElementsAre("tune", "main"));
  EXPECT_THAT(with_tuning(files, {"cost"}), ElementsAre("cost"));
  // Two arms, five rates, two seeds; then two arms at their own rates and two at the shared one, and the two
  // that are not trained. One run is looked at on the way, once at the end alone for steps below 5.
  StudyPace work = work_left(files, {"tune"});
  EXPECT_EQ(work.steps(), 20 * 3);
  EXPECT_EQ(work.evaluations(), 20);
  work = work_left(files, {"main"});
  EXPECT_EQ(work.steps(), 4 * 3);
  EXPECT_EQ(work.evaluations(), 4 + 2);
  EXPECT_FALSE(is_done(files, "tune"));
  directory_.write("study/tune.json", two_rates().dump());
  files.put(StudyFiles::kTuning);
  files.finish("tune", true, 1, "");
  EXPECT_TRUE(is_done(files, "tune"));
  EXPECT_THAT(with_tuning(files, {"main"}), ElementsAre("main"));
  std::filesystem::remove(out() / "tune.json");
  EXPECT_FALSE(is_done(files, "tune"));
}

TEST_F(Files, WithoutValidationProblemsAllShareOneRate) {
  const StudyFiles files(out(), request_);
  EXPECT_FALSE(files.options().tuned());
  EXPECT_EQ(files.rates().of(variant_named("full_rkl", files.options())), 5e-4);
  EXPECT_THAT(files.manifest()["notes"].dump(), HasSubstr("0.0005, which was tuned for none of them"));
  EXPECT_THAT(with_tuning(files, {"tune", "main"}), ElementsAre("main"));
}

TEST_F(Files, RatesOfAnotherStudyAreTaken) {
  with_validation();
  const std::filesystem::path record = directory_.write("rates.json", two_rates().dump());
  request_.settings = {{"rates", record.string()}, {"steps", 3}, {"seeds", 1}, {"arms", "sampled_rkl,exact"}};
  {
    StudyFiles files(out(), request_);
    EXPECT_THAT(with_tuning(files, {"tune", "main"}), ElementsAre("main"));
    const std::vector<PlannedRun> runs = runs_of(part_named("main"), files.options());
    ASSERT_EQ(runs.size(), 4U);
    const auto rate = [&](std::size_t i) { return files.rate_of(runs[i]); };
    EXPECT_THAT((std::vector{rate(0), rate(1), rate(2), rate(3)}), ElementsAre(2e-4, 4e-4, 2e-4, 2e-4));
    EXPECT_EQ(runs[3].name(), "exact-shared-seed42");
    EXPECT_TRUE(files.is_own(runs[2]));
    EXPECT_FALSE(files.is_own(runs[3]));
    for (const std::size_t i : {0U, 3U}) {
      put(StudyFiles::run_path(runs[i]) + "/metrics.jsonl");
      put_eval(StudyFiles::eval_path(runs[i], 3));
    }
    for (const PlannedRun& planned : runs) files.record(planned, true);
    EXPECT_TRUE(files.complete(runs[0]));
    EXPECT_FALSE(files.complete(runs[1])) << "its files are not there";
    EXPECT_TRUE(files.complete(runs[2])) << "it is the arm's own run";
    EXPECT_TRUE(files.complete(runs[3]));
    const Json& entries = files.manifest()["runs"];
    ASSERT_EQ(entries.size(), 4U);
    EXPECT_EQ(entries[2]["path"], "runs/sampled_rkl-seed42");
    EXPECT_EQ(entries[2]["shared"], true);
    EXPECT_EQ(entries[3]["path"], "runs/exact-shared-seed42");
    EXPECT_EQ(entries[1]["lr"], 4e-4);
    EXPECT_THAT(files.manifest()["notes"].dump(), HasSubstr("chosen for another student"));
  }
  EXPECT_EQ(error(), "");
  {
    // A run at another rate than the record has now is made again.
    Json changed = Json::parse(bytes_in(out() / "study.json"));
    changed["runs"][0]["lr"] = 1e-5;
    directory_.write("study/study.json", changed.dump());
    const StudyFiles files(out(), request_);
    const std::vector<PlannedRun> runs = runs_of(part_named("main"), files.options());
    EXPECT_FALSE(files.complete(runs[0]));
    EXPECT_TRUE(files.complete(runs[3]));
  }
  std::filesystem::remove(record);  // the study has its own copy
  EXPECT_EQ(error(), "");
  EXPECT_EQ(StudyFiles(out(), request_).rates().shared, 2e-4);
  request_.settings = {{"rates", "elsewhere.json"}};
  EXPECT_THAT(error(), HasSubstr("another rates"));
  const auto begun_with = [&](const Json& settings) {
    request_.settings = settings;
    return error_of([&] { StudyFiles files(directory_.path() / "other", request_); });
  };
  EXPECT_THAT(begun_with({{"rates", record.string()}}), HasSubstr("rates.json"));
  EXPECT_THAT(begun_with({{"rates", record.string()}, {"lr", 1e-4}}), HasSubstr("exclude each other"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "other"));
}

TEST_F(Files, OfAnEarlierVersionAreRefused) {
  {
    const StudyFiles files(out(), request_);
  }
  Json manifest = Json::parse(bytes_in(out() / "study.json"));
  EXPECT_EQ(manifest["pair"]["family"], "sums");
  manifest["version"] = 1;
  directory_.write("study/study.json", manifest.dump());
  EXPECT_THAT(error(), HasSubstr("is no study of version 2"));
}

TEST_F(Files, WithSecondsThatAreNoNumberAreRefused) {
  {
    StudyFiles files(out(), request_);
    files.finish("main", false, 1.5, "");
  }
  EXPECT_EQ(error(), "");
  Json manifest = Json::parse(bytes_in(out() / "study.json"));
  EXPECT_EQ(manifest["parts"]["main"]["seconds"], 1.5);
  manifest["parts"]["main"]["seconds"] = "long";
  directory_.write("study/study.json", manifest.dump());
  EXPECT_THAT(error(), AllOf(HasSubstr("study.json: cannot be resumed"), HasSubstr("seconds as a number")));
}

TEST_F(Files, OfNoLaboratoryAreRefused) {
  std::filesystem::remove(directory_.path() / "lab" / "lab.json");
  EXPECT_THAT(error_of([&] { laboratory_pair(directory_.path() / "lab"); }), HasSubstr("has no lab.json"));
}

TEST_F(Files, AreOneProcessesAtATime) {
  const StudyFiles files(out(), request_);
  EXPECT_NE(error(), "");
}

TEST_F(Files, NothingThatIsThereIsTouched) {
  request_.pair.reset();
  EXPECT_THAT(error(), HasSubstr("no study is there"));
  request_.pair = laboratory_pair(directory_.path() / "lab");
  std::filesystem::create_directories(out());
  directory_.write("study/mine", "");
  EXPECT_THAT(error(), HasSubstr("exists already"));
  std::filesystem::remove(out() / "mine");
  directory_.write("study/study.json.partial-1", "{");  // of a process that was killed
  EXPECT_EQ(error(), "");
  EXPECT_FALSE(std::filesystem::exists(out() / "study.json.partial-1"));
}

}  // namespace
}  // namespace routeopd::study
