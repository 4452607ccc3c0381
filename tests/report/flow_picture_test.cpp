// The flow at a state: its masses, and its picture.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/flow_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "routeopd/report/explanation_page.h"

namespace routeopd::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHostile = "</text></svg><script>alert(1)</script>\" onload='x'&<!--\x1b\xf0";

// `sources` ids that give and `destinations` that take, with shares in proportion to 1, 2, 3, …
Explanation state(int sources, int destinations) {
  ExplainedToken token;
  token.id = 1;
  token.mass = 0.4;
  token.n_excess = sources;
  token.n_deficit = destinations;
  const auto total = [](int count) { return count * (count + 1) / 2.0; };
  for (int s = 1; s <= sources; ++s)
    token.ids.push_back({.id = s, .p_student = 0.1, .p_teacher = 0, .q_minus = s / total(sources)});
  for (int d = 1; d <= destinations; ++d)
    token.ids.push_back({.id = 100 + d, .p_student = 0, .p_teacher = 0.1, .q_plus = d / total(destinations)});
  token.drawn.resize(2);
  token.drawn[0].source = sources;
  token.drawn[0].destination = 100 + destinations;
  token.drawn[1].source = 1;
  token.drawn[1].destination = 101;
  Explanation explanation;
  explanation.tokens = {token};
  explanation.texts = {{1, "one"}, {sources, kHostile}, {100 + destinations, " to"}};
  explanation.objective = {{"arm", "routeopd"}};
  return explanation;
}

double sum_of(const std::vector<FlowEnd>& ends) {
  double sum = 0;
  for (const FlowEnd& end : ends) sum += end.mass;
  return sum;
}

TEST(FlowPicture, MassIsConserved) {
  for (const auto& [sources, destinations] : {std::pair(1, 1), std::pair(3, 6), std::pair(40, 7)}) {
    const Flow flow = flow_of(state(sources, destinations), 0);
    EXPECT_NEAR(sum_of(flow.sources), 0.4, 1e-15);
    EXPECT_NEAR(sum_of(flow.destinations), 0.4, 1e-15);
    std::vector<double> given(flow.sources.size()), taken(flow.destinations.size());
    for (const FlowBand& band : flow.bands) {
      given[band.source] += band.mass;
      taken[band.destination] += band.mass;
    }
    for (std::size_t s = 0; s < given.size(); ++s) EXPECT_NEAR(given[s], flow.sources[s].mass, 1e-15);
    for (std::size_t d = 0; d < taken.size(); ++d) EXPECT_NEAR(taken[d], flow.destinations[d].mass, 1e-15);
  }
}

TEST(FlowPicture, HasABoundedNumberOfBandsAndTheRestTogether) {
  const Flow flow = flow_of(state(40, 6), 0);
  EXPECT_EQ(flow.sources.size(), kMostFlowEnds);
  EXPECT_EQ(flow.sources.back().name, "35 others");
  EXPECT_NEAR(flow.sources.front().mass, 0.4 * 40 / 820, 1e-15) << "the largest share comes first";
  EXPECT_EQ(flow.destinations.size(), 6U);
  EXPECT_EQ(flow.destinations.back().name, "id 101") << "six have a name each";
  EXPECT_EQ(flow.bands.size(), 36U);
  Explanation cut = state(40, 6);
  cut.tokens[0].ids.erase(cut.tokens[0].ids.begin());  // of a large U not all ids are there
  EXPECT_EQ(flow_of(cut, 0).sources.back().name, "35 others");
  EXPECT_NEAR(sum_of(flow_of(cut, 0).sources), 0.4, 1e-15);
}

TEST(FlowPicture, MarksThePairsThatAreDrawn) {
  std::size_t drawn = 0;
  for (const FlowBand& band : flow_of(state(2, 3), 0).bands) {
    drawn += band.drawn ? 1 : 0;
    EXPECT_EQ(band.drawn,
              (band.source == 0 && band.destination == 0) || (band.source == 1 && band.destination == 2));
  }
  EXPECT_EQ(drawn, 2U);
}

TEST(FlowPicture, WidthsAreInProportionToMasses) {
  const Explanation explanation = state(4, 9);
  const Flow flow = flow_of(explanation, 0);
  const std::string svg = flow_svg(explanation, 0);
  const std::regex path(
      "<path class=\"f(\\d)(?: drawn)?\" d=\"M[\\d.]+,([\\d.]+)C[^v]* [\\d.]+,([\\d.]+)v([\\d.]+)C");
  std::vector<double> next(flow.sources.size(), -1);
  std::size_t count = 0;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), path); at != std::sregex_iterator(); ++at) {
    const FlowBand& band = flow.bands.at(count++);
    EXPECT_EQ(std::stoul((*at)[1]), band.source);
    const double top = std::stod((*at)[2]), wide = std::stod((*at)[4]);
    EXPECT_NEAR(wide, 200 * band.mass / 0.4, 1e-3);
    // Bands of a source lie side by side.
    if (next[band.source] < 0) next[band.source] = top;
    EXPECT_NEAR(top, next[band.source], 2e-3);
    next[band.source] = top + wide;
  }
  EXPECT_EQ(count, flow.bands.size());
  const std::regex bar("<rect [^>]*height=\"([\\d.]+)\"");
  std::vector<double> bars;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), bar); at != std::sregex_iterator(); ++at)
    bars.push_back(std::stod((*at)[1]));
  ASSERT_EQ(bars.size(), flow.sources.size() + flow.destinations.size());
  EXPECT_NEAR(bars[0], 200 * flow.sources[0].mass / 0.4, 1e-3);
}

TEST(FlowPicture, TextsStayTextsAndThePictureIsDescribed) {
  const Explanation explanation = state(3, 3);
  const std::string svg = flow_svg(explanation, 0);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("<!--")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, HasSubstr("&lt;/text&gt;"));
  const std::regex tag("<(/?(?:svg|title|desc|path|rect|text))(?: [a-zA-Z-]+=\"[^\"<>]*\")*/?>");
  const std::string words = std::regex_replace(svg, tag, "");
  EXPECT_EQ(words.find_first_of("<>"), std::string::npos) << words;
  EXPECT_THAT(svg, HasSubstr("role=\"img\" aria-labelledby=\"flow0-title flow0-words\""));
  EXPECT_THAT(svg, HasSubstr("<title id=\"flow0-title\">Where probability would move at token 0 "));
  EXPECT_THAT(svg, HasSubstr("<desc id=\"flow0-words\">A mass of 0.4000 goes from "));
  EXPECT_THAT(explanation_html(explanation), HasSubstr(svg)) << "the page has it";
}

TEST(FlowPicture, NothingIsDrawnWhereNothingMoves) {
  Explanation explanation = state(2, 2);
  explanation.tokens[0].not_routed = "no deficit";
  EXPECT_EQ(flow_svg(explanation, 0), "");
  EXPECT_THAT(explanation_html(explanation), Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace routeopd::report
