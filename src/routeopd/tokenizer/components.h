// What the readers of tokenizer.json's components share: {"type": …} with flags, short strings and lists.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::tokenizer {

inline constexpr std::size_t kMaxSteps = 16;  // of a normalizer, a pre-tokenizer or a decoder

// The component's type. Throws UserError unless it is an object with one.
std::string component_type(const Json& component);

// The list under `key`, of at most 64. Throws UserError for anything else.
const Json& component_list(const Json& component, const char* key);

// Throws UserError unless true or false stands under `key`.
bool flag_of(const Json& component, const char* key);

// A string of at most 1024 bytes.
std::string short_string(const Json& component, const char* key);

// A string of one character.
std::string one_character(const Json& component, const char* key);

}  // namespace routeopd::tokenizer
