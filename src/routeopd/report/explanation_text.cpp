// An explanation for a terminal or a file of plain text.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "routeopd/report/explanation_tables.h"
#include "routeopd/report/mass_colors.h"
#include "routeopd/report/visible_text.h"

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
      out += colored(visible(std::string_view(bytes).substr(from, feed + 1 - from)), level);
      out += '\n';
      from = feed + 1;
    }
    out += colored(visible(std::string_view(bytes).substr(from)), level);
  }
  if (!out.ends_with('\n')) out += '\n';
  return out;
}

std::string text_legend() {
  std::string out = "mass of the state at which a token was written:";
  for (int level = 0; level <= static_cast<int>(kMassLevels.size()); ++level)
    out += fmt::format(" {}", colored(fmt::format(" {} ", level_name(level)), level));
  return out.append("\n");
}

std::string table_text(const Table& table) {
  TextTable text(table.columns);
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

}  // namespace

std::string explanation_text(const Explanation& explanation, bool colors) {
  std::string out;
  for (const std::string& line : heading_lines(explanation)) out.append(line).append("\n");
  out.append("\n").append(response_lines(explanation, colors)).append("\n");
  if (colors) {
    const std::vector<std::size_t> places = heaviest_places(explanation);
    out += text_legend();
    out += fmt::format("\nThe {} with the most (--token N chooses one):\n", places.size());
    out += table_text(token_table(explanation, places));
  } else {
    std::vector<std::size_t> places(explanation.tokens.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    out += table_text(token_table(explanation, places));
  }
  if (explanation.tokens.empty()) return out;
  out += fmt::format("\nAt {}:\n", token_name(explanation, explanation.chosen));
  for (const Table& table : tables_of(explanation, explanation.chosen))
    out.append(table_text(table)).append("\n");
  out.pop_back();
  return out;
}

}  // namespace routeopd::report
