// The renderer's child process, with stand-ins for Python.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/chart_renderer.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "testing_files.h"

namespace routeopd::report {
namespace {

using ::testing::HasSubstr;

// While it lives, a shell script is asked in place of Python.
class StandIn {
 public:
  explicit StandIn(const std::string& script) : path_(directory_.path() / "python") {
    directory_.write("python", "#!/bin/sh\n" + script);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    ::setenv("ROUTEOPD_CHART_PYTHON", path_.c_str(), 1);
  }
  ~StandIn() { ::unsetenv("ROUTEOPD_CHART_PYTHON"); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  TemporaryDirectory directory_;
  std::filesystem::path path_;
};

TEST(ChartRenderer, TakesOneDrawingASpecification) {
  const StandIn python(R"(echo '{"svg":"<svg>1</svg>","png":"00ff41"}'; echo '{"error":"a bad chart"}')");
  const std::vector<Json> charts(3, Json::object());
  const std::vector<Drawing> drawings = render_charts(charts, true);
  ASSERT_EQ(drawings.size(), 3U);
  EXPECT_EQ(drawings[0].svg, "<svg>1</svg>");
  EXPECT_EQ(drawings[0].png, std::string("\x00\xff\x41", 3));
  EXPECT_EQ(drawings[0].trouble, "");
  EXPECT_EQ(drawings[1].svg, "");
  EXPECT_THAT(drawings[1].trouble, HasSubstr("a bad chart"));
  EXPECT_THAT(drawings[2].trouble, HasSubstr("ended with code 0"));
}

TEST(ChartRenderer, SaysWhyThereIsNoDrawing) {
  const std::vector<Json> charts(1, Json::object());
  const auto trouble = [&](const std::string& script) {
    const StandIn python(script);
    return render_charts(charts, false)[0].trouble;
  };
  EXPECT_THAT(trouble("exit 3"), HasSubstr("has no vl-convert-python"));
  EXPECT_THAT(trouble("echo first >&2; echo last words >&2; exit 1"),
              HasSubstr("ended with code 1: last words."));
  EXPECT_THAT(trouble("echo nonsense"), HasSubstr("gave no drawing"));
  EXPECT_THAT(trouble(R"(echo '{"svg":7}')"), HasSubstr("gave no drawing"));
  EXPECT_THAT(trouble(R"(echo '{"svg":"<svg/>","png":"0g"}')"), HasSubstr("not hexadecimal"));
  ::setenv("ROUTEOPD_CHART_PYTHON", "/no/such/python", 1);
  EXPECT_THAT(render_charts(charts, false)[0].trouble, HasSubstr("/no/such/python cannot be started"));
  ::unsetenv("ROUTEOPD_CHART_PYTHON");
}

TEST(ChartRenderer, AsksForNothingWithoutCharts) {
  const StandIn python("exit 3");
  EXPECT_TRUE(render_charts({}, false).empty());
}

}  // namespace
}  // namespace routeopd::report
