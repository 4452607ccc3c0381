// A place in the tokens of an answer, and what a parser asks there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"
#include "routeopd/grade/math/tokens.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade::math {

class TokenCursor {
 protected:
  explicit TokenCursor(Tokens tokens) : tokens_(std::move(tokens.list)) {}

  // Bounds the recursion (a bracket within a bracket takes three or four levels), and the size of the tree.
  struct Level {
    explicit Level(TokenCursor& cursor) : depth(cursor.depth_) {
      if (++depth > 4 * kDeepest || ++cursor.nodes_ > kMostNodes) throw Unreadable();
    }
    ~Level() { --depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    int& depth;
  };

  const Token& here(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool is_symbol(std::string_view text, std::size_t ahead = 0) const {
    return here(ahead).type == Type::kSymbol && here(ahead).text == text;
  }
  bool is_command(std::string_view name, std::size_t ahead = 0) const {
    return here(ahead).type == Type::kCommand && here(ahead).text == name;
  }
  // A number that is what its digits say: without a point, an exponent or digits that recur.
  static bool is_plain_digits(const Token& token) {
    return std::all_of(token.text.begin(), token.text.end(), is_digit) && !token.text.empty() &&
           token.value == mpz_class(token.text, 10);
  }
  bool take_symbol(std::string_view text) { return is_symbol(text) && ++at_ != 0; }
  bool take_command(std::string_view name) { return is_command(name) && ++at_ != 0; }
  void expect_symbol(std::string_view text) {
    if (!take_symbol(text)) throw Unreadable();
  }

  // Adds kJoinedByOr or kJoinedByAnd to `joined` where such a word is taken.
  bool take_separator(int& joined) {
    bool taken = take_symbol(",") || take_symbol(";");
    while (here().type == Type::kConjunction) {  // ", and"
      joined |= here().text == "or" ? kJoinedByOr : kJoinedByAnd;
      ++at_;
      taken = true;
    }
    return taken;
  }

  // 8, {8}, \text{eight}, {\text{base }8}.
  int subscript_base() {
    const bool braces = take_symbol("{");
    take_command("base");
    const Token& token = here();
    std::optional<int> base;
    if (token.type == Type::kNumber && token.value.get_den() == 1 && token.value <= 36) {
      base = static_cast<int>(token.value.get_num().get_si());
    } else if (token.type == Type::kWords) {
      base = small_number(lower_case(token.text));
    }
    if (!base || *base < 2) throw Unreadable();
    ++at_;
    if (braces) expect_symbol("}");
    return *base;
  }

  // A subscript as text: x_1 and x_{1} have the same name.
  std::string subscript() {
    if (here().type == Type::kEnd) throw Unreadable();
    if (!take_symbol("{")) return tokens_[at_++].text;
    std::string text;
    for (int open = 1; open > 0; ++at_) {
      if (here().type == Type::kEnd) throw Unreadable();
      if (is_symbol("{")) ++open;
      if (is_symbol("}") && --open == 0) continue;
      text += here().text;
    }
    return text;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int nodes_ = 0;
};

}  // namespace routeopd::grade::math
