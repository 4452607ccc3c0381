// Distances of arms: means and paired differences with intervals over responses.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/distances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/study/distance_tables.h"

namespace routeopd::study {
namespace {

using ::testing::HasSubstr;

StudyRun run_with(std::int64_t seed, const std::vector<double>& mass) {
  StudyRun run;
  run.name = "routeopd";
  run.seed = seed;
  run.complete = true;
  run.distances.mass = run.distances.forward_kl = run.distances.reverse_kl = mass;
  for (double& value : run.distances.reverse_kl) value *= 2;
  for (std::size_t s = 0; s < mass.size(); ++s)
    run.distances.sequence.push_back(static_cast<std::int32_t>(s / 2));
  return run;
}

TEST(Distances, AreComparedOnTheSameStatesAndSeeds) {
  const StudyRun a1 = run_with(1, {0.5, 0.25, 0.75, 0.5}), a2 = run_with(2, {0.25, 0.25, 0.25, 0.25}),
                 b1 = run_with(1, {0.25, 0, 0.5, 0.25}), b3 = run_with(3, {9, 9, 9, 9});
  const auto mean = mean_distance({&a1, &a2}, Distance::kMass);
  EXPECT_DOUBLE_EQ(mean->mean, (2.0 + 1.0) / 8);
  EXPECT_LE(mean->low, mean->mean);
  EXPECT_GE(mean->high, mean->mean);
  EXPECT_DOUBLE_EQ(mean_distance({&a1}, Distance::kReverseKl)->mean, 1.0);
  // Every state moves by a quarter, whatever responses are drawn; seeds 2 and 3 have no partner.
  const auto difference = distance_contrast({&a1, &a2}, {&b1, &b3}, Distance::kMass);
  EXPECT_DOUBLE_EQ(difference->mean, -0.25);
  EXPECT_DOUBLE_EQ(difference->low, -0.25);
  EXPECT_DOUBLE_EQ(difference->high, -0.25);
}

TEST(Distances, OfOtherStatesAreNotCompared) {
  const StudyRun a = run_with(1, {0.5, 0.25}), longer = run_with(1, {0.5, 0.25, 0.5}), none = run_with(1, {});
  EXPECT_FALSE(distance_contrast({&a}, {&longer}, Distance::kMass));
  EXPECT_FALSE(distance_contrast({&a}, {&none}, Distance::kMass));
  EXPECT_FALSE(mean_distance({&none}, Distance::kMass));
  EXPECT_FALSE(mean_distance({}, Distance::kMass));
  StudyRun other = a;
  other.distances.sequence.back() = 7;
  EXPECT_FALSE(distance_contrast({&a}, {&other}, Distance::kMass));
}

TEST(Distances, TheTableHasWhatWasMeasured) {
  StudyResults study;
  EXPECT_TRUE(distance_blocks({study, StudyGrades(study)}).empty());
  study.runs = {run_with(1, {0.25, 0.25})};
  study.base_distances = run_with(1, {0.5, 0.5}).distances;
  const std::vector<Block> blocks = distance_blocks({study, StudyGrades(study)});
  ASSERT_EQ(blocks.size(), 1U);
  ASSERT_EQ(blocks[0].table->rows().size(), 2U);
  EXPECT_EQ(blocks[0].table->rows()[0][1], "0.5000 [0.5000, 0.5000]");
  EXPECT_EQ(blocks[0].table->rows()[1][0], "routeopd");
  EXPECT_EQ(blocks[0].table->rows()[1][3], "0.5000 [0.5000, 0.5000]");
  EXPECT_EQ(blocks[0].table->rows()[1][4], "–") << "there is nothing else to compare with";
  EXPECT_THAT(blocks[0].words, HasSubstr("on prompts that it is trained on")) << "there is no suite";
}

TEST(Distances, ArmsAreComparedWithTheFirstThatWasNamed) {
  StudyResults study;
  study.manifest = {{"options", {{"arms", {"union_rkl", "routeopd", "exact"}}}},
                    {"pair", {{"suites", {{"math", "math.jsonl"}}}}}};
  study.runs = {run_with(1, {0.25, 0.25}), run_with(1, {0.5, 0.5})};
  study.runs[1].name = "union_rkl";
  const auto block_of = [&] { return distance_blocks({study, StudyGrades(study)}).at(0); };
  const auto cells_of = [&](std::size_t row) { return block_of().table->rows().at(row); };
  EXPECT_THAT(block_of().words, HasSubstr("on held-out problems"));
  EXPECT_EQ(block_of().table->columns().at(4).title, "mass over union_rkl [95 %]");
  EXPECT_EQ(cells_of(0)[0], "union_rkl");
  EXPECT_EQ(cells_of(1)[0], "routeopd");
  EXPECT_EQ(cells_of(1)[4], "-0.2500 [-0.2500, -0.2500]");
  EXPECT_EQ(block_of().table->rows().size(), 2U) << "exact has no runs";
  study.manifest["pair"] = 5;
  EXPECT_THAT(block_of().words, HasSubstr("on prompts that it is trained on")) << "nothing names a suite";
  // sampled_rkl is what the others are compared with wherever it is.
  study.manifest["options"]["arms"] = {"routeopd", "sampled_rkl"};
  study.runs[1].name = "sampled_rkl";
  EXPECT_EQ(cells_of(0)[0], "sampled_rkl");
  EXPECT_EQ(cells_of(1)[4], "-0.2500 [-0.2500, -0.2500]");
}

}  // namespace
}  // namespace routeopd::study
