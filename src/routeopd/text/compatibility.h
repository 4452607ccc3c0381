// The compatibility gate: may one model teach another token by token? Only if every id means the same to
// both, and every chat gives the same ids. Padding rows of the embeddings, beyond the tokenizer's ids, may
// differ in number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace routeopd::text {

struct CompatibilityCheck {
  std::string
      name;  // vocabulary | added_tokens | pipeline | special_ids | eos_ids | template | chats | widths
  bool passed = false;
  std::string detail;  // what was found equal, or the first difference
};

struct Compatibility {
  std::vector<CompatibilityCheck> checks;

  bool passed() const;
  // The first check that failed, as one sentence; empty when all passed.
  std::string first_difference() const;
};

// Reads tokenizer files, templates and configurations of both directories; no weights. Throws UserError when
// one of them cannot be read.
Compatibility check_compatibility(const std::filesystem::path& student, const std::filesystem::path& teacher);

}  // namespace routeopd::text
