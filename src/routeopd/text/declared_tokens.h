// Tokens that a directory declares beside tokenizer.json: transformers adds those to the tokenizer when they are not in it, and
// ids would differ from those of the file alone. Such a directory is refused.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/text/tokenizer.h"

namespace routeopd::text {

// Special tokens by name, additional ones, added_tokens_decoder and added_tokens.json. Throws UserError with the first that
// is no added token of the tokenizer, or has another id there.
void check_declared_tokens(const std::filesystem::path& directory, const Tokenizer& tokenizer);

}  // namespace routeopd::text
