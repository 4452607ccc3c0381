// `lab make`: options and lab.json.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/make.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "routeopd/lab/lab_file.h"
#include "testing_files.h"

namespace routeopd::lab {
namespace {

using testing::HasSubstr;

TEST(Make, OptionsAreCheckedAndKept) {
  const MakeOptions options = with_settings({}, {{"seed", 7}, {"student_hidden", 96}, {"mild_steps", 0}});
  EXPECT_EQ(options.seed, 7U);
  EXPECT_EQ(options.student_hidden, 96);
  EXPECT_EQ(json_of(with_settings({}, json_of(options))), json_of(options));
  EXPECT_THAT(error_of([] { with_settings({}, {{"student_hidden", 100}}); }), HasSubstr("multiple of 32"));
  EXPECT_THAT(error_of([] { with_settings({}, {{"teacher_step", 1}}); }), HasSubstr("teacher_steps"));
  EXPECT_THAT(error_of([] { with_settings({}, {{"base_steps", 0}}); }), HasSubstr("base_steps"));
}

TEST(Make, LabFileSaysTheFamily) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { family_of(directory.path()); }),
              HasSubstr("is no laboratory, it has no lab.json"));
  for (const std::string& name : task_names()) {
    write_lab_file(directory.path(), name, task_named(name).make_options());
    EXPECT_EQ(family_of(directory.path()), name);
  }
  const Json file = Json::parse(bytes_in(directory.path() / "lab.json"));
  EXPECT_EQ(file["kind"], "laboratory");
  EXPECT_EQ(file["version"], 1);
  EXPECT_EQ(file["seed"], 42);
  directory.write("lab.json", R"({"kind": "laboratory", "version": 1, "family": "sets"})");
  EXPECT_THAT(error_of([&] { family_of(directory.path()); }), HasSubstr("expected sums | lists, got sets"));
  directory.write("lab.json", R"({"kind": "laboratory", "version": 2, "family": "sums"})");
  EXPECT_THAT(error_of([&] { family_of(directory.path()); }), HasSubstr("no laboratory of version 1"));
}

}  // namespace
}  // namespace routeopd::lab
