// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/charts/state_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "routeopd/report/charts/palette.h"
#include "routeopd/report/charts/spec.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kShownIds = 12;  // rows of scalar credit
constexpr std::size_t kShownEnds = 7;  // sources, and destinations, of the operator

struct StateId {
  std::int64_t id = 0;
  std::string label;
  double p_student = 0, p_teacher = 0, q_minus = 0, q_plus = 0, potential = 0, bounded = 0;
  double change_sampled = 0, change_routed = 0;
};

struct StatePair {
  std::int64_t source = 0, destination = 0;
  double target = 0;
};

struct State {
  std::vector<StateId> ids;
  std::vector<StatePair> pairs;
  std::optional<std::int64_t> action;
  std::string where;  // a sentence
};

std::optional<StateId> id_of(const Json& line) {
  StateId id;
  const auto read = [&](const char* key, double& value) {
    const std::optional<double> number = number_at(line, {key});
    if (number) value = *number;
    return number && std::isfinite(*number);
  };
  const std::optional<std::int64_t> number = whole_at(line, "id");
  if (!number || !read("p_student", id.p_student) || !read("p_teacher", id.p_teacher) ||
      !read("q_minus", id.q_minus) || !read("q_plus", id.q_plus) || !read("potential", id.potential) ||
      !read("bounded", id.bounded) || !read("change_sampled_rkl", id.change_sampled) ||
      !read("change_routeopd", id.change_routed))
    return std::nullopt;
  id.id = *number;
  id.label = fmt::format("\"{}\"", short_text(text_at(line, "text"), 16));
  return id;
}

State state_of(const Json& example) {
  State state;
  std::set<std::string> labels;
  for (const Json& line : list_at(example, "ids")) {
    std::optional<StateId> id = id_of(line);
    if (!id) continue;
    if (!labels.insert(id->label).second)
      id->label += fmt::format(" #{}", id->id);  // texts that are cut may be alike
    state.ids.push_back(std::move(*id));
  }
  for (const Json& line : list_at(example, "pairs")) {
    const auto source = whole_at(line, "source"), destination = whole_at(line, "destination");
    const auto target = number_at(line, {"target"});
    if (source && destination && target) state.pairs.push_back({*source, *destination, *target});
  }
  if (const auto action = example.find("action"); action != example.end())
    state.action = whole_at(*action, "id");
  const std::string choice = text_at(example, "choice");
  state.where = fmt::format("The state is a real one of the bank{}, after “{}”.",
                            choice.empty() ? "" : fmt::format(" ({})", short_text(choice, 160)),
                            end_of_text(text_at(example, "prefix"), 80));
  return state;
}

bool no_state(const Json& example, Block& block) {
  if (example.is_object() && !list_at(example, "ids").empty()) return false;
  block.missing.emplace_back("No example state: example.json of a probe directory holds one.");
  return true;
}

}  // namespace

