// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "routeopd/base/utf8.h"
#include "routeopd/report/explanation_tables.h"
#include "routeopd/report/mass_colors.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kHeaviestShown = 10;

// Black and white of the 256 colours' cube.
constexpr int kTerminalBlack = 16, kTerminalWhite = 231;

std::string colored(const std::string& text, int level) {
  if (level == 0 || text.empty()) return text;
  const std::uint8_t background = kMassLevels[static_cast<std::size_t>(level - 1)].terminal;
  const int ink = text_on(terminal_rgb(background)).red == 0 ? kTerminalBlack : kTerminalWhite;
  return fmt::format("\033[48;5;{};38;5;{}m{}\033[0m", background, ink, text);
}

// A line feed is shown and obeyed.
std::string response_lines(const Explanation& explanation, bool colors) {
  std::string out;
  for (const ExplainedToken& token : explanation.tokens) {
    std::string bytes = bytes_of(explanation, token.id);
    if (bytes.empty()) bytes = fmt::format("[id {}]", token.id);
    const int level = colors ? mass_level(token.mass) : 0;
    std::size_t from = 0;
    for (std::size_t feed = bytes.find('\n'); feed != std::string::npos; feed = bytes.find('\n', from)) {
      out += colored(table::visible(std::string_view(bytes).substr(from, feed + 1 - from)), level);
      out += '\n';
      from = feed + 1;
    }
    out += colored(table::visible(std::string_view(bytes).substr(from)), level);
  }
  if (!out.ends_with('\n')) out += '\n';
  return out;
}

std::string terminal_legend() {
  std::string out = "mass of the state at which a token was written:";
  for (int level = 0; level <= static_cast<int>(kMassLevels.size()); ++level)
    out += fmt::format(" {}", colored(fmt::format(" {} ", level_name(level)), level));
  return out.append("\n");
}

std::string table_text(const ExplanationTable& table) {
  table::TextTable text(table.columns);
  for (const auto& row : table.rows) text.add(row);
  std::string out;
  if (!table.title.empty()) out.append(table.title).append("\n");
  out += text.text();
  if (!table.note.empty()) out.append(table.note).append("\n");
  return out;
}

// Places of the tokens with the most mass, in the order of the text.
std::vector<std::size_t> heaviest_places(const Explanation& explanation) {
  std::vector<std::size_t> places(explanation.tokens.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return explanation.tokens[a].mass > explanation.tokens[b].mass;
  });
  places.resize(std::min(places.size(), kHeaviestShown));
  std::sort(places.begin(), places.end());
  return places;
}

// {"id", "text", "bytes"?}: the bytes in hexadecimal where they are no UTF-8.
Json id_json(const Explanation& explanation, std::int32_t id) {
  const std::string bytes = bytes_of(explanation, id);
  Json json = {{"id", id}, {"text", lossy_utf8(bytes)}};
  if (find_invalid_utf8(bytes) == std::string_view::npos) return json;
  std::string digits;
  for (const char byte : bytes)
    fmt::format_to(std::back_inserter(digits), "{:02x}", static_cast<unsigned char>(byte));
  json["bytes"] = digits;
  return json;
}

Json number_or_null(std::optional<double> number) {
  return number ? Json(*number) : Json();
}

Json pairs_json(const std::vector<ExplainedPair>& pairs) {
  Json list = Json::array();
  for (const ExplainedPair& pair : pairs) {
    list.push_back({{"source", pair.source},
                    {"destination", pair.destination},
                    {"target", pair.target},
                    {"coupling", pair.coupling},
                    {"draws", pair.draws},
                    {"isolated",
                     {{"source", {number_or_null(pair.source_before), number_or_null(pair.source_after)}},
                      {"destination",
                       {number_or_null(pair.destination_before), number_or_null(pair.destination_after)}}}}});
  }
  return list;
}

