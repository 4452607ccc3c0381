// Finding a block, a cell and a verdict in what study_tables gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/report/block.h"
#include "routeopd/study/effects.h"

namespace routeopd::report {

inline const Block& block_in(const std::vector<Section>& all, const std::string& id) {
  for (const Section& section : all)
    for (const Block& block : section.blocks)
      if (block.id == id) return block;
  throw UserError("no block {}", id);
}

inline std::vector<std::string> ids_of(const std::vector<Section>& sections) {
  std::vector<std::string> ids;
  for (const Section& section : sections)
    for (const Block& block : section.blocks) ids.push_back(block.id);
  return ids;
}

// The cell under a title in the n-th row that begins with these words.
inline std::string cell(const Block& of, const std::string& row, const std::string& title, int nth = 0) {
  if (!of.table) return "no table";
  const auto& columns = of.table->columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].title != title) continue;
    for (const auto& cells : of.table->rows())
      if (cells[0] == row && nth-- == 0) return cells[c];
    return "no row";
  }
  return "no column";
}

}  // namespace routeopd::report

namespace routeopd::study {

// "PAPER | HERE | OUTCOME" of an effect.
inline std::string verdict_in(const std::vector<Verdict>& verdicts, const std::string& effect) {
  for (const Verdict& verdict : verdicts)
    if (verdict.effect == effect)
      return fmt::format("{} | {} | {}", verdict.paper, verdict.here, verdict.outcome);
  return "no verdict";
}

}  // namespace routeopd::study
