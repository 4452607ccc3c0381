// The table of objective settings: presets, overrides, printing and reading back.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace routeopd::routing {
namespace {

TEST(Options, NamesAreUniqueAndEveryDefaultReadsBack) {
  std::set<std::string> names;
  const ObjectiveOptions defaults;
  for (const auto& field : objective_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name << " is declared twice";
    EXPECT_FALSE(field.help.empty());
    ObjectiveOptions read;
    set_field(read, objective_fields(), field.name, field.get(defaults));
    EXPECT_EQ(field.get(read), field.get(defaults)) << field.name;
  }
  for (const char* promised :
       {"arm", "k", "m", "pairs", "budget", "destination", "side", "weight", "target", "rank_window", "b_min",
        "b_max", "kappa", "ratio_clip", "delta_p", "delta_m", "delta_diag", "delta_target"}) {
    EXPECT_TRUE(names.contains(promised)) << promised;
  }
}

TEST(Options, EveryArmReadsBackFromItsPrintedFields) {
  std::set<std::string> distinct;
  for (const std::string& arm : arm_names()) {
    const ObjectiveOptions options = objective_from({{"arm", arm}});
    Json printed = Json::object();
    for (const auto& field : objective_fields()) printed[field.name] = field.get(options);
    const ObjectiveOptions read = objective_from(printed);
    for (const auto& field : objective_fields()) EXPECT_EQ(field.get(read), printed[field.name]) << arm;
    EXPECT_EQ(read.loss, options.loss);
    printed.erase("arm");
    distinct.insert(printed.dump() + std::to_string(static_cast<int>(options.loss)));
  }
  // teacher_deficit is fixed_mid under its family's name; no other two arms are the same.
  EXPECT_EQ(distinct.size(), arm_names().size() - 1);
}

TEST(Options, AnArmLeavesNothingOfTheOneBefore) {
  const ObjectiveOptions first = objective_from({{"arm", "source_only"}, {"k", 7}});
  const ObjectiveOptions second = objective_from({{"arm", "routeopd"}}, first);
  EXPECT_EQ(second.side, Side::kPair);
  EXPECT_EQ(second.budget.rule, BudgetRule::kAdaptive);
  EXPECT_EQ(second.k, 7) << "k is not part of an arm";
}

TEST(Options, CrossingsCanBeSaid) {  // one-sided updates without the mass weight
  const ObjectiveOptions options = objective_from({{"weight", "one"}, {"arm", "destination_only"}});
  EXPECT_EQ(options.side, Side::kDestination);
  EXPECT_EQ(options.weight, Weight::kOne);
  EXPECT_NEAR(options.budget.fixed, std::log(1.35), 1e-15);
}

TEST(Options, WordsOfACommandLine) {
  EXPECT_EQ(value_of_word("32"), Json(32));
  EXPECT_EQ(value_of_word("010"), Json(10));
  EXPECT_EQ(value_of_word("0x10"), Json("0x10"));
  EXPECT_EQ(value_of_word("18446744073709551615"), Json(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(value_of_word("1e-8"), Json(1e-8));
  EXPECT_EQ(value_of_word("full"), Json("full"));
  EXPECT_EQ(value_of_word("nan"), Json("nan"));
  EXPECT_EQ(value_of_word("3x"), Json("3x"));
}

}  // namespace
}  // namespace routeopd::routing