Block scalar_credit_figure(const Json& example) {
  Block block = titled("scalar-credit", "What scalar credit leaves open");
  if (no_state(example, block)) return block;
  const State state = state_of(example);
  const std::optional<double> advantage = number_at(example, {"advantage"});
  block.words = fmt::format(
      "{} Left: what the teacher asks for, token by token. Middle: what one step on sampled-RKL's scalar "
      "credit{} does: it moves "
      "the sampled token, and the softmax spreads the rest by the student's own probabilities, whatever the "
      "teacher asks. Right: "
      "a RouteOPD step of the same size.",
      state.where, advantage ? fmt::format(" (advantage {:.2f})", *advantage) : "");
  Json rows = Json::array(), order = Json::array();
  double asked_rest = 0, sampled_rest = number_at(example, {"rest", "change_sampled_rkl"}).value_or(0),
         routed_rest = number_at(example, {"rest", "change_routeopd"}).value_or(0);
  std::size_t shown = 0;
  const auto add = [&](const std::string& token, double asked, double sampled, double routed) {
    order.push_back(token);
    rows.push_back(
        {{"token", token}, {"asked", 100 * asked}, {"sampled", 100 * sampled}, {"routed", 100 * routed}});
  };
  for (const StateId& id : state.ids) {
    const bool taken = state.action && *state.action == id.id;
    if (shown < kShownIds || taken) {
      add(taken ? id.label + " (sampled)" : id.label, id.p_teacher - id.p_student, id.change_sampled,
          id.change_routed);
      ++shown;
    } else {
      asked_rest += id.p_teacher - id.p_student;
      sampled_rest += id.change_sampled;
      routed_rest += id.change_routed;
    }
  }
  add("all other tokens", asked_rest, sampled_rest, routed_rest);
  block.table = table_of_rows(rows, {{"token", "token", 0},
                                     {"asked", "teacher asks, points", 3},
                                     {"sampled", "sampled-RKL step, points", 3},
                                     {"routed", "RouteOPD step, points", 3}});
  block.chart = chart_of(
      block.title,
      "Three bar charts over the same tokens: the change of probability that the teacher asks for, that of a "
      "sampled-RKL step, and that of a RouteOPD step.",
      rows);
  const auto panel = [&](const char* field, const char* heading, bool first) {
    Json y =
        category("token", "",
                 {{"sort", order}, {"axis", first ? Json{{"labelLimit", 170}, {"tickSize", 0}} : Json()}});
    return Json{
        {"title", {{"text", heading}, {"fontSize", 12}, {"fontWeight", "normal"}, {"anchor", "middle"}}},
        {"width", 135},
        {"height", {{"step", 19}}},
        {"transform",
         {{{"calculate", fmt::format("datum.{} < 0 ? 'loses' : 'gains'", field)}, {"as", "sign"}}}},
        {"mark", {{"type", "bar"}, {"height", 12}}},
        {"encoding",
         {{"y", y},
          {"x", quantity(field, "points of probability", {{"axis", {{"tickCount", 3}}}})},
          {"color",
           category(
               "sign", "",
               {{"scale",
                 {{"domain", {"gains", "loses"}},
                  {"range", {chart_color("blue"), chart_color("vermillion")}}}},
                {"legend", {{"title", nullptr}, {"symbolType", "square"}, {"symbolStrokeWidth", 0}}}})}}}};
  };
  block.chart["hconcat"] =
      Json::array({panel("asked", "teacher minus student", true), panel("sampled", "sampled-RKL step", false),
                   panel("routed", "RouteOPD step", false)});
  block.chart["spacing"] = 14;
  return block;
}

