// Recursive descent over the tokens of an answer. One method for each level of binding, from lists, which
// bind least, to single operands: parser.cpp has operators, parser_operands.cpp operands, parser_brackets.cpp
// what brackets hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "routeopd/grade/math/parser.h"
#include "routeopd/grade/math/token_cursor.h"

namespace routeopd::grade::math {

template <class... Nodes>
std::vector<Node> listed(Nodes&&... nodes) {
  std::vector<Node> all;
  all.reserve(sizeof...(nodes));
  (all.push_back(std::forward<Nodes>(nodes)), ...);
  return all;
}

inline bool is_whole(const Node& node) {
  return node.kind == Kind::kNumber && node.places < 0 && node.value.get_den() == 1;
}

class Parser : private TokenCursor {
 public:
  explicit Parser(Tokens tokens) : TokenCursor(std::move(tokens)) {}

  // All of the answer. Throws Unreadable.
  Node run();

 private:
  // `joined`: null, or where it is kept what stands between them.
  std::vector<Node> items(int* joined = nullptr);
  Node list();
  // The operator of a relation at this place, 0 if there is none.
  char relation_here() const;
  Node relation();
  Node set_union();
  Node sum();
  // Any number of signs, and a term.
  Node signed_term();
  // 2^{n}3^{n}: a number is a factor where something closes before it; "3 4" and "x2" are not read.
  bool number_follows_bracket() const;
  bool factor_begins() const;
  Node term();
  // 1\frac{4}{5} and 7 3/4: adds the fraction after a whole number, if it is a proper one.
  void take_mixed(Node& whole);
  void skip_units();
  Node signed_factor();
  bool take_degree();
  Node factor();
  Node exponent();

  // What a command applies to: {…}, or one token; of a number
  // without braces its first digit, as LaTeX has it.
  Node argument();
  Node base();
  Node letter(std::string name);
  Node command(const std::string& name);
  Node call(std::string name);
  // (x), {x}, or the factors up to the next sign or function: \sin 2\pi x \cos y.
  std::vector<Node> call_arguments();

  // Whether a variable, or variables in brackets, with "|", ":" or \in after it come next.
  bool builder_begins() const;
  Node builder();
  Node bracketed(const std::string& open);
  Node matrix(const std::string& environment);

  // Arguments without braces may have cut a number in two. The parts need not be joined: the cut is the same
  // when the fraction is read again.
  void rewind(std::size_t at) { at_ = at; }

  int bars_ = 0;    // |…| that are open
  int angles_ = 0;  // sin, cos, … around
};

}  // namespace routeopd::grade::math
