// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/expression_parser.h"

namespace routeopd::jinja {
namespace {

constexpr std::size_t kMaxSource = std::size_t{4} << 20U;  // the longest published template has about 30 kB

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}
  Template run();

 private:
  // A scope: being under an if outside of it does not count inside (jinja compiles it as a function of its
  // own).
  struct Frame {
    explicit Frame(Parser& open) : parser(open), lenient(std::exchange(open.lenient_, false)) {}
    ~Frame() { parser.lenient_ = lenient; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    Parser& parser;
    bool lenient;
  };

  // Text and tags up to a tag that begins with one of `ends`, whose word is then the current token; without
  // `ends`, up to the end of the template.
  Block block(std::initializer_list<std::string_view> ends);
  // The end of a tag, then its body; the word that ended it is taken when it is the only one.
  Block body(std::initializer_list<std::string_view> ends);
  Block inner_body(std::initializer_list<std::string_view> ends);
  void statement(Block& into);
  Statement made(StatementKind kind) const;
  Statement for_statement();
  Statement if_statement();
  Statement set_statement();
  Statement with_statement();
  Statement macro_statement();
  Statement call_statement();
  Statement filter_statement();
  Statement print_statement();
  Statement generation_statement();
  Statement loop_control();
  std::vector<Parameter> signature();
  void macro_body(Statement& macro, std::string_view end);
  Target target(bool with_namespace, std::string_view end_word);
  Target single_target(bool with_namespace);

  int loops_ = 0;  // open in this macro: break and continue need one
};

Template Parser::run() {
  Template result;
  result.body = block({});
  if (!unknown_.empty()) fail(unknown_.front().first, unknown_.front().second);
  return result;
}

Statement Parser::made(StatementKind kind) const {
  Statement built;
  built.kind = kind;
  built.line = current().line;
  return built;
}

Block Parser::block(std::initializer_list<std::string_view> ends) {
  const Deeper deeper(*this);
  Block statements;
  while (current().kind != TokenKind::kEnd) {
    if (current().kind == TokenKind::kData) {
      Statement text = made(StatementKind::kText);
      text.text = take().text;
      statements.push_back(std::make_unique<Statement>(std::move(text)));
    } else if (current().kind == TokenKind::kVariableBegin) {
      Statement print = made(StatementKind::kPrint);
      take();
      print.values.push_back(tuple_or_expression(true));
      expect(TokenKind::kVariableEnd);
      statements.push_back(std::make_unique<Statement>(std::move(print)));
    } else {
      expect(TokenKind::kBlockBegin);
      const bool ended =
          std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_word(end); });
      if (ended) return statements;
      statement(statements);
      expect(TokenKind::kBlockEnd);
    }
  }
  if (ends.size() > 0) fail_here(fmt::format("'{}'", *(ends.end() - 1)));
  return statements;
}

Block Parser::body(std::initializer_list<std::string_view> ends) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd);
  Block statements = block(ends);
  if (ends.size() == 1) take();
  return statements;
}

Block Parser::inner_body(std::initializer_list<std::string_view> ends) {
  const Frame frame(*this);
  return body(ends);
}

void Parser::statement(Block& into) {
  using Parse = Statement (Parser::*)();
  constexpr std::array<std::pair<std::string_view, Parse>, 11> kStatements{{
      {"for", &Parser::for_statement},
      {"if", &Parser::if_statement},
      {"set", &Parser::set_statement},
      {"with", &Parser::with_statement},
      {"macro", &Parser::macro_statement},
      {"call", &Parser::call_statement},
      {"filter", &Parser::filter_statement},
      {"print", &Parser::print_statement},
      {"generation", &Parser::generation_statement},
      {"break", &Parser::loop_control},
      {"continue", &Parser::loop_control},
  }};
  if (current().kind != TokenKind::kName) fail_here("the name of a tag");
  const auto* found = std::find_if(kStatements.begin(), kStatements.end(),
                                   [&](const auto& each) { return each.first == current().text; });
  if (found == kStatements.end())
    fail(current().line, fmt::format("tag {} is not supported here", current().text));
  into.push_back(std::make_unique<Statement>((this->*found->second)()));
}

Target Parser::single_target(bool with_namespace) {
  Target found;
  if (skip_operator("(")) {
    const Deeper deeper(*this);
    found = target(with_namespace, {});
    expect_operator(")");
    return found;
  }
  const int line = current().line;
  found.name = expect_name();
  constexpr std::array<std::string_view, 6> kConstants{"true", "false", "none", "True", "False", "None"};
  if (std::find(kConstants.begin(), kConstants.end(), found.name) != kConstants.end())
    fail(line, fmt::format("expected a name to set, got {}", found.name));
  if (with_namespace && skip_operator(".")) found.attribute = expect_name();
  return found;
}

Target Parser::target(bool with_namespace, std::string_view end_word) {
  Target tuple;
  while (true) {
    if (!tuple.parts.empty()) expect_operator(",");
    const bool ended = current().kind == TokenKind::kBlockEnd || is_operator(")") ||
                       (!end_word.empty() && is_word(end_word));
    if (ended) break;
    tuple.parts.push_back(single_target(with_namespace));
    if (!is_operator(",")) break;
    tuple.is_tuple = true;
  }
  if (tuple.is_tuple) return tuple;
  if (tuple.parts.empty()) fail_here("a name to set");
  return std::move(tuple.parts.front());
}

