// Sets, intervals, absolute values and matrices.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "routeopd/grade/math/token_parser.h"

namespace routeopd::grade::math {

bool Parser::builder_begins() const {
  std::size_t ahead = 0;
  const bool tuple = is_symbol("(");
  if (tuple) ++ahead;
  for (;;) {
    if (here(ahead++).type != Type::kLetter) return false;
    if (is_symbol("_", ahead) && here(ahead + 1).type != Type::kSymbol) ahead += 2;
    if (!tuple || !is_symbol(",", ahead)) break;
    ++ahead;
  }
  if (tuple && !is_symbol(")", ahead++)) return false;
  return is_symbol("|", ahead) || is_symbol(":", ahead) || is_command("in", ahead);
}

Node Parser::builder() {
  const int bars = std::exchange(bars_, 1);  // "|" ends the domain
  std::vector<Node> parts = listed(base());
  std::optional<Node> domain;
  if (take_command("in")) domain = set_union();
  bars_ = 0;
  if (!take_symbol("|")) expect_symbol(":");
  parts.push_back(list());
  bars_ = bars;
  const Node& condition = parts.back();
  const auto is_relation = [](const Node& node) { return node.kind == Kind::kRelation; };
  const bool relations = condition.kind == Kind::kList
                             ? std::all_of(condition.parts.begin(), condition.parts.end(), is_relation)
                             : is_relation(condition);
  if (!relations || !take_command("rbrace")) throw Unreadable();
  if (domain) parts.push_back(std::move(*domain));
  return branch(Kind::kBuilder, std::move(parts));
}

Node Parser::bracketed(const std::string& open) {
  if (open == "|") {
    ++bars_;
    Node inside = sum();
    --bars_;
    expect_symbol("|");
    return branch(Kind::kCall, listed(std::move(inside)), "abs");
  }
  const bool braces = open == "{";
  if (!braces && open != "(" && open != "[") throw Unreadable();
  const int bars = std::exchange(bars_, 0);
  std::vector<Node> parts = items();
  bars_ = bars;
  if (braces) {
    expect_symbol("}");
    return parts.size() == 1 ? std::move(parts.front()) : branch(Kind::kSet, std::move(parts));
  }
  if (!is_symbol(")") && !is_symbol("]")) throw Unreadable();
  std::string brackets = open;
  brackets += tokens_[at_++].text;
  if (parts.size() == 1) {
    if (brackets == "()" || brackets == "[]") return std::move(parts.front());
    throw Unreadable();
  }
  return branch(Kind::kBracket, std::move(parts), std::move(brackets));
}

Node Parser::matrix(const std::string& environment) {
  static constexpr std::array<std::string_view, 6> kMatrices = {"pmatrix", "bmatrix",     "Bmatrix",
                                                                "matrix",  "smallmatrix", "array"};
  if (std::find(kMatrices.begin(), kMatrices.end(), environment) == kMatrices.end()) throw Unreadable();
  std::vector<Node> cells;
  std::size_t columns = 0;
  std::size_t in_row = 0;
  const auto end_row = [&] {
    if (columns != 0 && in_row != columns) throw Unreadable();
    columns = in_row;
    in_row = 0;
  };
  for (;;) {
    cells.push_back(relation());
    ++in_row;
    if (take_symbol("&")) continue;
    if (here().type == Type::kRow) {
      ++at_;
      end_row();
      if (here().type != Type::kFinish) continue;
    } else {
      end_row();
    }
    if (here().type != Type::kFinish || here().text != environment) throw Unreadable();
    ++at_;
    break;
  }
  Node node = branch(Kind::kMatrix, std::move(cells));
  node.places = static_cast<int>(columns);
  return node;
}

}  // namespace routeopd::grade::math
