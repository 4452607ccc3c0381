// What stands between operators: numbers, letters, commands and calls.
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "routeopd/grade/math/token_parser.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade::math {

Node Parser::argument() {
  if (here().type == Type::kNumber && here().text.size() > 1 && is_plain_digits(here())) {
    Token& token = tokens_[at_];
    Token first = token;
    first.text.resize(1);
    first.value = token.text.front() - '0';
    token.text.erase(0, 1);
    token.value = mpz_class(token.text, 10);
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_), std::move(first));
  }
  if (is_symbol("-")) throw Unreadable();
  return base();
}

Node Parser::base() {
  const Level level(*this);
  Token token = here();
  switch (token.type) {
    case Type::kNumber: {
      ++at_;
      Node node = number(std::move(token.value), token.places);
      node.name = std::move(token.text);
      return node;
    }
    case Type::kLetter:
      ++at_;
      return letter(std::move(token.text));
    case Type::kCommand:
      ++at_;
      return command(token.text);
    case Type::kSymbol:
      ++at_;
      return bracketed(token.text);
    case Type::kWords:
      ++at_;
      return leaf(Kind::kText, std::move(token.text));
    case Type::kBegin:
      ++at_;
      return matrix(token.text);
    default:
      throw Unreadable();
  }
}

Node Parser::letter(std::string name) {
  bool plain = true;
  while (is_symbol("_") || is_symbol("'")) {
    plain = false;
    if (take_symbol("'")) {
      name += "'";
      continue;
    }
    ++at_;
    name += "_";
    name += subscript();
  }
  if (plain && name == "e") return leaf(Kind::kEuler);
  if (plain && name == "i") return leaf(Kind::kImaginary);
  return leaf(Kind::kSymbol, std::move(name));
}

Node Parser::command(const std::string& name) {
  if (name == "pi") return leaf(Kind::kPi);
  if (name == "infty") return leaf(Kind::kInfinity);
  if (name == "emptyset") return leaf(Kind::kSet);
  if (name == "reals") {
    return branch(Kind::kBracket, listed(negated(leaf(Kind::kInfinity)), leaf(Kind::kInfinity)), "()");
  }
  if (name == "frac") {
    Node top = argument();
    Node bottom = argument();
    return branch(Kind::kProduct, listed(std::move(top), reciprocal(std::move(bottom))));
  }
  if (name == "binom") {
    Node top = argument();
    Node bottom = argument();
    return branch(Kind::kCall, listed(std::move(top), std::move(bottom)), "binom");
  }
  if (name == "sqrt" || name == "cbrt") {
    Node index = number(name == "sqrt" ? 2 : 3);
    if (take_symbol("[")) {
      index = sum();
      expect_symbol("]");
    }
    Node radicand = argument();
    return branch(Kind::kRoot, listed(std::move(radicand), std::move(index)));
  }
  if (name == "lbrace") {
    if (take_command("rbrace")) return leaf(Kind::kSet);
    if (builder_begins()) return builder();
    std::vector<Node> parts = items();
    if (!take_command("rbrace")) throw Unreadable();
    return branch(Kind::kSet, std::move(parts));
  }
  if (name == "langle") {
    std::vector<Node> parts = items();
    if (!take_command("rangle")) throw Unreadable();
    return branch(Kind::kBracket, std::move(parts), "()");
  }
  if (name == "lfloor" || name == "lceil") {
    Node inside = sum();
    if (!take_command(name == "lfloor" ? "rfloor" : "rceil")) throw Unreadable();
    return branch(Kind::kCall, listed(std::move(inside)), name == "lfloor" ? "floor" : "ceil");
  }
  if (is_function(name)) return call(name);
  throw Unreadable();
}

Node Parser::call(std::string name) {
  std::optional<Node> power;
  std::optional<Node> logarithm_base;
  for (;;) {
    if (!power && take_symbol("^")) {
      power = exponent();
    } else if (name == "log" && !logarithm_base && take_symbol("_")) {
      logarithm_base = argument();
    } else {
      break;
    }
  }
  const bool inverse = power && takes_angle(name) && power->kind == Kind::kNumber && power->value == -1;
  if (inverse) {  // \sin^{-1} x
    name.insert(0, "arc");
    if (name == "arcsec" || name == "arccsc") throw Unreadable();
    power.reset();
  }
  const bool angle = takes_angle(name);
  angles_ += angle ? 1 : 0;
  std::vector<Node> arguments = call_arguments();
  angles_ -= angle ? 1 : 0;
  if (logarithm_base) arguments.push_back(std::move(*logarithm_base));
  Node node = branch(Kind::kCall, std::move(arguments), std::move(name));
  return power ? branch(Kind::kPower, listed(std::move(node), std::move(*power))) : node;
}

std::vector<Node> Parser::call_arguments() {
  if (is_symbol("(") || is_symbol("{") || is_symbol("|")) {
    Node inside = base();
    if (inside.kind == Kind::kBracket && inside.name == "()") return std::move(inside.parts);
    return listed(std::move(inside));
  }
  const bool minus = take_symbol("-");
  std::vector<Node> parts = listed(factor());
  while (factor_begins() && !(here().type == Type::kCommand && is_function(here().text)))
    parts.push_back(factor());
  Node node = parts.size() == 1 ? std::move(parts.front()) : branch(Kind::kProduct, std::move(parts));
  return listed(minus ? negated(std::move(node)) : std::move(node));
}

}  // namespace routeopd::grade::math
