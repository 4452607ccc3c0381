// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/contamination_hits.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "routeopd/base/display.h"
#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/decontamination/normal_text.h"
#include "routeopd/report/page_style.h"
#include "routeopd/table/visible_text.h"

namespace routeopd::report {
namespace {

// A page of more than this is read by nobody; JSON lines have no limit.
constexpr std::size_t kMostPageHits = 10'000;
constexpr std::size_t kMostPageBytes = 64 << 20;

constexpr std::size_t kRun = 3;  // words

constexpr std::string_view kStyle = R"css(
:root{--mark:#ffe58a;--marked:#1a1a1a}
@media screen and (prefers-color-scheme:dark){:root{--mark:#5c4a00;--marked:#fff}}
body{margin:0 auto;max-width:90rem}
h2{margin:1.5rem 0 .5rem}
h3{color:var(--faint);font-size:13px;font-weight:400;margin:0 0 .25rem;overflow-wrap:anywhere}
.pair{display:grid;gap:1rem;grid-template-columns:1fr 1fr;border-top:1px solid var(--line);padding:.75rem 0}
.pair>p{grid-column:1/-1;margin:0;overflow-wrap:anywhere}
@media(max-width:48rem){.pair{grid-template-columns:1fr}}
.text{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}
mark{background:var(--mark);color:var(--marked)}
)css";

// A text as it was written, cut at its white space; a piece is one word of the normal form, or none.
struct Piece {
  std::string_view text;
  bool space = false;
  std::string word;  // its normal form; empty for white space and for punctuation alone
  bool marked = false;
};

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces;
  std::size_t begin = 0;
  bool space = false;
  const auto cut = [&](std::size_t end) {
    if (end == begin) return;
    Piece piece{.text = text.substr(begin, end - begin), .space = space, .word = {}, .marked = false};
    if (!space) piece.word = decontamination::normal_text(piece.text).text;
    pieces.push_back(std::move(piece));
    begin = end;
  };
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const bool is_space = decontamination::is_white_space(code_point_at(text, at));
    if (is_space != space) cut(at);
    space = is_space;
  }
  cut(text.size());
  return pieces;
}

// Calls use(run, first, last) for each run of words; a run is the words with a space after each, over the
// places of its pieces. Texts that are shorter than a run have none.
template <class Use>
void for_each_run(const std::vector<Piece>& pieces, const Use& use) {
  std::vector<std::size_t> words;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].word.empty()) words.push_back(i);
  }
  for (std::size_t i = 0; i + kRun <= words.size(); ++i) {
    std::string run;
    for (std::size_t k = 0; k < kRun; ++k) run += pieces[words[i + k]].word + ' ';
    use(run, words[i], words[i + kRun - 1]);
  }
}

void mark_shared(std::vector<Piece>& pieces, const std::vector<Piece>& others) {
  std::unordered_set<std::string> runs;
  for_each_run(others, [&](const std::string& run, std::size_t, std::size_t) { runs.insert(run); });
  for_each_run(pieces, [&](const std::string& run, std::size_t first, std::size_t last) {
    if (!runs.contains(run)) return;
    for (std::size_t i = first; i <= last; ++i) pieces[i].marked = true;
  });
}

std::string shown_space(std::string_view space) {
  std::string out;
  for (const char c : space) {
    if (c == '\n') out += '\n';
  }
  return out.empty() ? " " : out;
}

std::string marked_html(const std::vector<Piece>& pieces) {
  std::string out;
  bool open = false;
  for (const Piece& piece : pieces) {
    if (piece.marked != open) out += piece.marked ? "<mark>" : "</mark>";
    open = piece.marked;
    out += piece.space ? shown_space(piece.text) : html_escaped(table::visible(piece.text));
  }
  return open ? out + "</mark>" : out;
}

std::string name_html(const std::string& name) {
  return html_escaped(table::visible(name));
}

