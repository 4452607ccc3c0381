// The part of the recursive-descent parser that reads expressions. Recursion is bounded by kMaxDepth levels
// of expressions and statements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "routeopd/jinja/lexer.h"
#include "routeopd/jinja/syntax.h"

namespace routeopd::jinja {

constexpr int kMaxDepth = 200;

class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Counts a level of recursion while it lives.
  class Deeper {
   public:
    explicit Deeper(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) {
        --parser_.depth_;
        parser_.fail(parser_.current().line, "expected at most 200 nested levels, got more");
      }
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    ExpressionParser& parser_;
  };

  ExpressionPtr expression(bool with_conditional = true);
  // One expression, or several with commas between them: a tuple. `end_word` ends it like a closing bracket.
  ExpressionPtr tuple_or_expression(bool with_conditional, std::string_view end_word = {},
                                    bool empty_allowed = false);
  ExpressionPtr filter_chain(ExpressionPtr node, bool first_without_pipe);

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

  // Under an if, an unknown filter or test is refused only when it is reached.
  bool lenient_ = false;
  std::vector<std::pair<int, std::string>>
      unknown_;  // filters and tests to refuse at the end: line and message
  std::vector<std::set<std::string>> macro_names_;  // the names in each open macro

 private:
  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
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

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace routeopd::jinja
