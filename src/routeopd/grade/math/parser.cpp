// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/parser.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/token_cursor.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade::math {
namespace {

template <class... Nodes>
std::vector<Node> listed(Nodes&&... nodes) {
  std::vector<Node> all;
  all.reserve(sizeof...(nodes));
  (all.push_back(std::forward<Nodes>(nodes)), ...);
  return all;
}

bool is_whole(const Node& node) {
  return node.kind == Kind::kNumber && node.places < 0 && node.value.get_den() == 1;
}

class Parser : private TokenCursor {
 public:
  explicit Parser(Tokens tokens) : TokenCursor(std::move(tokens)) {}

  Node run() {
    if (is_symbol("=") || is_command("approx")) ++at_;  // "= 5"
    Node node = list();
    if (here().type != Type::kEnd) throw Unreadable();
    return node;
  }

 private:
  // `joined`: null, or where it is kept what stands between them.
  std::vector<Node> items(int* joined = nullptr) {
    std::vector<Node> all;
    int by = 0;
    do all.push_back(relation());
    while (take_separator(by));
    if (joined != nullptr) *joined = by == 0 ? kJoinedByCommas : by;
    return all;
  }

  Node list() {
    const Level level(*this);
    int joined = kJoinedByCommas;
    std::vector<Node> all = items(&joined);
    if (all.size() == 1) return std::move(all.front());
    Node node = branch(Kind::kList, std::move(all));
    node.places = joined;
    return node;
  }

  // The operator of a relation at this place, 0 if there is none.
  char relation_here() const {
    static constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
        {{"le", 'l'}, {"ge", 'g'}, {"ne", '!'}, {"approx", '~'}, {"in", 'e'}}};
    if (here().type == Type::kSymbol &&
        std::string_view("=<>:").find(here().text) != std::string_view::npos) {
      return here().text.front();
    }
    if (here().type != Type::kCommand) return 0;
    for (const auto& [name, op] : kNamed) {
      if (here().text == name) return op;
    }
    return 0;
  }

  Node relation() {
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

  Node set_union() {
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

  Node sum() {
    const Level level(*this);
    std::vector<Node> parts;
    do parts.push_back(signed_term());
    while (is_symbol("+") || is_symbol("-") || is_command("pm") || is_command("mp"));
    if (parts.size() == 1) return std::move(parts.front());
    return branch(Kind::kSum, std::move(parts));
  }

  // Any number of signs, and a term.
  Node signed_term() {
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

  // 2^{n}3^{n}: a number is a factor where something closes before it; "3 4" and "x2" are not read.
  bool number_follows_bracket() const {
    return here().type == Type::kNumber && at_ > 0 && tokens_[at_ - 1].type == Type::kSymbol &&
           (tokens_[at_ - 1].text == "}" || tokens_[at_ - 1].text == ")");
  }

  bool factor_begins() const {
    static constexpr std::array<std::string_view, 10> kBegin = {"frac",   "sqrt",  "binom",  "pi",   "infty",
                                                                "lfloor", "lceil", "langle", "cbrt", "circ"};
    switch (here().type) {
      case Type::kLetter:
        return true;
      case Type::kCommand:
        return is_function(here().text) || (here().text != "circ" && std::find(kBegin.begin(), kBegin.end(),
                                                                               here().text) != kBegin.end());
      case Type::kSymbol:
        return here().text == "(" || here().text == "{" || (here().text == "|" && bars_ == 0);
      default:
        return false;
    }
  }

  Node term() {
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

  // 1\frac{4}{5} and 7 3/4: adds the fraction after a whole number, if it is a proper one.
  void take_mixed(Node& whole) {
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

  // Arguments without braces may have cut a number in two. The parts need not be joined: the cut is the same
  // when the fraction is read again.
  void rewind(std::size_t at) { at_ = at; }

  void skip_units() {
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

  Node signed_factor() {
    bool minus = false;
    while (is_symbol("-") || is_symbol("+")) minus ^= tokens_[at_++].text == "-";
    Node node = factor();
    return minus ? negated(std::move(node)) : node;
  }

  bool take_degree() {
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

  Node factor() {
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

  Node exponent() {
    const Level level(*this);
    bool minus = false;
    while (is_symbol("-") || is_symbol("+")) minus ^= tokens_[at_++].text == "-";
    Node node = base();
    if (take_symbol("^")) node = branch(Kind::kPower, listed(std::move(node), exponent()));
    return minus ? negated(std::move(node)) : node;
  }

  // What a command applies to: {…}, or one token; of a number
  // without braces its first digit, as LaTeX has it.
  Node argument() {
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

  Node base() {
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

  Node letter(std::string name) {
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

  Node command(const std::string& name) {
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

  // Whether a variable, or variables in brackets, with "|", ":" or \in after it come next.
  bool builder_begins() const {
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

  Node builder() {
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

  Node call(std::string name) {
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

  // (x), {x}, or the factors up to the next sign or function: \sin 2\pi x \cos y.
  std::vector<Node> call_arguments() {
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

  Node bracketed(const std::string& open) {
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

  Node matrix(const std::string& environment) {
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

  int bars_ = 0;    // |…| that are open
  int angles_ = 0;  // sin, cos, … around
};

}  // namespace

Node parsed(Tokens tokens) {
  return Parser(std::move(tokens)).run();
}

}  // namespace routeopd::grade::math
