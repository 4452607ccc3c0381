// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "routeopd/base/error.h"
#include "routeopd/jinja/builtins.h"
#include "routeopd/jinja/filters.h"

namespace routeopd::jinja {
namespace {

constexpr std::array<std::string_view, 6> kComparisons{"==", "!=", "<", "<=", ">", ">="};

Expression node(ExpressionKind kind, int line) {
  Expression made;
  made.kind = kind;
  made.line = line;
  return made;
}

}  // namespace

void ExpressionParser::fail(int line, const std::string& what) const {
  throw UserError("chat template, line {}: {}", line, what);
}

void ExpressionParser::fail_here(std::string_view expected) const {
  fail(current().line, fmt::format("expected {}, got {}", expected, described(current())));
}

bool ExpressionParser::is_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool ExpressionParser::is_word(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_word(std::string_view text) {
  if (!is_word(text)) return false;
  take();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_here(fmt::format("'{}'", text));
}

void ExpressionParser::expect_word(std::string_view text) {
  if (!skip_word(text)) fail_here(fmt::format("'{}'", text));
}

void ExpressionParser::expect(TokenKind kind) {
  if (current().kind != kind) fail_here(described({kind, 0, ""}));
  take();
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::kName) fail_here("a name");
  return take().text;
}

ExpressionPtr ExpressionParser::made(Expression built) {
  int below = 0;
  const auto look = [&](const ExpressionPtr& part) {
    if (part != nullptr) below = std::max(below, part->depth);
  };
  for (const ExpressionPtr& part : built.parts) look(part);
  for (const ExpressionPtr& part : built.arguments.positional) look(part);
  for (const auto& [name, part] : built.arguments.named) look(part);
  look(built.arguments.spread);
  look(built.arguments.spread_named);
  built.depth = below + 1;
  // Long chains of operators are deep trees too: evaluating and freeing them recurses.
  if (built.depth > kMaxDepth)
    throw UserError(
        "chat template, line {}: expected an expression of at most {} nested operations, got more",
        built.line, kMaxDepth);
  return std::make_unique<const Expression>(std::move(built));
}

ExpressionPtr ExpressionParser::made(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right) {
  Expression built = node(kind, line);
  built.parts.push_back(std::move(left));
  if (right != nullptr) built.parts.push_back(std::move(right));
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::expression(bool with_conditional) {
  return with_conditional ? conditional() : disjunction();
}

ExpressionPtr ExpressionParser::tuple_or_expression(bool with_conditional, std::string_view end_word,
                                                    bool empty_allowed) {
  Expression tuple = node(ExpressionKind::kTuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple.parts.empty()) expect_operator(",");
    const bool ended = current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
                       is_operator(")") || (!end_word.empty() && is_word(end_word));
    if (ended) break;
    tuple.parts.push_back(expression(with_conditional));
    if (!is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!tuple.parts.empty()) return std::move(tuple.parts.front());
    if (!empty_allowed) fail_here("an expression");
  }
  return made(std::move(tuple));
}

// The precedence levels, from the lowest to the highest.
ExpressionPtr ExpressionParser::conditional() {
  const Deeper deeper(*this);
  const int line = current().line;
  const std::size_t unknown = unknown_.size();
  ExpressionPtr value = disjunction();
  const bool is_conditional = is_word("if");
  while (skip_word("if")) {
    Expression built = node(ExpressionKind::kConditional, line);
    built.parts.push_back(std::move(value));
    built.parts.push_back(disjunction());
    built.parts.push_back(skip_word("else") ? conditional() : nullptr);
    value = made(std::move(built));
  }
  if (is_conditional) unknown_.resize(unknown);
  return value;
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr left = conjunction();
  for (int line = current().line; skip_word("or"); line = current().line)
    left = made(ExpressionKind::kOr, line, std::move(left), conjunction());
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr left = negation();
  for (int line = current().line; skip_word("and"); line = current().line)
    left = made(ExpressionKind::kAnd, line, std::move(left), negation());
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const int line = current().line;
  if (!skip_word("not")) return comparison();
  const Deeper deeper(*this);
  return made(ExpressionKind::kNot, line, negation());
}

ExpressionPtr ExpressionParser::comparison() {
  Expression built = node(ExpressionKind::kCompare, current().line);
  built.parts.push_back(sum());
  while (true) {
    const bool compares =
        current().kind == TokenKind::kOperator &&
        std::find(kComparisons.begin(), kComparisons.end(), current().text) != kComparisons.end();
    if (compares) {
      built.operators.push_back(take().text);
    } else if (skip_word("in")) {
      built.operators.emplace_back("in");
    } else if (is_word("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
      take();
      take();
      built.operators.emplace_back("not in");
    } else {
      break;
    }
    built.parts.push_back(sum());
  }
  if (built.operators.empty()) return std::move(built.parts.front());
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    Expression built = node(ExpressionKind::kBinary, current().line);
    built.name = take().text;
    built.parts.push_back(std::move(left));
    built.parts.push_back(concatenation());
    left = made(std::move(built));
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  Expression built = node(ExpressionKind::kConcat, current().line);
  built.parts.push_back(product());
  while (skip_operator("~")) built.parts.push_back(product());
  if (built.parts.size() == 1) return std::move(built.parts.front());
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    Expression built = node(ExpressionKind::kBinary, current().line);
    built.name = take().text;
    built.parts.push_back(std::move(left));
    built.parts.push_back(power());
    left = made(std::move(built));
  }
  return left;
}

// Associates to the left, unlike Python's: 2 ** 3 ** 2 is 64 in jinja.
ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (is_operator("**")) {
    Expression built = node(ExpressionKind::kBinary, current().line);
    built.name = take().text;
    built.parts.push_back(std::move(left));
    built.parts.push_back(unary());
    left = made(std::move(built));
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filter) {
  const Deeper deeper(*this);
  const int line = current().line;
  ExpressionPtr built;
  if (skip_operator("-")) {
    built = made(ExpressionKind::kNegate, line, unary(false));
  } else if (skip_operator("+")) {
    built = made(ExpressionKind::kPlus, line, unary(false));
  } else {
    built = primary();
  }
  built = postfix(std::move(built));
  return with_filter ? filters_and_tests(std::move(built)) : std::move(built);
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = current();
  Expression built = node(ExpressionKind::kConstant, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      take();
      if (token.text == "true" || token.text == "True") {
        built.constant = true;
      } else if (token.text == "false" || token.text == "False") {
        built.constant = false;
      } else if (token.text == "none" || token.text == "None") {
        built.constant = None{};
      } else {
        built.kind = ExpressionKind::kName;
        built.name = token.text;
        for (std::set<std::string>& names : macro_names_) names.insert(token.text);
      }
      return made(std::move(built));
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += take().text;
      built.constant = constant_text(std::move(text));
      return made(std::move(built));
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      take();
      return number(token);
    default:
      break;
  }
  if (skip_operator("(")) {
    ExpressionPtr inner = tuple_or_expression(true, {}, true);
    expect_operator(")");
    return inner;
  }
  if (is_operator("[")) return list_literal();
  if (is_operator("{")) return dict_literal();
  fail_here("an expression");
}

ExpressionPtr ExpressionParser::number(const Token& token) const {
  Expression built = node(ExpressionKind::kConstant, token.line);
  if (token.kind == TokenKind::kFloat) {
    built.constant = std::strtod(token.text.c_str(), nullptr);
    return made(std::move(built));
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(token.line, fmt::format("expected an integer below 2^63, got {}", token.text));
  built.constant = value;
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::list_literal() {
  Expression built = node(ExpressionKind::kList, current().line);
  expect_operator("[");
  while (!is_operator("]")) {
    if (!built.parts.empty()) expect_operator(",");
    if (is_operator("]")) break;
    built.parts.push_back(expression());
  }
  expect_operator("]");
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::dict_literal() {
  Expression built = node(ExpressionKind::kDict, current().line);
  expect_operator("{");
  while (!is_operator("}")) {
    if (!built.parts.empty()) expect_operator(",");
    if (is_operator("}")) break;
    built.parts.push_back(expression());
    expect_operator(":");
    built.parts.push_back(expression());
  }
  expect_operator("}");
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr inner) {
  while (true) {
    if (is_operator(".") || is_operator("[")) {
      inner = subscript(std::move(inner));
    } else if (is_operator("(")) {
      inner = call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr inner) {
  while (true) {
    if (is_operator("|")) {
      inner = filter_chain(std::move(inner), false);
    } else if (is_word("is")) {
      inner = test(std::move(inner));
    } else if (is_operator("(")) {
      inner = call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = current().line;
  if (skip_operator(".")) {
    const Token& word = take();
    if (word.kind == TokenKind::kName) {
      Expression built = node(ExpressionKind::kAttribute, line);
      built.name = word.text;
      built.parts.push_back(std::move(object));
      return made(std::move(built));
    }
    if (word.kind != TokenKind::kInteger) fail(word.line, "expected a name or a number after the dot");
    return made(ExpressionKind::kItem, line, std::move(object), number(word));
  }
  expect_operator("[");
  ExpressionList bounds(3);
  std::size_t colons = 0;
  while (!is_operator("]")) {
    if (is_operator(",")) fail(current().line, "an index of several parts is not supported");
    if (skip_operator(":")) {
      if (++colons > 2) fail(line, "expected at most start:stop:step in a slice, got more");
    } else {
      if (bounds[colons] != nullptr) fail_here("']'");
      bounds[colons] = expression();
    }
  }
  expect_operator("]");
  if (colons == 0) {
    // Empty brackets mean the empty tuple, as in jinja.
    if (bounds[0] == nullptr) bounds[0] = made(node(ExpressionKind::kTuple, line));
    return made(ExpressionKind::kItem, line, std::move(object), std::move(bounds[0]));
  }
  Expression built = node(ExpressionKind::kSlice, line);
  built.parts.push_back(std::move(object));
  for (ExpressionPtr& bound : bounds) built.parts.push_back(std::move(bound));
  return made(std::move(built));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr function) {
  Expression built = node(ExpressionKind::kCall, current().line);
  built.parts.push_back(std::move(function));
  built.arguments = arguments();
  return made(std::move(built));
}

CallArguments ExpressionParser::arguments() {
  CallArguments found;
  const int line = current().line;
  const auto expect_order = [&](bool good) {
    if (!good) fail(line, "expected a call's arguments in order: values, names, *values, **names");
  };
  expect_operator("(");
  bool more = false;
  while (!is_operator(")")) {
    if (more) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    more = true;
    if (skip_operator("*")) {
      expect_order(found.spread == nullptr && found.spread_named == nullptr);
      found.spread = expression();
    } else if (skip_operator("**")) {
      expect_order(found.spread_named == nullptr);
      found.spread_named = expression();
    } else if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
               ahead().text == "=") {
      expect_order(found.spread_named == nullptr);
      std::string name = take().text;
      take();
      for (const auto& [other, value] : found.named) {
        if (other == name) fail(line, fmt::format("expected each argument once, got {} twice", name));
      }
      found.named.emplace_back(std::move(name), expression());
    } else {
      expect_order(found.spread == nullptr && found.spread_named == nullptr && found.named.empty());
      found.positional.push_back(expression());
    }
  }
  expect_operator(")");
  return found;
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_operator(".")) name.append(1, '.').append(expect_name());
  return name;
}

ExpressionPtr ExpressionParser::filter_chain(ExpressionPtr inner, bool first_without_pipe) {
  bool without_pipe = first_without_pipe;
  while (is_operator("|") || without_pipe) {
    if (!without_pipe) take();
    without_pipe = false;
    Expression built = node(ExpressionKind::kFilter, current().line);
    built.name = dotted_name();
    if (!lenient_ && !is_filter(built.name))
      unknown_.push_back({built.line, fmt::format("filter {} is not supported", built.name)});
    built.parts.push_back(std::move(inner));
    if (is_operator("(")) built.arguments = arguments();
    inner = made(std::move(built));
  }
  return inner;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr inner) {
  Expression built = node(ExpressionKind::kTest, current().line);
  expect_word("is");
  const bool negated = skip_word("not");
  built.name = dotted_name();
  if (!lenient_ && !is_test(built.name))
    unknown_.push_back({built.line, fmt::format("test {} is not supported", built.name)});
  built.parts.push_back(std::move(inner));
  const TokenKind next = current().kind;
  const bool value_follows = next == TokenKind::kName || next == TokenKind::kString ||
                             next == TokenKind::kInteger || next == TokenKind::kFloat || is_operator("[") ||
                             is_operator("{");
  if (is_operator("(")) {
    built.arguments = arguments();
  } else if (value_follows && !is_word("else") && !is_word("or") && !is_word("and")) {
    if (is_word("is")) fail(built.line, "expected one test, got several with is");
    built.arguments.positional.push_back(postfix(primary()));
  }
  const int line = built.line;
  ExpressionPtr result = made(std::move(built));
  return negated ? made(ExpressionKind::kNot, line, std::move(result)) : std::move(result);
}

}  // namespace routeopd::jinja
