// Unicode's normalisation form C (UAX #15): marks in their canonical order, letters with the marks that they compose
// with. The tables are those of `tokenizers` (unicode_tables.h): it leaves marks newer than Unicode 9 where they
// stand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace routeopd::tokenizer {

// Whether `text` (UTF-8) has only characters that normalisation never changes and that never join another.
// Then it is its own normal form; false does not tell. Eight ASCII characters a step.
bool is_plainly_nfc(std::string_view text);

// The normal form. O(n) but for runs of marks behind one letter, which are sorted: O(n log n).
std::string nfc(std::string_view text);

}  // namespace routeopd::tokenizer
