// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/report_page.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

#include "routeopd/base/display.h"
#include "routeopd/report/charts/palette.h"
#include "routeopd/report/page_style.h"
#include "routeopd/report/svg.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kShownSentences = 8;
constexpr std::size_t kLongTable = 30;  // rows from which a table scrolls in a box of its own

constexpr std::string_view kReportStyle = R"css(
body{margin:0 auto;max-width:80rem;overflow-wrap:anywhere}
h1{font-size:1.5rem}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.75rem 0 .25rem}
.question{font-size:1.1rem;font-weight:600;margin:.5rem 0;max-width:60rem}
.verdict{font-size:1.1rem;margin:.5rem 0 1rem;max-width:60rem}
.lead{display:grid;gap:0 2rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr))}
.lead>*{min-width:0}
.lead>h2,.lead>.whole{grid-column:1/-1}
.lead>h2{margin-top:.5rem}
.lead>section>h3{margin-top:.25rem}
.lead svg{max-width:100%;height:auto}
p{max-width:48rem}
nav{margin:1rem 0}
nav>ul{columns:24rem}
nav>ul>li{break-inside:avoid}
nav ul{margin:.25rem 0;padding-left:1.25rem}
a{color:inherit}
a:focus-visible,summary:focus-visible,.scroll:focus-visible,main:focus-visible{outline:2px solid var(--mark);
outline-offset:2px}
.skip{position:absolute;left:-999rem}
.skip:focus{left:1rem;background:var(--ground);padding:.25rem .5rem;z-index:1}
figure{margin:.5rem 0 1rem}
.scroll{max-width:100%}
.long{max-height:34rem;overflow-y:auto}
.long th{position:sticky;top:0;background:var(--ground)}
figure svg{display:block}
details{margin:.25rem 0}
summary{cursor:pointer;color:var(--faint)}
table{font-variant-numeric:tabular-nums}
th,td{padding:.15rem .75rem .15rem 0}
.missing{margin:.5rem 0;padding:.5rem .75rem;border-left:3px solid var(--mark);list-style:none}
.missing li{margin:.15rem 0}
footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.5rem}
@media print{nav,.skip{display:none}.scroll{overflow:visible;max-height:none}figure,table{break-inside:avoid}
h2,h3{break-after:avoid}body{max-width:none}
table{font-size:7pt}th,td{white-space:normal}.r{overflow-wrap:break-word}}
@page{size:landscape}
)css";

std::string shown_html(std::string_view words) {
  return html_escaped(table::visible(words));
}

std::string missing_html(const std::vector<std::string>& missing) {
  if (missing.empty()) return {};
  std::string out = "<ul class=\"missing\">";
  for (const std::string& sentence : missing)
    fmt::format_to(std::back_inserter(out), "<li>{}</li>\n", shown_html(sentence));
  return out + "</ul>\n";
}

std::string table_html(const table::TextTable& table, const std::string& title) {
  return fmt::format(
      "<div class=\"scroll{}\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\">{}</div>\n",
      table.rows().size() > kLongTable ? " long" : "", shown_html(title),
      table.rendered(table::TableFormat::kHtml));
}

class Page {
 public:
  Page(const Report& report, const std::vector<Drawing>& drawings) : report_(report), drawings_(drawings) {
    for (const Section& section : report.sections) {
      section_ids_.push_back(unique_id(fmt::format("s-{}", section.title), taken_));
      for (const Block& block : section.blocks) block_ids_.push_back(unique_id(block.id, taken_));
    }
  }