namespace {

// The ends of the picture: those of drawn pairs first, then the largest shares.
std::vector<const StateId*> ends_of(const State& state, bool sources) {
  std::vector<const StateId*> all;
  for (const StateId& id : state.ids) {
    if ((sources ? id.q_minus : id.q_plus) > 0) all.push_back(&id);
  }
  const auto drawn = [&](const StateId* id) {
    return std::any_of(state.pairs.begin(), state.pairs.end(), [&](const StatePair& pair) {
      return (sources ? pair.source : pair.destination) == id->id;
    });
  };
  const auto share = [&](const StateId* id) { return sources ? id->q_minus : id->q_plus; };
  std::stable_sort(all.begin(), all.end(), [&](const StateId* a, const StateId* b) {
    return drawn(a) != drawn(b) ? drawn(a) : share(a) > share(b);
  });
  if (all.size() > kShownEnds) all.resize(kShownEnds);
  std::stable_sort(all.begin(), all.end(),
                   [&](const StateId* a, const StateId* b) { return share(a) > share(b); });
  return all;
}

// Columns of the picture of pairs, in pixels.
constexpr double kPictureWidth = 520, kRow = 26, kSourceText = 130, kSourceBar = 210, kArrow = 222,
                 kArrowEnd = 306, kTargetBar = 318, kTargetText = 398, kBar = 70;

Json pairs_picture(const State& state, const std::vector<const StateId*>& sources,
                   const std::vector<const StateId*>& destinations) {
  Json ends = Json::array(), arrows = Json::array();
  const double rows = static_cast<double>(std::max(sources.size(), destinations.size()));
  double most = 1e-12;
  for (const StateId* id : sources) most = std::max(most, id->q_minus);
  for (const StateId* id : destinations) most = std::max(most, id->q_plus);
  const auto row_of = [&](const std::vector<const StateId*>& list, std::size_t i) {
    return (rows - static_cast<double>(list.size())) / 2 + static_cast<double>(i) +
           0.5;  // the shorter list in the middle
  };
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const double length = kBar * sources[i]->q_minus / most;
    ends.push_back({{"label", sources[i]->label},
                    {"side", "excess"},
                    {"row", row_of(sources, i)},
                    {"text_x", kSourceText},
                    {"from", kSourceBar - length},
                    {"to", kSourceBar},
                    {"align", "right"},
                    {"share", 100 * sources[i]->q_minus}});
  }
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    const double length = kBar * destinations[i]->q_plus / most;
    ends.push_back({{"label", destinations[i]->label},
                    {"side", "deficit"},
                    {"row", row_of(destinations, i)},
                    {"text_x", kTargetText},
                    {"from", kTargetBar},
                    {"to", kTargetBar + length},
                    {"align", "left"},
                    {"share", 100 * destinations[i]->q_plus}});
  }
  const auto find = [](const std::vector<const StateId*>& list, std::int64_t id) {
    return std::find_if(list.begin(), list.end(), [&](const StateId* each) { return each->id == id; }) -
           list.begin();
  };
  for (const StatePair& pair : state.pairs) {
    const auto a = find(sources, pair.source), b = find(destinations, pair.destination);
    if (a == std::ssize(sources) || b == std::ssize(destinations)) continue;
    const double from = row_of(sources, static_cast<std::size_t>(a)),
                 to = row_of(destinations, static_cast<std::size_t>(b));
    // Vega's triangles point up; angles go clockwise, and rows go down.
    const double angle = 90 + std::atan2((to - from) * kRow, kArrowEnd - kArrow) * 180 / std::numbers::pi;
    arrows.push_back({{"from", kArrow},
                      {"to", kArrowEnd},
                      {"row", from},
                      {"row_to", to},
                      {"middle", (kArrow + kArrowEnd) / 2},
                      {"row_middle", (from + to) / 2},
                      {"angle", angle},
                      {"target", fmt::format("{:+.2f}", pair.target)}});
  }
  const auto x = [](const char* field) {
    return quantity(field, "",
                    {{"scale", {{"domain", {0, kPictureWidth}}, {"nice", false}}}, {"axis", nullptr}});
  };
  const auto y = [&](const char* field) {
    return quantity(
        field, "",
        {{"scale", {{"domain", {-0.9, rows}}, {"nice", false}, {"reverse", true}}}, {"axis", nullptr}});
  };
  const Json heads =
      Json::array({{{"x", kSourceBar}, {"row", -0.5}, {"text", "excess: gives (q−)"}, {"align", "right"}},
                   {{"x", kTargetBar}, {"row", -0.5}, {"text", "deficit: takes (q+)"}, {"align", "left"}}});
  const Json words = {{"type", "text"}, {"baseline", "middle"}, {"align", {{"expr", "datum.align"}}}};
  Json faint = words;
  faint["color"] = chart_color("faint");
  return {
      {"width", kPictureWidth},
      {"height", (rows + 0.9) * kRow},
      {"layer",
       Json::array(
           {{{"data", {{"values", heads}}},
             {"mark", faint},
             {"encoding",
              {{"x", x("x")}, {"y", y("row")}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}},
            {{"data", {{"values", ends}}},
             {"mark", words},
             {"encoding",
              {{"x", x("text_x")}, {"y", y("row")}, {"text", {{"field", "label"}, {"type", "nominal"}}}}}},
            {{"data", {{"values", ends}}},
             {"mark", {{"type", "rule"}, {"strokeWidth", 13}}},
             {"encoding",
              {{"x", x("from")},
               {"x2", {{"field", "to"}}},
               {"y", y("row")},
               {"color", category("side", "",
                                  {{"legend", nullptr},
                                   {"scale",
                                    {{"domain", {"excess", "deficit"}},
                                     {"range", {chart_color("vermillion"), chart_color("blue")}}}}})}}}},
            {{"data", {{"values", arrows}}},
             {"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"color", chart_color("ink")}}},
             {"encoding",
              {{"x", x("from")}, {"x2", {{"field", "to"}}}, {"y", y("row")}, {"y2", {{"field", "row_to"}}}}}},
            {{"data", {{"values", arrows}}},
             {"mark",
              {{"type", "point"},
               {"shape", "triangle"},
               {"size", 90},
               {"color", chart_color("ink")},
               {"angle", {{"expr", "datum.angle"}}}}},
             {"encoding", {{"x", x("to")}, {"y", y("row_to")}}}},
            {{"data", {{"values", arrows}}},
             {"mark", {{"type", "text"}, {"dy", -9}, {"stroke", chart_color("ground")}, {"strokeWidth", 4}}},
             {"encoding",
              {{"x", x("middle")},
               {"y", y("row_middle")},
               {"text", {{"field", "target"}, {"type", "nominal"}}}}}},
            {{"data", {{"values", arrows}}},
             {"mark", {{"type", "text"}, {"dy", -9}}},
             {"encoding",
              {{"x", x("middle")},
               {"y", y("row_middle")},
               {"text", {{"field", "target"}, {"type", "nominal"}}}}}}})}};
}

Json potentials_picture(const Json& rows, const Json& order, std::optional<double> budget) {
  const Json x = quantity("value", "potential g, and bounded to ±B/2 (log-odds)",
                          {{"scale", {{"padding", 8}}}, {"axis", {{"tickCount", 6}}}});
  const Json y = category(
      "token", "", {{"sort", order}, {"axis", {{"grid", true}, {"tickSize", 0}, {"labelLimit", 170}}}});
  Json points = Json::array();
  for (const Json& row : rows) {
    points.push_back({{"token", row["token"]},
                      {"kind", "potential g"},
                      {"value", row["potential"]},
                      {"other", row["bounded"]}});
    points.push_back(
        {{"token", row["token"]}, {"kind", "bounded"}, {"value", row["bounded"]}, {"other", row["bounded"]}});
  }
  Json layers = Json::array();
  if (budget) {
    for (const double edge : {-*budget / 2, *budget / 2})
      layers.push_back(
          {{"mark", {{"type", "rule"}, {"strokeDash", {4, 3}}}}, {"encoding", {{"x", {{"datum", edge}}}}}});
  }
  layers.push_back({{"mark", {{"type", "rule"}, {"strokeWidth", 1}}},
                    {"encoding", {{"x", x}, {"x2", {{"field", "other"}}}, {"y", y}}}});
  const Json legend = {{"title", nullptr}};
  const Json domain = {"potential g", "bounded"};
  layers.push_back(
      {{"mark", {{"type", "point"}, {"size", 60}}},
       {"encoding",
        {{"x", x},
         {"y", y},
         {"color",
          category(
              "kind", "",
              {{"legend", legend},
               {"scale", {{"domain", domain}, {"range", {chart_color("purple"), chart_color("green")}}}}})},
         {"shape", category("kind", "",
                            {{"legend", legend},
                             {"scale", {{"domain", domain}, {"range", {"circle", "diamond"}}}}})}}}});
  return {{"data", {{"values", points}}}, {"width", 360}, {"height", {{"step", 19}}}, {"layer", layers}};
}

}  // namespace

