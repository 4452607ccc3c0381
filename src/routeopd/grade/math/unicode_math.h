// Mathematical characters outside ASCII, as the LaTeX that means the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::grade::math {

// "−½π·x²" becomes "-\frac{1}{2}\pi *x^{2}"; full-width forms become ASCII; "√50" becomes "\sqrt{50}". What
// has no entry in the table, and bytes that are no UTF-8, stay as they are.
std::string ascii_latex(std::string_view text);

}  // namespace routeopd::grade::math
