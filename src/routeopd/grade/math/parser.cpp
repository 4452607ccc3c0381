// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/parser.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "routeopd/grade/math/token_parser.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade::math {

Node Parser::run() {
  if (is_symbol("=") || is_command("approx")) ++at_;  // "= 5"
  Node node = list();
  if (here().type != Type::kEnd) throw Unreadable();
  return node;
}

std::vector<Node> Parser::items(int* joined) {
  std::vector<Node> all;
  int by = 0;
  do all.push_back(relation());
  while (take_separator(by));
  if (joined != nullptr) *joined = by == 0 ? kJoinedByCommas : by;
  return all;
}

Node Parser::list() {
  const Level level(*this);
  int joined = kJoinedByCommas;
  std::vector<Node> all = items(&joined);
  if (all.size() == 1) return std::move(all.front());
  Node node = branch(Kind::kList, std::move(all));
  node.places = joined;
  return node;
}

char Parser::relation_here() const {
  static constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
      {{"le", 'l'}, {"ge", 'g'}, {"ne", '!'}, {"approx", '~'}, {"in", 'e'}}};
  if (here().type == Type::kSymbol && std::string_view("=<>:").find(here().text) != std::string_view::npos) {
    return here().text.front();
  }
  if (here().type != Type::kCommand) return 0;
  for (const auto& [name, op] : kNamed) {
    if (here().text == name) return op;
  }
  return 0;
}

Node Parser::relation() {
  Node first = set_union();
  std::vector<Node> parts;
  std::string operators;
  for (char op = 0; (op = relation_here()) != 0;) {
    ++at_;
    if (parts.empty()) parts.push_back(std::move(first));
    operators += op;
    parts.push_back(set_union());
  }
  if (operators.empty()) return first;
  return branch(Kind::kRelation, std::move(parts), std::move(operators));
}

Node Parser::set_union() {
  std::vector<Node> parts = listed(sum());
  const auto united = [&parts] {
    if (parts.size() == 1) return std::move(parts.front());
    return branch(Kind::kUnion, std::move(parts));
  };
  for (;;) {
    if (take_command("cup")) {
      parts.push_back(sum());
    } else if (take_command("setminus")) {
      Node left = united();
      parts = listed(branch(Kind::kExcept, listed(std::move(left), sum())));
    } else {
      return united();
    }
  }
}

Node Parser::sum() {
  const Level level(*this);
  std::vector<Node> parts;
  do parts.push_back(signed_term());
  while (is_symbol("+") || is_symbol("-") || is_command("pm") || is_command("mp"));
  if (parts.size() == 1) return std::move(parts.front());
  return branch(Kind::kSum, std::move(parts));
}

Node Parser::signed_term() {
  bool minus = false;
  std::optional<Kind> either;
  for (;;) {
    if (take_symbol("-")) {
      minus = !minus;
    } else if (take_command("pm")) {
      either = Kind::kPlusMinus;
    } else if (take_command("mp")) {
      either = Kind::kMinusPlus;
    } else if (!take_symbol("+")) {
      break;
    }
  }
  Node node = term();
  if (minus) node = negated(std::move(node));
  if (either) node = branch(*either, listed(std::move(node)));
  return node;
}

bool Parser::number_follows_bracket() const {
  return here().type == Type::kNumber && at_ > 0 && tokens_[at_ - 1].type == Type::kSymbol &&
         (tokens_[at_ - 1].text == "}" || tokens_[at_ - 1].text == ")");
}

bool Parser::factor_begins() const {
  static constexpr std::array<std::string_view, 10> kBegin = {"frac",   "sqrt",  "binom",  "pi",   "infty",
                                                              "lfloor", "lceil", "langle", "cbrt", "circ"};
  switch (here().type) {
    case Type::kLetter:
      return true;
    case Type::kCommand:
      return is_function(here().text) ||
             (here().text != "circ" && std::find(kBegin.begin(), kBegin.end(), here().text) != kBegin.end());
    case Type::kSymbol:
      return here().text == "(" || here().text == "{" || (here().text == "|" && bars_ == 0);
    default:
      return false;
  }
}

