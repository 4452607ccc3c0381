// A bank as one safetensors file: its arrays as tensors, what the bank is as JSON under "routeopd", and the
// SHA-256 of both under "sha256".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/probe/bank.h"

namespace routeopd::probe {

// Sets bank.sha256 to what the file then says.
void write_bank(Bank& bank, const std::filesystem::path& path);

// Throws UserError, naming the file and what is wrong, for one that was changed or never was a bank.
Bank read_bank(const std::filesystem::path& path);

}  // namespace routeopd::probe
