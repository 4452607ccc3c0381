// lab.json of a laboratory's directory: which family it is of, and the options that it was made with.
//
//   {"kind": "laboratory", "version": 1, "family": "sums", "seed": 42, "teacher_steps": …}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "routeopd/lab/make_options.h"

namespace routeopd::lab {

inline constexpr const char* kLabFile = "lab.json";

void write_lab_file(const std::filesystem::path& directory, const std::string& family,
                    const MakeOptions& options);

// The family. Throws UserError where the directory is no laboratory or the family is unknown.
std::string family_of(const std::filesystem::path& directory);

}  // namespace routeopd::lab
