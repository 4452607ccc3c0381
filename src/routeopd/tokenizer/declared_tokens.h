// Tokens that a model directory declares outside tokenizer.json. transformers adds those that tokenizer.json
// lacks, and would then give other ids than the file alone: such a directory is refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "routeopd/base/json_fwd.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::tokenizer {

// The special tokens of a directory by name (bos_token, eos_token, …): those of tokenizer_config.json, and of
// special_tokens_map.json where the former has no added_tokens_decoder. Defaults that a class of transformers
// adds are not known here.
OrderedJson read_special_tokens(const std::filesystem::path& directory);

// Checks special tokens by name, additional ones, added_tokens_decoder and added_tokens.json. Throws
// UserError with the first that is no added token of the tokenizer, or has another id there.
void check_declared_tokens(const std::filesystem::path& directory, const Tokenizer& tokenizer);

}  // namespace routeopd::tokenizer
