// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/chart_renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "routeopd/base/child_process.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

// Exit code 3 says that the package is not there. PNG bytes come as hexadecimal digits. allowed_base_urls =
// [] lets no specification fetch anything; two pixels to a point are enough for print at a column's width.
constexpr std::string_view kScript = R"py(
import json, sys
try:
    import vl_convert
except ImportError:
    sys.exit(3)
asked = json.load(sys.stdin)
for spec in asked["charts"]:
    answer = {}
    try:
        how = {"vl_version": "5.21", "allowed_base_urls": []}
        answer["svg"] = vl_convert.vegalite_to_svg(spec, **how)
        if asked["png"]:
            answer["png"] = vl_convert.vegalite_to_png(spec, scale=2, **how).hex()
    except Exception as error:
        answer = {"error": " ".join(str(error).split())[:500] or type(error).__name__}
    print(json.dumps(answer), flush=True)
)py";

constexpr std::size_t kMostOutput = std::size_t{256} << 20;

std::string bytes_of_hex(const std::string& digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  if (digits.size() % 2 != 0 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw UserError("the renderer's picture is not hexadecimal");
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

Drawing drawing_of(const std::string& line) {
  const Json answer = Json::parse(line, nullptr, false);
  const auto text = [&](const char* key) {
    return answer.is_object() && answer.contains(key) && answer[key].is_string()
               ? answer[key].get<std::string>()
               : std::string();
  };
  Drawing drawing{.svg = text("svg"), .png = bytes_of_hex(text("png")), .trouble = {}};
  if (const std::string error = text("error"); !error.empty())
    drawing = {.svg = {},
               .png = {},
               .trouble = fmt::format("The renderer refused the chart: {}.", table::visible(error))};
  else if (drawing.svg.empty())
    drawing.trouble = "The renderer gave no drawing.";
  return drawing;
}

}  // namespace

std::string chart_python() {
  const char* const chosen = std::getenv("ROUTEOPD_CHART_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : ROUTEOPD_CHART_PYTHON;
}

std::vector<Drawing> render_charts(std::span<const Json> charts, bool png) {
  std::vector<Drawing> drawings(charts.size());
  if (charts.empty()) return drawings;
  const auto fail = [&](const std::string& trouble) {
    for (Drawing& drawing : drawings) {
      if (drawing.svg.empty() && drawing.trouble.empty()) drawing.trouble = trouble;
    }
    return drawings;
  };
  Json asked = {{"charts", Json::array()}, {"png", png}};
  for (const Json& chart : charts) asked["charts"].push_back(chart);
  const std::string python = chart_python();
  try {
    // -I: neither the environment nor the working directory adds modules.
    const ChildAnswer answer =
        run_child({python, "-I", "-X", "utf8", "-c", std::string(kScript)},
                  asked.dump(-1, ' ', false, Json::error_handler_t::replace),
                  {.time = std::chrono::seconds(60 + 10 * std::ssize(charts)), .out = kMostOutput});
    if (answer.status == 3)
      return fail(fmt::format(
          "{} has no vl-convert-python: `make setup` installs it, or set ROUTEOPD_CHART_PYTHON to a "
          "Python that has it (pip install vl-convert-python).",
          table::visible(python)));
    std::size_t begin = 0;
    for (Drawing& drawing : drawings) {
      const std::size_t end = answer.out.find('\n', begin);
      if (end == std::string::npos) break;
      drawing = drawing_of(answer.out.substr(begin, end - begin));
      begin = end + 1;
    }
    const std::size_t last = answer.err.find_last_not_of('\n');
    const std::size_t line = last == std::string::npos ? 0 : answer.err.find_last_of('\n', last) + 1;
    return fail(fmt::format(
        "The renderer {} ended with code {}{}.", table::visible(python), answer.status,
        last == std::string::npos ? "" : ": " + table::visible(answer.err.substr(line, last + 1 - line))));
  } catch (const UserError& error) {
    return fail(fmt::format(
        "Charts need a Python with vl-convert-python, and {}: set ROUTEOPD_CHART_PYTHON to one that "
        "has it (pip install vl-convert-python).",
        table::visible(error.what())));
  }
}

}  // namespace routeopd::report