  std::string html() {
    out_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{0}</title>\n<style>{1}{2}{3}</style>\n</head>\n<body>\n"
        "<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header>\n<h1>{0}</h1>\n",
        shown_html(report_.title), kCommonStyle, kReportStyle, chart_color_style());
    if (!report_.question.empty()) add("<p class=\"question\">{}</p>\n", shown_html(report_.question));
    if (!report_.verdict.empty()) add("<p class=\"verdict\">{}</p>\n", shown_html(report_.verdict));
    missing();
    out_ += "</header>\n<main id=\"content\" tabindex=\"-1\">\n";
    const std::size_t leading = report_.sections.empty() || !report_.sections.front().leads ? 0 : 1;
    std::size_t at = 0;
    for (std::size_t s = 0; s < report_.sections.size(); ++s) {
      if (s == leading) contents();
      const Section& section = report_.sections[s];
      add("<section{2} aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n", section_ids_[s],
          shown_html(section.title), section.leads ? " class=\"lead\"" : "");
      for (const Block& each : section.blocks) block(each, block_ids_[at++]);
      out_ += "</section>\n";
    }
    if (leading == report_.sections.size()) contents();
    out_ += "</main>\n";
    add("<footer class=\"faint\"><p>Made by routeopd report from files alone; it refers to nothing outside "
        "itself. Size: about {} "
        "kB.</p></footer>\n</body>\n</html>\n",
        (out_.size() + 999) / 1000);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  // A few sentences are read at once; a long list is opened by who wants it.
  void missing() {
    const std::size_t count = report_.missing.size();
    if (count == 0) return;
    const bool leads = !report_.sections.empty() && report_.sections.front().leads;
    if (count <= kShownSentences && !leads)
      add("<p>What is missing or broken in the files:</p>\n{}", missing_html(report_.missing));
    else
      add("<details><summary>{} {} missing or broken in the files</summary>\n{}</details>\n", count,
          count == 1 ? "thing is" : "things are", missing_html(report_.missing));
  }

  void contents() {
    out_ += "<nav aria-label=\"Contents\">\n<ul>\n";
    std::size_t at = 0;
    for (std::size_t s = 0; s < report_.sections.size(); ++s) {
      add("<li><a href=\"#{}\">{}</a>\n<ul>\n", section_ids_[s], shown_html(report_.sections[s].title));
      for (const Block& each : report_.sections[s].blocks)
        add("<li><a href=\"#{}\">{}</a></li>\n", block_ids_[at++], shown_html(each.title));
      out_ += "</ul></li>\n";
    }
    out_ += "</ul>\n</nav>\n";
  }

  void block(const Block& each, const std::string& id) {
    add("<section{2} aria-labelledby=\"{0}\">\n<h3 id=\"{0}\">{1}</h3>\n", id, shown_html(each.title),
        each.chart.is_null() ? " class=\"whole\"" : "");
    if (!each.words.empty()) add("<p>{}</p>\n", shown_html(each.words));
    if (!each.chart.is_null()) {
      figure(each, id);
    } else if (each.table) {
      out_ += table_html(*each.table, each.title);
    }
    out_ += missing_html(each.missing);
    out_ += "</section>\n";
  }

  void figure(const Block& each, const std::string& id) {
    const Drawing none{.svg = {}, .png = {}, .trouble = "The chart was not drawn."};
    const Drawing& drawing = drawn_ < drawings_.size() ? drawings_[drawn_] : none;
    ++drawn_;
    std::string svg, trouble = drawing.trouble;
    if (trouble.empty()) {
      try {
        svg =
            page_svg(drawing.svg, id, fmt::format("{}. {}", each.title, each.chart.value("description", "")));
      } catch (const UserError& error) {
        trouble = fmt::format("The chart is not shown: {}.", error.what());
      }
    }
    if (trouble.empty()) {
      add("<figure>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Figure: "
          "{}\">{}</div>\n",
          shown_html(each.title), svg);
      if (each.table)
        add("<details><summary>The data of this figure</summary>\n{}</details>\n",
            table_html(*each.table, each.title));
      out_ += "</figure>\n";
      return;
    }
    out_ += missing_html({fmt::format("{} The data are in the table instead.", trouble)});
    if (each.table) out_ += table_html(*each.table, each.title);
  }

  const Report& report_;
  const std::vector<Drawing>& drawings_;
  std::set<std::string> taken_ = {"content"};
  std::vector<std::string> section_ids_, block_ids_;
  std::size_t drawn_ = 0;
  std::string out_;
};

}  // namespace

std::string unique_id(const std::string& id, std::set<std::string>& used) {
  std::string base = id.empty() ? "block" : id;
  for (char& c : base) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) c = '-';
  }
  std::string unique = base;
  for (int i = 2; !used.insert(unique).second; ++i) unique = fmt::format("{}-{}", base, i);
  return unique;
}

std::vector<const Block*> charted(const Report& report) {
  std::vector<const Block*> blocks;
  for (const Section& section : report.sections) {
    for (const Block& block : section.blocks) {
      if (!block.chart.is_null()) blocks.push_back(&block);
    }
  }
  return blocks;
}

std::string report_html(const Report& report, const std::vector<Drawing>& drawings) {
  return Page(report, drawings).html();
}

}  // namespace routeopd::report
