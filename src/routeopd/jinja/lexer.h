// A template's source as tokens: text between tags, and the words within them. Whitespace control is resolved
// here, with jinja's trim_blocks and lstrip_blocks on and keep_trailing_newline off, as transformers sets
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace routeopd::jinja {

enum class TokenKind {
  kData,           // text between tags
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // strings unescaped, numbers without underscores
};

// Throws UserError with the line of what is not jinja. Ends with one kEnd.
std::vector<Token> tokens_of(std::string_view source);

// The token in an error message: "'endif'", "the end of the template".
std::string described(const Token& token);

}  // namespace routeopd::jinja
