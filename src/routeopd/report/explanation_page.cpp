// All tables are in the page as markup, so that one renderer makes them and no script handles untrusted text:
// the script only chooses which panel is shown. The content policy allows that script alone.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/explanation_page.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "routeopd/base/display.h"
#include "routeopd/base/hashes.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/explanation_tables.h"
#include "routeopd/report/flow_picture.h"
#include "routeopd/report/mass_colors.h"
#include "routeopd/report/page_style.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

// Without script a link to #tN shows panel N by :target, and the chosen panel, which stands last, while none
// is linked to. The script takes over with the class `scripted`.
constexpr std::string_view kPageStyle = R"css(
main{display:grid;gap:1.25rem;grid-template-columns:minmax(0,2fr) minmax(0,3fr);margin-top:1rem}
@media(max-width:64rem){main{grid-template-columns:minmax(0,1fr)}}
.response,.prompt{font:14px/1.9 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.prompt{line-height:1.5;margin:.5rem 0}
.t{color:inherit;text-decoration:none;border-radius:2px;padding:1px 0;box-shadow:0 0 0 .5px var(--line)}
.t:hover,.t:focus-visible{outline:2px solid var(--mark);outline-offset:1px}
.t[aria-current]{outline:2px solid var(--ink);outline-offset:1px}
#numbers:checked~.response .t::after{content:attr(data-mass);font-size:.65em;vertical-align:sub;
padding-left:1px}
.legend span{display:inline-block;padding:0 .4rem;margin:0 .15rem .15rem 0;border:.5px solid var(--line);
border-radius:2px;font:12px/1.6 ui-monospace,monospace}
.panel{display:none}
.panel:target,.panel.chosen{display:block}
.panel:target~.chosen{display:none}
.scripted .panel,.scripted .panel:target{display:none}
.scripted .panel.open{display:block}
)css";

constexpr std::string_view kPageScript = R"js(
"use strict";
const tokens = [...document.querySelectorAll(".t")];
const place = link => Number(link.hash.slice(2));
function show(at, focus) {
  for (const shown of document.querySelectorAll(".panel.open")) shown.classList.remove("open");
  document.getElementById("t" + at).classList.add("open");
  for (const link of tokens) {
    const here = place(link) === at;
    link.tabIndex = here ? 0 : -1;
    if (here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    if (here && focus) link.focus();
  }
}
function linked() {
  const found = /^#t(\d+)$/.exec(location.hash);
  return found && Number(found[1]) < tokens.length ? Number(found[1]) : null;
}
document.body.classList.add("scripted");
show(linked() ?? Number(document.querySelector(".panel.chosen").id.slice(1)), false);
addEventListener("hashchange", () => { if (linked() !== null) show(linked(), false); });
document.addEventListener("click", event => {
  const link = event.target.closest('a[href^="#t"]');
  if (!link) return;
  event.preventDefault();
  show(place(link), link.classList.contains("t"));
  history.replaceState(null, "", link.hash);
});
document.querySelector(".response").addEventListener("keydown", event => {
  const at = tokens.indexOf(document.activeElement);
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1}[event.key];
  if (at < 0 || to === undefined || to < 0 || to >= tokens.length) return;
  event.preventDefault();
  tokens[at].tabIndex = -1;
  tokens[to].tabIndex = 0;
  tokens[to].focus();
});
)js";

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

std::string page_legend() {
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
                 html_escaped(bytes.empty() ? fmt::format("[id {}]", token.id) : table::visible(bytes)));
  if (bytes.find('\n') != std::string::npos) out += "<br>";
}

void append_table(const ExplanationTable& table, std::string& out) {
  out += "<div class=\"scroll\" tabindex=\"0\"><table>";
  if (!table.title.empty())
    fmt::format_to(std::back_inserter(out), "<caption>{}</caption>", html_escaped(table.title));
  bool has_titles = false;
  for (const table::TextTable::Column& column : table.columns)
    has_titles = has_titles || !column.title.empty();
  const auto row = [&](const auto& cell, const char* element) {
    out += "<tr>";
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      fmt::format_to(std::back_inserter(out), "<{}{}>{}", element,
                     table.columns[c].align == table::Align::kRight ? " class=r" : "", cell(c));
  };
  if (has_titles) row([&](std::size_t c) { return html_escaped(table.columns[c].title); }, "th");
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
  if (const std::string picture = flow_svg(explanation, place); !picture.empty())
    out.append(picture).append(
        "<p class=\"note\">What the tokens on the left give and those on the right take, as wide as its "
        "mass; pairs that the seed draws are outlined.</p>\n");
  for (const ExplanationTable& table : tables_of(explanation, place)) append_table(table, out);
  out += "</section>\n";
}

}  // namespace

std::string explanation_html(const Explanation& explanation) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>routeopd explain</title>\n<style>{}{}{}{}{}</style>\n</head>\n<body>\n<h1>What would be moved "
      "where</h1>\n",
      policy_hash(kPageScript), kCommonStyle, kPageStyle, kFlowStyle, chart_color_style(), level_styles());
  for (const std::string& line : heading_lines(explanation))
    fmt::format_to(std::back_inserter(out), "<p class=\"faint\">{}</p>\n", html_escaped(line));
  const auto add_prompt = [&](const char* title, const std::string& prompt) {
    fmt::format_to(std::back_inserter(out),
                   "<details><summary>{}</summary><div class=\"prompt\">{}</div></details>\n", title,
                   html_escaped(table::visible_lines(prompt)));
  };
  const bool two = !explanation.teacher_prompt_ids.empty();
  add_prompt(two ? "The student&#39;s prompt" : "Prompt", explanation.prompt);
  if (two) add_prompt("The teacher&#39;s prompt", explanation.teacher_prompt);
  out.append("<main>\n<div>\n<h2>Response</h2>\n").append(page_legend());
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
