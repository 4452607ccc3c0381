// What a report is made of: blocks, each a table or a figure with its words, in sections. Plain data: pages,
// Markdown, CSV and LaTeX are ways to write it down.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/table/text_table.h"

namespace routeopd::report {

struct Block {
  std::string id;     // anchor and file name: "main-table"
  std::string title;  // "Accuracy, Avg@16 in percent"
  std::string words;  // what it shows, in sentences; may be empty
  std::optional<table::TextTable> table;
  Json chart;                        // Vega-Lite specification with its data in it; null: none
  std::vector<std::string> missing;  // what could not be shown and why, a sentence each
};

inline Block titled(std::string id, std::string title) {
  Block block;
  block.id = std::move(id);
  block.title = std::move(title);
  return block;
}

struct Section {
  std::string title;
  std::vector<Block> blocks;
  bool leads = false;  // it stands before a page's contents, its figures side by side where there is room
};

struct Report {
  std::string title;
  std::string verdict;  // what was found, in a sentence or two
  std::vector<Section> sections;
  std::vector<std::string> missing;  // of the inputs as a whole, a sentence each
  std::string question{};            // what was asked, in a sentence; may be empty
};

}  // namespace routeopd::report
