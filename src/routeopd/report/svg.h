// A drawing that another program made, before it goes into a page of ours: shapes and words, nothing that
// acts or fetches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace routeopd::report {

// The drawing for a page: names of namespaces go, the light colours of palette.h become variables of the
// page's style, and ids begin with `prefix`, so that two drawings of one page do not meet. `description` is
// what a screen reader says. Throws UserError for anything but well-formed tags of shapes and text (no
// script, style, image, link, event handler or reference to another file, and no escapes in attributes, which
// could spell one), for markup declarations, and for more than 16 MB.
std::string page_svg(std::string_view svg, std::string_view prefix, std::string_view description);

}  // namespace routeopd::report