Node Parser::term() {
  const std::size_t start = at_;
  std::vector<Node> parts = listed(factor());
  if (is_whole(parts.front()) && at_ == start + 1) take_mixed(parts.front());
  for (;;) {
    if (is_symbol("*") && here(1).type != Type::kWords) {
      ++at_;
      parts.push_back(signed_factor());
    } else if (is_symbol("/") && here(1).type != Type::kUnit && here(1).type != Type::kWords) {
      ++at_;
      parts.push_back(reciprocal(signed_factor()));
    } else if (factor_begins() || number_follows_bracket()) {
      parts.push_back(factor());
    } else if (here().type == Type::kScale) {
      parts.push_back(number(here().value));
      ++at_;
    } else {
      break;
    }
  }
  const bool words =
      std::any_of(parts.begin(), parts.end(), [](const Node& part) { return part.kind == Kind::kText; });
  if (words && parts.size() > 1) throw Unreadable();  // a sentence
  Node node = parts.size() == 1 ? std::move(parts.front()) : branch(Kind::kProduct, std::move(parts));
  if (node.kind != Kind::kSymbol && node.kind != Kind::kText) skip_units();
  if (take_symbol("%")) node = branch(Kind::kPercent, listed(std::move(node)));  // 5\text{ }\%
  return node;
}

void Parser::take_mixed(Node& whole) {
  const std::size_t start = at_;
  if (is_command("frac")) {
    ++at_;
    const Node top = argument();
    const Node bottom = argument();
    if (is_whole(top) && is_whole(bottom) && top.value > 0 && top.value < bottom.value && !is_symbol("^")) {
      whole = number(whole.value + top.value / bottom.value);
      return;
    }
    if (tokens_[start].type != Type::kEnd) rewind(start);
    return;
  }
  const bool fraction = here().type == Type::kNumber && here().after_space && is_symbol("/", 1) &&
                        here(2).type == Type::kNumber && here().places < 0 && here(2).places < 0 &&
                        here().value < here(2).value;
  if (!fraction) return;
  whole = number(whole.value + here().value / here(2).value);
  at_ += 3;
}

void Parser::skip_units() {
  bool any = false;
  for (;;) {
    const bool per =
        any && (is_symbol("/") || is_symbol("*")) &&
        (here(1).type == Type::kUnit || here(1).type == Type::kWords || here(1).type == Type::kLetter);
    if (per) {
      at_ += 2;
    } else if (here().type == Type::kUnit || here().type == Type::kWords) {
      if (here().type == Type::kWords && changes_value(here().text)) throw Unreadable();
      ++at_;
    } else {
      return;
    }
    any = true;
    if (take_symbol("^")) argument();  // cm^2
  }
}

Node Parser::signed_factor() {
  bool minus = false;
  while (is_symbol("-") || is_symbol("+")) minus ^= tokens_[at_++].text == "-";
  Node node = factor();
  return minus ? negated(std::move(node)) : node;
}

bool Parser::take_degree() {
  if (take_command("degree") || take_command("circ")) return true;
  if (!is_symbol("^")) return false;
  if (is_command("circ", 1)) {
    at_ += 2;
    return true;
  }
  if (is_symbol("{", 1) && is_command("circ", 2) && is_symbol("}", 3)) {
    at_ += 4;
    return true;
  }
  return false;
}

Node Parser::factor() {
  const Level level(*this);
  Node node = base();
  for (;;) {
    if (take_degree()) {
      if (angles_ > 0)
        node = branch(Kind::kProduct, listed(std::move(node), leaf(Kind::kPi), number({1, 180})));
    } else if (take_symbol("^")) {
      Node exponent = this->exponent();
      node = branch(Kind::kPower, listed(std::move(node), std::move(exponent)));
    } else if (take_symbol("!")) {
      node = branch(Kind::kCall, listed(std::move(node)), "factorial");
    } else if (take_symbol("%")) {
      node = branch(Kind::kPercent, listed(std::move(node)));
    } else if (is_whole(node) && (is_symbol("_") || is_command("base"))) {
      ++at_;
      const int base = subscript_base();
      node = leaf(Kind::kBase, node.name.empty() ? node.value.get_str() : node.name);
      node.places = base;
    } else {
      return node;
    }
  }
}

Node Parser::exponent() {
  const Level level(*this);
  bool minus = false;
  while (is_symbol("-") || is_symbol("+")) minus ^= tokens_[at_++].text == "-";
  Node node = base();
  if (take_symbol("^")) node = branch(Kind::kPower, listed(std::move(node), exponent()));
  return minus ? negated(std::move(node)) : node;
}

Node parsed(Tokens tokens) {
  return Parser(std::move(tokens)).run();
}

}  // namespace routeopd::grade::math
