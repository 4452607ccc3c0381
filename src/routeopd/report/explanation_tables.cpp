// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/explanation_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

constexpr table::Align kLeft = table::Align::kLeft, kRight = table::Align::kRight;

std::string id_name(const Explanation& explanation, std::int32_t id) {
  const std::string bytes = bytes_of(explanation, id);
  return bytes.empty() ? fmt::format("id {}", id) : table::in_quotes(bytes);
}

std::string share(double p) {
  return fmt::format("{:.4f}", p);
}

std::string with_sign(double value) {
  return fmt::format("{:+.3f}", value);
}

std::string in_percent(double p) {
  return fmt::format("{:.2f}", 100 * p);
}

std::string moved(std::optional<double> before, std::optional<double> after) {
  if (!before) return "outside U";
  return after ? fmt::format("{:.4f} → {:.4f}", *before, *after) : share(*before);
}

std::string setting(const Explanation& explanation, const char* name) {
  return explanation.objective.contains(name) ? table::visible(shown(explanation.objective[name])) : "?";
}

const ExplainedId* find_id(const ExplainedToken& token, std::int32_t id) {
  const auto found =
      std::find_if(token.ids.begin(), token.ids.end(), [&](const ExplainedId& row) { return row.id == id; });
  return found == token.ids.end() ? nullptr : &*found;
}

// p_S, p_T and g of an id.
void append_id_cells(const ExplainedToken& token, std::int32_t id, std::vector<std::string>& cells) {
  if (const ExplainedId* const row = find_id(token, id)) {
    cells.insert(cells.end(), {share(row->p_student), share(row->p_teacher), with_sign(row->potential)});
  } else {
    cells.insert(cells.end(), {"", "", ""});
  }
}

}  // namespace

std::string bytes_of(const Explanation& explanation, std::int32_t id) {
  const auto found = explanation.texts.find(id);
  return found == explanation.texts.end() ? std::string() : found->second;
}

std::string token_name(const Explanation& explanation, std::size_t place) {
  return fmt::format("token {} {}", place, id_name(explanation, explanation.tokens[place].id));
}

std::vector<std::string> heading_lines(const Explanation& explanation) {
  const std::size_t tokens = explanation.tokens.size();
  const auto routed = std::count_if(explanation.tokens.begin(), explanation.tokens.end(),
                                    [](const ExplainedToken& token) { return token.not_routed.empty(); });
  double mass = 0;
  for (const ExplainedToken& token : explanation.tokens) mass += token.mass;
  const std::string pairs = setting(explanation, "pairs") == "exact"
                                ? "all pairs (exact)"
                                : fmt::format("m = {}", setting(explanation, "m"));
  return {fmt::format("student {}, teacher {}", table::visible(explanation.student),
                      table::visible(explanation.teacher)),
          fmt::format("prompt of {} tokens{}, response of {} ({}), {} of them routed, mean mass {:.4f}",
                      explanation.prompt_ids.size(),
                      explanation.teacher_prompt_ids.empty()
                          ? ""
                          : fmt::format(", the teacher's of {}", explanation.teacher_prompt_ids.size()),
                      tokens,
                      explanation.finish == "given"  ? "given"
                      : explanation.finish == "stop" ? "ended by the student"
                                                     : "cut off",
                      routed, tokens == 0 ? 0 : mass / static_cast<double>(tokens)),
          fmt::format("arm {}, k = {}, {}, budget {}, to {}, seed {}", setting(explanation, "arm"),
                      setting(explanation, "k"), pairs, setting(explanation, "budget"),
                      setting(explanation, "destination"), explanation.seed)};
}

ExplanationTable token_table(const Explanation& explanation, const std::vector<std::size_t>& places) {
  ExplanationTable table{"",
                         {{"at", kRight},
                          {"token", kLeft},
                          {"M", kRight},
                          {"π_S", kRight},
                          {"π_T", kRight},
                          {"routed", kLeft},
                          {"most likely move", kLeft}},
                         {},
                         ""};
  for (const std::size_t place : places) {
    const ExplainedToken& token = explanation.tokens[place];
    std::string move;
    if (!token.pairs.empty() && token.not_routed.empty()) {
      const ExplainedPair& pair = token.pairs.front();
      move =
          fmt::format("{} → {}", id_name(explanation, pair.source), id_name(explanation, pair.destination));
    }
    table.rows.push_back({std::to_string(place), id_name(explanation, token.id), share(token.mass),
                          share(token.pi_student), share(token.pi_teacher),
                          token.not_routed.empty() ? "yes" : "no", move});
  }
  return table;
}

