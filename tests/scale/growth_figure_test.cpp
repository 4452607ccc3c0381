// The figure of a plan.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/growth_figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "report/figure_testing.h"
#include "scale/scale_testing.h"
#include "testing_errors.h"

namespace routeopd::scale {
namespace {

TEST(GrowthFigure, DrawsPowersOfTwoAndTheNumberAskedFor) {
  EXPECT_EQ(drawn_counts(8), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_EQ(drawn_counts(24)[5], 24);
  EXPECT_EQ(drawn_counts(5000).back(), 1024);
}

TEST(GrowthFigure, HasEveryStageAndPartAtEveryCount) {
  std::vector<Prediction> all;
  for (const std::int64_t count : drawn_counts(24)) all.push_back(small_prediction(count));
  const report::Block figure = growth_figure(all);
  report::expect_whole({figure});
  std::map<std::string, double> seconds, gigabytes;
  for (const Json& row : report::rows_of(figure))
    (row["kind"] == "seconds" ? seconds : gigabytes)[row["gpus"]] += row["value"].get<double>();
  ASSERT_EQ(seconds.size(), all.size());
  for (const Prediction& p : all) {
    const std::string count = std::to_string(p.layout.gpus);
    EXPECT_NEAR(seconds.at(count), p.step_seconds(), 1e-9);
    EXPECT_NEAR(gigabytes.at(count), p.memory.device_bytes() / 1e9, 1e-12);
  }
  // Every name that is drawn has a colour of its own.
  for (const Json& panel : figure.chart["vconcat"]) {
    const Json& scale = panel["encoding"]["color"]["scale"];
    EXPECT_EQ(scale["domain"].size(), scale["range"].size());
    std::set<Json> names(scale["domain"].begin(), scale["domain"].end());
    const Json kind = panel["transform"][0]["filter"]["equal"];
    for (const Json& row : report::rows_of(figure))
      EXPECT_TRUE(row["kind"] != kind || names.contains(row["name"])) << row;
  }
  report::expect_missing({growth_figure({})});
}

TEST(GrowthFigure, RefusesOtherEndings) {
  EXPECT_THAT(error_of([] { check_figure_name("growth.pdf"); }),
              ::testing::HasSubstr(".json, .svg, .png or .html"));
  EXPECT_EQ(error_of([] { check_figure_name("growth.vl.json"); }), "");
}

}  // namespace
}  // namespace routeopd::scale