Json token_json(const Explanation& explanation, std::size_t place) {
  const ExplainedToken& token = explanation.tokens[place];
  Json json = id_json(explanation, token.id);
  json.update({{"position", place},
               {"pi_student", token.pi_student},
               {"pi_teacher", token.pi_teacher},
               {"routed", token.not_routed.empty()},
               {"mass", token.mass},
               {"mass_after", token.mass_after},
               {"concentration", token.concentration},
               {"budget", token.budget},
               {"n_excess", token.n_excess},
               {"n_deficit", token.n_deficit},
               {"student_mass", token.student_mass},
               {"student_mass_after", token.student_mass_after},
               {"teacher_mass", token.teacher_mass},
               {"support", token.support},
               {"pairs", pairs_json(token.pairs)},
               {"drawn", pairs_json(token.drawn)}});
  if (!token.not_routed.empty()) json["not_routed"] = token.not_routed;
  Json& ids = json["ids"] = Json::array();
  for (const ExplainedId& row : token.ids) {
    Json& entry = ids.emplace_back(id_json(explanation, row.id));
    entry.update({{"p_student", row.p_student},
                  {"p_teacher", row.p_teacher},
                  {"q_minus", row.q_minus},
                  {"q_plus", row.q_plus},
                  {"potential", row.potential},
                  {"bounded", row.bounded},
                  {"p_after", row.p_after}});
  }
  return json;
}

}  // namespace

std::vector<std::int32_t> mentioned_ids(const std::vector<ExplainedToken>& tokens) {
  std::set<std::int32_t> ids;
  for (const ExplainedToken& token : tokens) {
    ids.insert(token.id);
    for (const ExplainedId& row : token.ids) ids.insert(row.id);
    for (const auto* pairs : {&token.pairs, &token.drawn}) {
      for (const ExplainedPair& pair : *pairs) ids.insert({pair.source, pair.destination});
    }
  }
  return {ids.begin(), ids.end()};
}

std::size_t heaviest(const std::vector<ExplainedToken>& tokens) {
  const auto most =
      std::max_element(tokens.begin(), tokens.end(),
                       [](const ExplainedToken& a, const ExplainedToken& b) { return a.mass < b.mass; });
  return static_cast<std::size_t>(most - tokens.begin());
}

std::string explanation_text(const Explanation& explanation, bool colors) {
  std::string out;
  for (const std::string& line : heading_lines(explanation)) out.append(line).append("\n");
  if (!explanation.teacher_prompt_ids.empty()) {
    out.append("\nThe student reads:\n").append(table::visible_lines(explanation.prompt));
    out.append("\nThe teacher reads:\n").append(table::visible_lines(explanation.teacher_prompt));
    out += "\nThe student wrote:";
  }
  out.append("\n").append(response_lines(explanation, colors)).append("\n");
  if (colors) {
    const std::vector<std::size_t> places = heaviest_places(explanation);
    out += terminal_legend();
    out += fmt::format("\nThe {} with the most (--token N chooses one):\n", places.size());
    out += table_text(token_table(explanation, places));
  } else {
    std::vector<std::size_t> places(explanation.tokens.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    out += table_text(token_table(explanation, places));
  }
  if (explanation.tokens.empty()) return out;
  out += fmt::format("\nAt {}:\n", token_name(explanation, explanation.chosen));
  for (const ExplanationTable& table : tables_of(explanation, explanation.chosen))
    out.append(table_text(table)).append("\n");
  out.pop_back();
  return out;
}

Json explanation_json(const Explanation& explanation) {
  Json tokens = Json::array();
  for (std::size_t place = 0; place < explanation.tokens.size(); ++place)
    tokens.push_back(token_json(explanation, place));
  Json json = {{"student", lossy_utf8(explanation.student)},
               {"teacher", lossy_utf8(explanation.teacher)},
               {"prompt", lossy_utf8(explanation.prompt)},
               {"prompt_tokens", explanation.prompt_ids.size()},
               {"prompt_ids", explanation.prompt_ids},
               {"response", lossy_utf8(explanation.response)},
               {"finish", explanation.finish},
               {"seed", explanation.seed},
               {"objective", explanation.objective},
               {"decoding", explanation.decoding},
               {"chosen", explanation.chosen},
               {"tokens", tokens}};
  if (!explanation.teacher_prompt_ids.empty())
    json.update({{"teacher_prompt", lossy_utf8(explanation.teacher_prompt)},
                 {"teacher_prompt_tokens", explanation.teacher_prompt_ids.size()},
                 {"teacher_prompt_ids", explanation.teacher_prompt_ids}});
  return json;
}

}  // namespace routeopd::report