ExplanationTable state_table(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  ExplanationTable table{"", {{"", kLeft}, {"", kRight}, {"", kLeft}}, {}, ""};
  table.rows.push_back({"π_S, π_T of this token",
                        fmt::format("{}, {}", share(token.pi_student), share(token.pi_teacher)),
                        "in the whole distributions"});
  table.rows.push_back(
      {"mismatch mass M", share(token.mass), "share of the probability on U that sits on the wrong ids"});
  table.rows.push_back({"union U", std::to_string(token.support),
                        fmt::format("ids: {} give, {} take", token.n_excess, token.n_deficit)});
  table.rows.push_back(
      {"retained π_S(U), π_T(U)",
       fmt::format("{} %, {} %", in_percent(token.student_mass), in_percent(token.teacher_mass)),
       "what U holds of each model"});
  if (!token.not_routed.empty()) {
    table.rows.push_back({"routed", "no", table::visible(token.not_routed)});
    return table;
  }
  table.rows.push_back({"concentration c", fmt::format("{:.3f}", token.concentration),
                        "of the teacher's demand; 1: one id, 0: all alike"});
  table.rows.push_back(
      {"budget B", fmt::format("{:.3f}", token.budget), "most that the log-odds of a pair are to change"});
  return table;
}

ExplanationTable pair_table(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  ExplanationTable table{"From → to",
                         {{"from", kLeft},
                          {"p_S", kRight},
                          {"p_T", kRight},
                          {"g", kRight},
                          {"to", kLeft},
                          {"p_S", kRight},
                          {"p_T", kRight},
                          {"g", kRight},
                          {"target", kRight},
                          {"likely %", kRight},
                          {"drawn", kRight}},
                         {},
                         ""};
  double held = 0;
  for (const ExplainedPair& pair : token.pairs) {
    held += pair.coupling;
    std::vector<std::string> cells = {id_name(explanation, pair.source)};
    append_id_cells(token, pair.source, cells);
    cells.push_back(id_name(explanation, pair.destination));
    append_id_cells(token, pair.destination, cells);
    cells.push_back(with_sign(pair.target));
    cells.push_back(in_percent(pair.coupling));
    cells.push_back(pair.draws > 0 ? fmt::format("{}x", pair.draws) : "");
    table.rows.push_back(std::move(cells));
  }
  const std::int64_t possible = std::int64_t{token.n_excess} * token.n_deficit;
  table.note = fmt::format("{} of {} pairs; they are {} % of the coupling q-·q+, the other {} hold {} %",
                           token.pairs.size(), possible, in_percent(held), possible - std::ssize(token.pairs),
                           in_percent(std::max(0.0, 1 - held)));
  return table;
}

ExplanationTable step_table(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  ExplanationTable table{
      "One exact step on all of U: every logit moves by φ, so that every pair meets its shared target",
      {{"", kLeft},
       {"id", kLeft},
       {"p_S before", kRight},
       {"after", kRight},
       {"p_T", kRight},
       {"g", kRight},
       {"φ", kRight},
       {"share %", kRight}},
      {},
      ""};
  std::set<std::int32_t> spoken_of;
  for (const auto* pairs : {&token.pairs, &token.drawn}) {
    for (const ExplainedPair& pair : *pairs) spoken_of.insert({pair.source, pair.destination});
  }
  for (const ExplainedId& row : token.ids) {
    if (!spoken_of.contains(row.id)) continue;
    table.rows.push_back({row.q_minus > 0  ? "gives"
                          : row.q_plus > 0 ? "takes"
                                           : "",
                          id_name(explanation, row.id), share(row.p_student), share(row.p_after),
                          share(row.p_teacher), with_sign(row.potential), with_sign(row.bounded),
                          in_percent(std::max(row.q_minus, row.q_plus))});
  }
  table.note = fmt::format(
      "M {:.4f} → {:.4f}, π_S(U) {} % → {} %; {} of the {} ids of U are shown, those that the pairs name",
      token.mass, token.mass_after, in_percent(token.student_mass), in_percent(token.student_mass_after),
      table.rows.size(), token.support);
  return table;
}

ExplanationTable drawn_table(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  ExplanationTable table{
      fmt::format("The {} pairs that seed {} draws, each moved alone (half of its target on either logit)",
                  token.drawn.size(), explanation.seed),
      {{"from", kLeft}, {"to", kLeft}, {"target", kRight}, {"p_S of from", kRight}, {"p_S of to", kRight}},
      {},
      ""};
  for (const ExplainedPair& pair : token.drawn) {
    table.rows.push_back({id_name(explanation, pair.source), id_name(explanation, pair.destination),
                          with_sign(pair.target), moved(pair.source_before, pair.source_after),
                          moved(pair.destination_before, pair.destination_after)});
  }
  return table;
}

std::vector<ExplanationTable> tables_of(const Explanation& explanation, std::size_t place) {
  std::vector<ExplanationTable> tables = {state_table(explanation, place)};
  const ExplainedToken& token = explanation.tokens[place];
  if (!token.not_routed.empty()) return tables;
  tables.push_back(pair_table(explanation, place));
  if (!token.drawn.empty()) tables.push_back(drawn_table(explanation, place));
  tables.push_back(step_table(explanation, place));
  return tables;
}

}  // namespace routeopd::report
