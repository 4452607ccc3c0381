// What every figure has, of reports and of the study.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "routeopd/report/block.h"

namespace routeopd::report {

// The data of a figure with one data set.
inline const Json& rows_of(const Block& block) {
  return block.chart.at("data").at("values");
}

// Figures made without data say what is missing and show nothing.
inline void expect_missing(const std::vector<Block>& figures) {
  for (const Block& block : figures) {
    EXPECT_TRUE(block.chart.is_null()) << block.id;
    EXPECT_EQ(block.missing.size(), 1U) << block.id;
    EXPECT_FALSE(block.table) << block.id;
  }
}

// Title, description, words, data and the same as a table; nothing is missing.
inline void expect_whole(const std::vector<Block>& figures) {
  for (const Block& block : figures) {
    ASSERT_TRUE(block.chart.is_object()) << block.id;
    EXPECT_EQ(block.chart["title"], block.title);
    EXPECT_GT(block.chart["description"].get<std::string>().size(), 40U) << block.id;
    EXPECT_GT(block.words.size(), 40U) << block.id;
    EXPECT_FALSE(rows_of(block).empty()) << block.id;
    ASSERT_TRUE(block.table) << block.id;
    EXPECT_FALSE(block.table->rows().empty()) << block.id;
    EXPECT_TRUE(block.missing.empty()) << block.id;
    EXPECT_EQ(block.chart.dump().find("\"url\""), std::string::npos) << block.id;  // nothing is fetched
  }
}

}  // namespace routeopd::report
