// Reads a section of a TOML recipe as plain settings.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// The table `section` of the file as a JSON object, empty when the file has none. Throws UserError with the
// place in the file when it is not TOML.
Json toml_section(const std::string& path, const std::string& section);

}  // namespace routeopd::formats
