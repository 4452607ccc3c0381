// Tables as files.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <set>
#include <system_error>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/report/report_page.h"
#include "routeopd/report/study_tables.h"

namespace routeopd::report {
namespace {

struct Kind {
  const char* ending;
  TableFormat format;
};
constexpr std::array<Kind, 3> kKinds = {
    {{"md", TableFormat::kMarkdown}, {"csv", TableFormat::kCsv}, {"tex", TableFormat::kLatex}}};

std::string file_text(const Block& block, TableFormat format) {
  const std::string gap = format == TableFormat::kMarkdown ? "\n" : "";
  std::string text = heading(block.title, format);
  const auto add = [&](const std::string& words) {
    if (!words.empty()) text += note(words, format) + gap;
  };
  add(block.words);
  for (const std::string& sentence : block.missing) add(sentence);
  return text + block.table->rendered(format);
}

}  // namespace

void write_tables(const std::vector<Section>& sections, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw UserError("{}: cannot be made ({})", directory.string(), error.message());
  std::set<std::string> taken;
  for (const Section& section : sections) {
    for (const Block& block : section.blocks) {
      if (!block.table) continue;
      const std::string id = unique_id(block.id, taken);
      for (const Kind& kind : kKinds)
        write_file(directory / fmt::format("{}.{}", id, kind.ending), file_text(block, kind.format));
    }
  }
}

}  // namespace routeopd::report
