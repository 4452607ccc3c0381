// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/text_table.h"

#include <gtest/gtest.h>

namespace routeopd::report {
namespace {

TEST(TextTable, AlignsByCharactersAndLeavesNoTrailingBlanks) {
  TextTable table({{"name", Align::kLeft}, {"x", Align::kRight}, {"note", Align::kLeft}});
  table.add({"é", "1.5", "a"});
  table.add({"longer", "10", ""});
  EXPECT_EQ(table.text(),
            "name      x  note\n"
            "------  ---  ----\n"
            "é       1.5  a\n"
            "longer   10\n");
}

}  // namespace
}  // namespace routeopd::report
