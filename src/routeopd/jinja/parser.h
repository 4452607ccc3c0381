// The recursive-descent parser behind parse(). Recursion is bounded by kMaxDepth levels of expressions and statements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/jinja/lexer.h"
#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Template run();

 private:
  class Deeper;
  struct Frame;

  // Statements.
  Block block(std::initializer_list<std::string_view> ends);
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

  // Expressions.
  ExpressionPtr expression(bool with_conditional = true);
  ExpressionPtr tuple_or_expression(bool with_conditional, std::string_view end_word = {},
                                    bool empty_allowed = false);
  ExpressionPtr conditional();
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr filter_chain(ExpressionPtr node, bool first_without_pipe);
  ExpressionPtr test(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr list_literal();
  ExpressionPtr dict_literal();
  ExpressionPtr number(const Token& token) const;
  ExpressionPtr call(ExpressionPtr function);
  CallArguments arguments();
  std::string dotted_name();

  static ExpressionPtr made(Expression node);
  static ExpressionPtr made(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right = nullptr);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_operator(std::string_view text) const;
  bool is_word(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_word(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_word(std::string_view text);
  void expect(TokenKind kind);
  std::string expect_name();
  [[noreturn]] void fail(int line, const std::string& what) const;
  [[noreturn]] void fail_here(std::string_view expected) const;
  void saw_name(const std::string& name);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;      // open in this function: break and continue need one
  bool soft_ = false;  // under an if: a filter that does not exist is refused only when it is reached
  std::vector<std::pair<int, std::string>> unknown_;  // what is to be refused at the end: line and words
  std::vector<std::set<std::string>> macros_;         // names that each open macro speaks of
};

constexpr int kMaxDepth = 200;

class Parser::Deeper {
 public:
  explicit Deeper(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxDepth) {
      --parser_.depth_;
      parser_.fail(parser_.current().line, "expected at most 200 nested levels, got more");
    }
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Parser& parser_;
};

}  // namespace routeopd::jinja