void append_hit(const ShownHit& hit, std::string& out) {
  std::vector<Piece> test = pieces_of(hit.test), train = pieces_of(hit.train);
  const std::vector<Piece> plain_test = test;
  mark_shared(test, train);
  mark_shared(train, plain_test);
  fmt::format_to(std::back_inserter(out), "<div class=\"pair\"><p><b>{}</b>", name_html(hit.kind));
  for (const auto& [name, coverage] : hit.coverages)
    fmt::format_to(std::back_inserter(out), ", {} {:.1f} %", name_html(name), 100 * coverage);
  fmt::format_to(std::back_inserter(out),
                 "</p>\n<div><h3>test {}</h3><div class=\"text\">{}</div></div>\n"
                 "<div><h3>training {}</h3><div class=\"text\">{}</div></div></div>\n",
                 name_html(hit.test_id), marked_html(test), name_html(hit.train_id), marked_html(train));
}

}  // namespace

std::string hit_line(const ShownHit& hit) {
  Json coverages = Json::object();
  for (const auto& [name, coverage] : hit.coverages) coverages[name] = coverage;
  const Json line = {{"test_file", hit.test_file}, {"test_id", hit.test_id},   {"train_id", hit.train_id},
                     {"kind", hit.kind},           {"coverage", hit.coverage}, {"coverages", coverages},
                     {"test", hit.test},           {"train", hit.train}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string hits_html(std::vector<ShownHit> hits, std::int64_t more) {
  std::stable_sort(hits.begin(), hits.end(), [](const ShownHit& a, const ShownHit& b) {
    return a.file != b.file ? a.file < b.file : a.coverage > b.coverage;
  });
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Test problems in training rows</title>\n<style>{}{}</style>\n</head>\n<body>\n"
      "<h1>Test problems in training rows</h1>\n"
      "<p>{} hits{}. Marked: words in a run of {} or more that both texts have.</p>\n",
      kCommonStyle, kStyle, grouped(hits.size()),
      more > 0 ? fmt::format(
                     ", and {} more that are not shown; a name that does not end in .html gets all of them",
                     grouped(more))
               : "",
      kRun);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (i == 0 || hits[i].file != hits[i - 1].file) {
      const auto count = std::count_if(hits.begin(), hits.end(),
                                       [&](const ShownHit& each) { return each.file == hits[i].file; });
      fmt::format_to(std::back_inserter(out), "<h2>{}: {} hits</h2>\n", name_html(hits[i].test_file),
                     grouped(count));
    }
    append_hit(hits[i], out);
  }
  return out + "</body>\n</html>\n";
}

HitReport::HitReport(const std::string& path)
    : page_(std::filesystem::path(path).extension() == ".html"), file_(path) {}

void HitReport::add(const decontamination::Contamination& all, const decontamination::Hit& hit,
                    const decontamination::ProblemLine& row) {
  const std::size_t bytes = row.text.size() + hit.problem->text.size();
  if (page_ && (hits_.size() == kMostPageHits || bytes_ + bytes > kMostPageBytes)) {
    ++more_;
    return;
  }
  ShownHit shown;
  shown.file = hit.problem->file;
  shown.test_file = all.files()[shown.file];
  shown.test_id = hit.problem->id;
  shown.train_id = row.id;
  shown.kind = all.kind_of(hit);
  shown.coverage = all.coverage_of(hit);
  for (std::size_t m = 0; m < hit.coverage.size(); ++m)
    shown.coverages.emplace_back(all.options().measures[m].name(), hit.coverage[m]);
  shown.test = hit.problem->text;
  shown.train = row.text;
  if (page_) {
    bytes_ += bytes;
    hits_.push_back(std::move(shown));
  } else {
    file_.write(hit_line(shown));
  }
}

void HitReport::finish() {
  if (page_) file_.write(hits_html(std::move(hits_), more_));
  file_.commit();
}

}  // namespace routeopd::report
