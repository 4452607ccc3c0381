// TOML recipes as plain settings, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// The whole file as a JSON object of its top-level values and sections. Throws UserError with the place in
// the file when it is not TOML.
Json toml_file(const std::string& path);

// The table `section` of the file, empty when the file has none.
Json toml_section(const std::string& path, const std::string& section);

// A value in TOML's spelling; numbers read back exactly.
std::string toml_value(const Json& value);

}  // namespace routeopd::formats
