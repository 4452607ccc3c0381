// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/flow_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "routeopd/base/display.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/explanation_tables.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

// Pixels.
constexpr double kFlowWidth = 640, kFlowHeight = 200;      // of the bands together
constexpr double kFlowLabels = 220;                        // on either side
constexpr double kFlowBar = 10, kSlot = 16, kSlotGap = 4;  // a slot holds a bar and its label
constexpr std::size_t kMostLetters = 20;

std::string end_name(const Explanation& explanation, std::int32_t id) {
  const std::string bytes = bytes_of(explanation, id);
  return bytes.empty() ? fmt::format("id {}", id) : short_text(table::in_quotes(bytes), kMostLetters);
}

// One side of the flow: the ids with the largest shares, then the rest of the `count` ids together.
struct FlowSide {
  std::vector<FlowEnd> ends;
  std::map<std::int32_t, std::size_t> places;  // of the ids that have an end of their own
};

FlowSide side_of(const Explanation& explanation, const ExplainedToken& token, double ExplainedId::* share,
                 std::int32_t count) {
  std::vector<const ExplainedId*> giving;
  for (const ExplainedId& id : token.ids)
    if (id.*share > 0) giving.push_back(&id);
  std::stable_sort(giving.begin(), giving.end(),
                   [&](const ExplainedId* a, const ExplainedId* b) { return a->*share > b->*share; });
  const auto all = std::max<std::size_t>(giving.size(), static_cast<std::size_t>(std::max(count, 0)));
  const std::size_t named = all <= kMostFlowEnds ? giving.size() : std::min(giving.size(), kMostFlowEnds - 1);
  FlowSide side;
  double rest = 1;
  for (std::size_t i = 0; i < named; ++i) {
    side.places[giving[i]->id] = i;
    side.ends.push_back({end_name(explanation, giving[i]->id), token.mass * (giving[i]->*share)});
    rest -= giving[i]->*share;
  }
  if (all > named)
    side.ends.push_back({fmt::format("{} other{}", all - named, all - named == 1 ? "" : "s"),
                         token.mass * std::max(rest, 0.0)});
  return side;
}

// Where the bars of a side stand.
std::vector<double> tops_of(const std::vector<FlowEnd>& ends, double scale, double& height) {
  std::vector<double> tops;
  double at = kSlotGap;
  for (const FlowEnd& end : ends) {
    const double slot = std::max(end.mass * scale, kSlot);
    tops.push_back(at + (slot - end.mass * scale) / 2);
    at += slot + kSlotGap;
  }
  height = std::max(height, at);
  return tops;
}

std::string end_list(const std::vector<FlowEnd>& ends) {
  std::string words;
  for (const FlowEnd& end : ends)
    words += fmt::format("{}{} {:.4f}", words.empty() ? "" : ", ", end.name, end.mass);
  return words;
}

}  // namespace

Flow flow_of(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  Flow flow;
  if (!token.not_routed.empty() || token.mass <= 0) return flow;
  FlowSide from = side_of(explanation, token, &ExplainedId::q_minus, token.n_excess);
  FlowSide to = side_of(explanation, token, &ExplainedId::q_plus, token.n_deficit);
  flow.sources = std::move(from.ends);
  flow.destinations = std::move(to.ends);
  for (std::size_t s = 0; s < flow.sources.size(); ++s)
    for (std::size_t d = 0; d < flow.destinations.size(); ++d)
      flow.bands.push_back({s, d, flow.sources[s].mass * flow.destinations[d].mass / token.mass});
  for (const ExplainedPair& pair : token.drawn) {
    const auto source = from.places.find(pair.source), destination = to.places.find(pair.destination);
    if (source != from.places.end() && destination != to.places.end())
      flow.bands[source->second * flow.destinations.size() + destination->second].drawn = true;
  }
  return flow;
}

std::string flow_svg(const Explanation& explanation, std::size_t place) {
  const Flow flow = flow_of(explanation, place);
  if (flow.sources.empty() || flow.destinations.empty()) return "";
  const double mass = explanation.tokens[place].mass, scale = kFlowHeight / mass;
  double height = 0;
  const std::vector<double> left = tops_of(flow.sources, scale, height),
                            right = tops_of(flow.destinations, scale, height);
  constexpr double kFrom = kFlowLabels + kFlowBar, kTo = kFlowWidth - kFlowLabels - kFlowBar,
                   kMiddle = (kFrom + kTo) / 2;
  std::string out = fmt::format(
      "<svg class=\"flow\" role=\"img\" aria-labelledby=\"flow{0}-title flow{0}-words\" width=\"{1}\" "
      "height=\"{2:.0f}\" viewBox=\"0 0 {1} {2:.0f}\">\n<title id=\"flow{0}-title\">Where probability would "
      "move at {3}</title>\n<desc id=\"flow{0}-words\">A mass of {4:.4f} goes from {5} to {6}.</desc>\n",
      place, kFlowWidth, height, html_escaped(token_name(explanation, place)), mass,
      html_escaped(end_list(flow.sources)), html_escaped(end_list(flow.destinations)));
  std::vector<double> given = left, taken = right;  // where the next band of an end begins
  for (const FlowBand& band : flow.bands) {
    const double wide = band.mass * scale;
    double &y = given[band.source], &to = taken[band.destination];
    fmt::format_to(std::back_inserter(out),
                   "<path class=\"f{0}{1}\" d=\"M{2},{3:.3f}C{4},{3:.3f} {4},{5:.3f} {6},{5:.3f}v{7:.3f}C{4},"
                   "{8:.3f} {4},{9:.3f} {2},{9:.3f}z\"><title>{10} → {11}: {12:.4f}</title></path>\n",
                   band.source, band.drawn ? " drawn" : "", kFrom, y, kMiddle, to, kTo, wide, to + wide,
                   y + wide, html_escaped(flow.sources[band.source].name),
                   html_escaped(flow.destinations[band.destination].name), band.mass);
    y += wide;
    to += wide;
  }
  const auto end = [&](const FlowEnd& each, double top, bool source) {
    const double tall = each.mass * scale;
    fmt::format_to(std::back_inserter(out),
                   "<rect x=\"{}\" y=\"{:.3f}\" width=\"{}\" height=\"{:.3f}\"/><text x=\"{}\" y=\"{:.1f}\" "
                   "text-anchor=\"{}\" dominant-baseline=\"central\">{} {:.4f}</text>\n",
                   source ? kFlowLabels : kTo, top, kFlowBar, tall,
                   source ? kFlowLabels - 6 : kFlowWidth - kFlowLabels + 6, top + tall / 2,
                   source ? "end" : "start", html_escaped(each.name), each.mass);
  };
  for (std::size_t s = 0; s < left.size(); ++s) end(flow.sources[s], left[s], true);
  for (std::size_t d = 0; d < right.size(); ++d) end(flow.destinations[d], right[d], false);
  return out + "</svg>\n";
}

}  // namespace routeopd::report
