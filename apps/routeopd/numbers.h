// Numbers of the command line, all read alike: in decimals, as recipes have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace routeopd::app {

// Has the options of `app` and of its commands take numbers in decimals alone, within their types. CLI11 by
// itself takes 010 for 8, 0x10 for 16, -1 for the largest unsigned number, what is too large for the largest
// of its type, no word for 0, and blanks before a number for nothing. An empty --out is refused: the work
// would be done before it is noticed. Call it when all options are declared.
void read_words(CLI::App& app);

// A whole number of bytes, or of a unit: 512, 512MB (10^6), 8GiB (2^30).
CLI::Validator size_in_bytes();

}  // namespace routeopd::app
