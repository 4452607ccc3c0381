// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/report_files.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <system_error>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/report/report_page.h"

namespace routeopd::report {
namespace {

struct TableKind {
  const char* ending;
  table::TableFormat format;
};
constexpr std::array<TableKind, 3> kTableKinds = {{{"md", table::TableFormat::kMarkdown},
                                                   {"csv", table::TableFormat::kCsv},
                                                   {"tex", table::TableFormat::kLatex}}};

std::string table_file_text(const Block& block, table::TableFormat format) {
  const std::string gap = format == table::TableFormat::kMarkdown ? "\n" : "";
  std::string text = table::heading(block.title, format);
  const auto add = [&](const std::string& words) {
    if (!words.empty()) text += table::note(words, format) + gap;
  };
  add(block.words);
  for (const std::string& sentence : block.missing) add(sentence);
  return text + block.table->rendered(format);
}

// Without bytes, a file that an earlier report left there is removed: a picture of other numbers is worse
// than none.
void write_or_remove(const std::filesystem::path& path, const std::string& bytes) {
  if (!bytes.empty()) {
    write_file(path, bytes);
    return;
  }
  remove_file(path);
}

// The first reason why a figure is not there as SVG and PNG; empty: all are.
std::string write_figures(const std::vector<const Block*>& blocks, const std::filesystem::path& directory) {
  std::vector<Json> charts;
  for (const Block* block : blocks) charts.push_back(block->chart);
  const std::vector<Drawing> drawings = render_charts(charts, true);
  std::set<std::string> taken;
  std::string trouble;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string id = unique_id(blocks[i]->id, taken);
    write_file(directory / (id + ".vl.json"),
               charts[i].dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    write_or_remove(directory / (id + ".svg"), drawings[i].svg);
    write_or_remove(directory / (id + ".png"), drawings[i].png);
    std::string why = drawings[i].trouble;
    if (why.empty() && drawings[i].png.empty()) why = "The renderer gave no PNG.";
    if (trouble.empty() && !why.empty()) trouble = fmt::format("Figure {} is not written whole: {}", id, why);
  }
  return trouble;
}

void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!std::filesystem::is_directory(directory))
    throw UserError("{}: cannot be made ({})", directory.string(),
                    error ? error.message() : "a file is there");
  remove_abandoned(directory);
}

}  // namespace

void write_tables(const std::vector<Section>& sections, const std::filesystem::path& directory) {
  make_directory(directory);
  std::set<std::string> taken;
  for (const Section& section : sections) {
    for (const Block& block : section.blocks) {
      if (!block.table) continue;
      const std::string id = unique_id(block.id, taken);
      for (const TableKind& kind : kTableKinds)
        write_file(directory / fmt::format("{}.{}", id, kind.ending), table_file_text(block, kind.format));
    }
  }
}

WrittenReport write_report(const Report& report, const ReportFiles& files) {
  const std::vector<const Block*> blocks = charted(report);
  std::vector<Json> untitled;
  for (const Block* block : blocks) {
    untitled.push_back(block->chart);
    untitled.back().erase("title");
  }
  const std::vector<Drawing> drawings = render_charts(untitled, false);
  WrittenReport written;
  for (const Drawing& drawing : drawings) {
    ++written.charts;
    if (drawing.trouble.empty()) ++written.drawn;
    if (written.trouble.empty()) written.trouble = drawing.trouble;
  }
  if (!files.figures.empty()) {
    make_directory(files.figures);
    const std::string trouble = write_figures(blocks, files.figures);
    if (written.trouble.empty()) written.trouble = trouble;
  }
  if (!files.tables.empty()) write_tables(report.sections, files.tables);
  // The page last: where it is there, all is.
  const std::string page = report_html(report, drawings);
  write_file(files.page, page);
  written.bytes = page.size();
  return written;
}

}  // namespace routeopd::report
