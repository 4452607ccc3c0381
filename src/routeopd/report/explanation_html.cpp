// An explanation as one page. All tables are in it as markup, so that one renderer makes them and no script handles
// untrusted text: the script only chooses which panel is shown. The content policy allows that script alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "routeopd/base/display.h"
#include "routeopd/base/hashes.h"
#include "routeopd/report/explanation_page.h"
#include "routeopd/report/explanation_tables.h"
#include "routeopd/report/mass_colors.h"
#include "routeopd/report/page_style.h"
#include "routeopd/report/visible_text.h"

namespace routeopd::report {
namespace {

// The digest of a script as a content policy spells it.
std::string policy_hash(std::string_view script) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hexadecimal = sha256(script);  // 32 bytes: 42 digits of base64, one of 4 bits, one "="
  std::string out;
  unsigned held = 0;
  int bits = 0;
  for (const char digit : hexadecimal) {
    held = held << 4U | static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    bits += 4;
    if (bits >= 6) out += kDigits[held >> (bits -= 6) & 63U];
  }
  if (bits > 0) out += kDigits[held << (6 - bits) & 63U];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::string level_styles() {
  std::string light, dark;
  for (std::size_t i = 0; i < kMassLevels.size(); ++i) {
    const MassLevel& level = kMassLevels[i];
    fmt::format_to(std::back_inserter(light), ".m{}{{background:{};color:{}}}\n", i + 1, css(level.light),
                   css(text_on(level.light)));
    fmt::format_to(std::back_inserter(dark), ".m{}{{background:{};color:{}}}\n", i + 1, css(level.dark),
                   css(text_on(level.dark)));
  }
  return fmt::format("{}@media screen and (prefers-color-scheme:dark){{\n{}}}\n", light, dark);
}

std::string html_legend() {
  std::string out = "<p class=\"legend\">Mass of the state at which a token was written: ";
  for (int level = 0; level <= static_cast<int>(kMassLevels.size()); ++level)
    fmt::format_to(std::back_inserter(out), "<span class=\"m{}\">{}</span>", level,
                   html_escaped(level_name(level)));
  return out.append("</p>\n");
}

// A line feed is shown and obeyed, once the link is closed.
void append_token(const Explanation& explanation, std::size_t place, std::string& out) {
  const ExplainedToken& token = explanation.tokens[place];
  const std::string bytes = bytes_of(explanation, token.id);
  const std::string name = html_escaped(token_name(explanation, place));
  fmt::format_to(std::back_inserter(out),
                 "<a class=\"t m{0}\" href=\"#t{1}\" data-mass=\"{2:.2f}\" title=\"{3}: mass {2:.4f}\" "
                 "aria-label=\"{3}, mass {2:.2f}\">{4}</a>",
                 mass_level(token.mass), place, token.mass, name,
                 html_escaped(bytes.empty() ? fmt::format("[id {}]", token.id) : visible(bytes)));
  if (bytes.find('\n') != std::string::npos) out += "<br>";
}

void append_table(const Table& table, std::string& out) {
  out += "<div class=\"scroll\" tabindex=\"0\"><table>";
  if (!table.title.empty())
    fmt::format_to(std::back_inserter(out), "<caption>{}</caption>", html_escaped(table.title));
  bool titled = false;
  for (const TextTable::Column& column : table.columns) titled = titled || !column.title.empty();
  const auto row = [&](const auto& cell, const char* element) {
    out += "<tr>";
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      fmt::format_to(std::back_inserter(out), "<{}{}>{}", element,
                     table.columns[c].align == Align::kRight ? " class=r" : "", cell(c));
  };
  if (titled) row([&](std::size_t c) { return html_escaped(table.columns[c].title); }, "th");
  for (const auto& cells : table.rows) row([&](std::size_t c) { return html_escaped(cells[c]); }, "td");
  out += "</table>";
  if (!table.note.empty())
    fmt::format_to(std::back_inserter(out), "<p class=\"note\">{}</p>", html_escaped(table.note));
  out += "</div>\n";
}

void append_panel(const Explanation& explanation, std::size_t place, std::string& out) {
  fmt::format_to(std::back_inserter(out), "<section class=\"panel{}\" id=\"t{}\"><h2>At {}</h2>\n",
                 place == explanation.chosen ? " chosen" : "", place,
                 html_escaped(token_name(explanation, place)));
  for (const Table& table : tables_of(explanation, place)) append_table(table, out);
  out += "</section>\n";
}

}  // namespace

std::string explanation_html(const Explanation& explanation) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>routeopd explain</title>\n<style>{}{}{}</style>\n</head>\n<body>\n<h1>What would be moved "
      "where</h1>\n",
      policy_hash(kPageScript), kCommonStyle, kPageStyle, level_styles());
  for (const std::string& line : heading_lines(explanation))
    fmt::format_to(std::back_inserter(out), "<p class=\"faint\">{}</p>\n", html_escaped(line));
  fmt::format_to(std::back_inserter(out),
                 "<details><summary>Prompt</summary><div class=\"prompt\">{}</div></details>\n",
                 html_escaped(visible_lines(explanation.prompt)));
  out.append("<main>\n<div>\n<h2>Response</h2>\n").append(html_legend());
  out +=
      "<input type=\"checkbox\" id=\"numbers\"> <label for=\"numbers\">mass as numbers</label>\n"
      "<span class=\"faint\">Click a token, or arrow keys and Enter.</span>\n<div class=\"response\">";
  for (std::size_t place = 0; place < explanation.tokens.size(); ++place)
    append_token(explanation, place, out);
  out += "</div>\n<details><summary>All tokens</summary>\n";
  std::vector<std::size_t> places(explanation.tokens.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  append_table(token_table(explanation, places), out);
  out += "</details>\n</div>\n<div>\n";
  for (const std::size_t place : places) {
    if (place != explanation.chosen) append_panel(explanation, place, out);
  }
  if (!explanation.tokens.empty()) append_panel(explanation, explanation.chosen, out);
  fmt::format_to(std::back_inserter(out), "</div>\n</main>\n<script>{}</script>\n</body>\n</html>\n",
                 kPageScript);
  return out;
}

}  // namespace routeopd::report