Statement Parser::for_statement() {
  Statement built = made(StatementKind::kFor);
  take();
  built.target = target(false, "in");
  expect_word("in");
  built.value = tuple_or_expression(false, "recursive");
  const Frame frame(*this);
  if (skip_word("if")) built.condition = expression();
  if (is_word("recursive")) fail(built.line, "recursive loops are not supported");
  ++loops_;
  built.body = body({"endfor", "else"});
  --loops_;
  if (take().text == "else") built.otherwise = body({"endfor"});
  return built;
}

Statement Parser::if_statement() {
  Statement built = made(StatementKind::kIf);
  take();
  const bool was_lenient = std::exchange(lenient_, true);
  while (true) {
    ExpressionPtr condition = tuple_or_expression(false);
    Block then = body({"elif", "else", "endif"});
    built.branches.emplace_back(std::move(condition), std::move(then));
    const std::string word = take().text;
    if (word == "elif") continue;
    if (word == "else") built.otherwise = body({"endif"});
    break;
  }
  lenient_ = was_lenient;
  return built;
}

Statement Parser::set_statement() {
  Statement built = made(StatementKind::kSet);
  take();
  built.target = target(true, {});
  if (skip_operator("=")) {
    built.value = tuple_or_expression(true);
    return built;
  }
  built.kind = StatementKind::kSetBlock;
  if (is_operator("|")) built.value = filter_chain(nullptr, false);
  built.body = inner_body({"endset"});
  return built;
}

Statement Parser::with_statement() {
  Statement built = made(StatementKind::kWith);
  take();
  while (current().kind != TokenKind::kBlockEnd) {
    if (!built.bindings.empty()) expect_operator(",");
    Target name = target(false, {});
    expect_operator("=");
    built.bindings.emplace_back(std::move(name), expression());
  }
  built.body = inner_body({"endwith"});
  return built;
}

std::vector<Parameter> Parser::signature() {
  std::vector<Parameter> parameters;
  expect_operator("(");
  while (!is_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    const int line = current().line;
    Parameter parameter{expect_name(), nullptr};
    for (const Parameter& other : parameters) {
      if (other.name == parameter.name)
        fail(line, fmt::format("expected each parameter once, got {} twice", parameter.name));
    }
    if (skip_operator("=")) {
      parameter.otherwise = expression();
    } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
      fail(line, fmt::format("expected a default for {}, which follows one that has", parameter.name));
    }
    parameters.push_back(std::move(parameter));
  }
  expect_operator(")");
  return parameters;
}

void Parser::macro_body(Statement& macro, std::string_view end) {
  macro_names_.emplace_back();
  const int outer_loops = std::exchange(loops_, 0);
  macro.body = inner_body({end});
  loops_ = outer_loops;
  const std::set<std::string>& names = macro_names_.back();
  macro.uses_caller = names.contains("caller");
  macro.uses_varargs = names.contains("varargs");
  macro.uses_kwargs = names.contains("kwargs");
  macro_names_.pop_back();
  for (const Parameter& parameter : macro.parameters) {
    if (parameter.name == "kwargs") macro.uses_kwargs = false;
    if (parameter.name == "varargs") macro.uses_varargs = false;
    if (parameter.name == "caller" && macro.uses_caller && parameter.otherwise == nullptr)
      fail(macro.line, "expected the parameter caller to have a default or to be absent");
  }
}

Statement Parser::macro_statement() {
  Statement built = made(StatementKind::kMacro);
  take();
  built.text = expect_name();
  built.parameters = signature();
  macro_body(built, "endmacro");
  return built;
}

Statement Parser::call_statement() {
  Statement built = made(StatementKind::kCall);
  take();
  if (is_operator("(")) built.parameters = signature();
  built.value = expression();
  if (built.value->kind != ExpressionKind::kCall)
    fail(built.line, "expected a call after call, got something else");
  macro_body(built, "endcall");
  return built;
}

Statement Parser::filter_statement() {
  Statement built = made(StatementKind::kFilter);
  take();
  built.value = filter_chain(nullptr, true);
  built.body = inner_body({"endfilter"});
  return built;
}

Statement Parser::print_statement() {
  Statement built = made(StatementKind::kPrint);
  take();
  while (current().kind != TokenKind::kBlockEnd) {
    if (!built.values.empty()) expect_operator(",");
    built.values.push_back(expression());
  }
  return built;
}

Statement Parser::generation_statement() {
  Statement built = made(StatementKind::kScope);
  take();
  macro_body(built, "endgeneration");
  return built;
}

Statement Parser::loop_control() {
  Statement built = made(current().text == "break" ? StatementKind::kBreak : StatementKind::kContinue);
  if (loops_ == 0) fail(built.line, fmt::format("expected {} within a loop, got it outside", current().text));
  take();
  return built;
}

}  // namespace

Template parse(std::string_view source) {
  if (source.size() > kMaxSource)
    throw UserError("chat template: expected at most {} bytes, got {}", kMaxSource, source.size());
  if (!is_utf8(source)) throw UserError("chat template: expected UTF-8, got other bytes");
  Template result = Parser(tokens_of(source)).run();
  hide_names(result);
  return result;
}

}  // namespace routeopd::jinja
