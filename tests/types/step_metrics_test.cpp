// The table of step metrics: what is written is read back equal, and what is wrong is said and skipped.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/types/step_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace routeopd {
namespace {

StepMetrics some_metrics() {
  StepMetrics metrics;
  metrics.step = 7;
  metrics.tokens = 1234;
  metrics.loss = 0.1 + 0.2;  // 0.30000000000000004: all digits count
  metrics.lr = 1e-6;
  metrics.mass = 0.25;
  metrics.routed_share = 0.5;
  metrics.teachers["math"] = {
      .states = 1000, .valid = 990, .mass = 0.125, .routed_share = 0.75, .calls = 4, .tokens = 1100};
  metrics.teachers["code"].states = 234;
  metrics.validity = {{"valid", 1200}, {"non_finite", 34}, {"not_routed", 600}};
  metrics.time = {{"rollout", 1.5}, {"total", 2.0}};
  metrics.peak_bytes = 1 << 30;
  return metrics;
}

TEST(StepMetrics, ALineReadsBackEqual) {
  const Json line = json_of(some_metrics());
  EXPECT_EQ(json_of(step_metrics_of(Json::parse(line.dump()))).dump(), line.dump());
  EXPECT_EQ(line["memory"]["peak_bytes"], 1 << 30);
  EXPECT_TRUE(line["grad_norm"].is_null()) << "what is not known is null, not missing";
  EXPECT_EQ(line["teachers"]["math"], Json::parse(R"({"states": 1000, "valid": 990, "mass": 0.125,
                                                      "routed_share": 0.75, "calls": 4, "tokens": 1100})"));
  EXPECT_TRUE(line["teachers"]["code"]["mass"].is_null());
  EXPECT_TRUE(json_of({})["teachers"].is_null()) << "of one teacher the other fields tell";
}

// Each name is written from its own member, and read into it.
TEST(StepMetrics, EveryNameHasItsMember) {
  using M = StepMetrics;
  const std::vector<std::pair<std::string, M::Value M::*>> values = {{"loss", &M::loss},
                                                                     {"lr", &M::lr},
                                                                     {"grad_norm", &M::grad_norm},
                                                                     {"mass", &M::mass},
                                                                     {"concentration", &M::concentration},
                                                                     {"budget", &M::budget},
                                                                     {"saturated", &M::saturated},
                                                                     {"coverage", &M::coverage},
                                                                     {"routed_share", &M::routed_share},
                                                                     {"student_mass", &M::student_mass},
                                                                     {"teacher_mass", &M::teacher_mass},
                                                                     {"entropy", &M::entropy},
                                                                     {"teacher_entropy", &M::teacher_entropy},
                                                                     {"policy_entropy", &M::policy_entropy},
                                                                     {"capture_error", &M::capture_error},
                                                                     {"response_tokens", &M::response_tokens},
                                                                     {"clip_ratio", &M::clip_ratio}};
  const std::vector<std::pair<std::string, std::int64_t M::*>> counts = {
      {"step", &M::step},
      {"tokens", &M::tokens},
      {"skipped_updates", &M::skipped_updates},
      {"floored", &M::floored},
      {"teacher_calls", &M::teacher_calls},
      {"teacher_tokens", &M::teacher_tokens}};
  EXPECT_EQ(values.size() + counts.size() + 7, step_metric_fields().size())
      << "teachers, engine_gap, servers, validity, exchange, time, memory";
  M metrics;
  for (std::size_t i = 0; i < values.size(); ++i) metrics.*values[i].second = 0.5 + static_cast<double>(i);
  for (std::size_t i = 0; i < counts.size(); ++i)
    metrics.*counts[i].second = 100 + static_cast<std::int64_t>(i);
  const Json line = json_of(metrics);
  const M read = step_metrics_of(line);
  for (const auto& [name, member] : values) {
    EXPECT_EQ(line[name], *(metrics.*member)) << name;
    EXPECT_EQ(read.*member, metrics.*member) << name;
  }
  for (const auto& [name, member] : counts) {
    EXPECT_EQ(line[name], metrics.*member) << name;
    EXPECT_EQ(read.*member, metrics.*member) << name;
  }
}

// The names and their order in the file are a promise; a new one is added here.
TEST(StepMetrics, HaveThePromisedNames) {
  std::vector<std::string> names;
  const Json line = json_of({});
  for (const auto& item : line.items()) names.push_back(item.key());
  EXPECT_THAT(names, testing::ElementsAre(
                         "budget", "capture_error", "clip_ratio", "concentration", "coverage", "engine_gap",
                         "entropy", "exchange", "floored", "grad_norm", "loss", "lr", "mass", "memory",
                         "policy_entropy", "response_tokens", "routed_share", "saturated", "servers",
                         "skipped_updates", "step", "student_mass", "teacher_calls", "teacher_entropy",
                         "teacher_mass", "teacher_tokens", "teachers", "time", "tokens", "validity"));
  EXPECT_EQ(names.size(), step_metric_fields().size());
  for (const Field<StepMetrics>& field : step_metric_fields()) EXPECT_FALSE(field.help.empty()) << field.name;
}

TEST(StepMetrics, WrongFieldsAreToldAndSkipped) {
  Json line = json_of(some_metrics());
  line["loss"] = "high";
  line["mass"] = 1e300;
  line["tokens"] = 1.5;
  line["validity"]["valid"] = -1;
  line["memory"] = 3;
  line["teachers"]["math"]["calls"] = -2;
  line["unknown"] = "of a later version";
  line.erase("lr");
  std::vector<std::string> wrong;
  const StepMetrics metrics = step_metrics_of(line, [&](const std::string& field, const std::string& clause) {
    wrong.push_back(field + ": " + clause);
  });
  EXPECT_THAT(wrong, testing::UnorderedElementsAre("loss: expected a number, got string",
                                                   "mass: expected a number up to 1e+15",
                                                   "tokens: expected a whole number from 0, got 1.5",
                                                   "validity: expected a whole number from 0, got -1",
                                                   "teachers: expected a whole number from 0, got -2",
                                                   "memory: expected an object, got number"));
  EXPECT_FALSE(metrics.loss || metrics.mass || metrics.lr);
  EXPECT_EQ(metrics.tokens, 0);
  EXPECT_EQ(metrics.step, 7) << "the others are read";
  EXPECT_EQ(step_metrics_of(Json::array()).step, 0);
}

TEST(StepMetrics, ScalarsAreEveryNumberByName) {
  const auto scalars = scalars_of(some_metrics());
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("time/rollout", 1.5)));
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("validity/non_finite", 34.0)));
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("teachers/math/mass", 0.125)));
  EXPECT_THAT(scalars, testing::Contains(testing::Pair("memory/peak_bytes", 0x1p30)));
  for (const auto& [name, value] : scalars) EXPECT_TRUE(name != "step" && name != "grad_norm") << name;
  EXPECT_EQ(metric_named("loss", some_metrics()), 0.1 + 0.2);
  EXPECT_EQ(metric_named("tokens", some_metrics()), 1234.0);
  for (const char* none : {"grad_norm", "time", "no such name"})
    EXPECT_FALSE(metric_named(none, some_metrics()).has_value()) << none;
}

TEST(StepMetrics, ANoteSaysWhatIsKnown) {
  EXPECT_EQ(note_of(some_metrics()), "loss 0.30000, mass 0.2500, routed 50 %, 617 tokens/s");
  EXPECT_EQ(note_of({}), "");
}

}  // namespace
}  // namespace routeopd