Block operator_figure(const Json& example) {
  Block block = titled("operator", "The operator at one state");
  if (no_state(example, block)) return block;
  const State state = state_of(example);
  const std::vector<const StateId*> sources = ends_of(state, true), destinations = ends_of(state, false);
  if (sources.empty() || destinations.empty()) {
    block.missing.emplace_back("The example state has no excess or no deficit: nothing is routed there.");
    return block;
  }
  const std::optional<double> mass = number_at(example, {"mass"}),
                              concentration = number_at(example, {"concentration"}),
                              budget = number_at(example, {"budget"});
  const auto said = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.3f}", *value) : std::string("unknown");
  };
  block.words = fmt::format(
      "{} Mismatch mass M = {}, concentration c = {}, budget B = {}. Above: tokens with more probability "
      "than the teacher gives "
      "them, tokens with less, and the drawn pairs, each with the change of log-odds that is asked of it. "
      "Below: the potentials "
      "that targets come from, before and after they are bounded by the budget (dashed lines at ±B/2).",
      state.where, said(mass), said(concentration), said(budget));
  Json rows = Json::array(), order = Json::array();
  for (const auto* list : {&sources, &destinations}) {
    for (const StateId* id : *list) {
      order.push_back(id->label);
      rows.push_back({{"token", id->label},
                      {"side", list == &sources ? "excess" : "deficit"},
                      {"p_student", 100 * id->p_student},
                      {"p_teacher", 100 * id->p_teacher},
                      {"share", 100 * (list == &sources ? id->q_minus : id->q_plus)},
                      {"potential", id->potential},
                      {"bounded", id->bounded}});
    }
  }
  block.table = table_of_rows(rows, {{"token", "token", 0},
                                     {"side", "side", 0},
                                     {"p_student", "student %", 2},
                                     {"p_teacher", "teacher %", 2},
                                     {"share", "share of q %", 2},
                                     {"potential", "potential g", 3},
                                     {"bounded", "bounded", 3}});
  block.chart = chart_of(block.title,
                         "Excess tokens on the left, deficit tokens on the right, arrows for the drawn "
                         "pairs; below, the potential of "
                         "each token before and after it is bounded.",
                         rows);
  block.chart["vconcat"] =
      Json::array({pairs_picture(state, sources, destinations), potentials_picture(rows, order, budget)});
  block.chart["resolve"] = {{"scale", {{"color", "independent"}, {"shape", "independent"}}}};
  return block;
}

}  // namespace routeopd::report
