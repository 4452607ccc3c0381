// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/budget.h"
#include "routeopd/grade/math/node.h"
#include "routeopd/grade/math/number_scan.h"
#include "routeopd/grade/math/unicode_math.h"
#include "routeopd/grade/math/words.h"

namespace routeopd::grade::math {
namespace {

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Commands that print nothing, or nothing that matters.
constexpr std::array<std::string_view, 32> kDropped = {
    "left",      "right",       "middle",     "big",       "Big",      "bigg",       "Bigg",  "bigl",
    "bigr",      "Bigl",        "Bigr",       "biggl",     "biggr",    "Biggl",      "Biggr", "displaystyle",
    "textstyle", "scriptstyle", "limits",     "mathstrut", "mathbf",   "boldsymbol", "bm",    "mathit",
    "mathcal",   "nolimits",    "ensuremath", "angle",     "triangle", "rm",         "bf",    "it"};
constexpr std::array<std::string_view, 5> kSpaces = {"quad", "qquad", "enspace", "thinspace", "space"};
constexpr std::array<std::string_view, 13> kTexts = {
    "text",   "mathrm",       "textbf",     "textrm", "mbox",   "textit", "hbox",
    "mathsf", "operatorname", "textnormal", "mathtt", "texttt", "emph"};

using Entry = std::pair<std::string_view, std::string_view>;
constexpr std::array kSymbols = {Entry{"cdot", "*"},   Entry{"times", "*"},  Entry{"ast", "*"},
                                 Entry{"div", "/"},    Entry{"lt", "<"},     Entry{"gt", ">"},
                                 Entry{"vert", "|"},   Entry{"lvert", "|"},  Entry{"rvert", "|"},
                                 Entry{"mid", "|"},    Entry{"colon", ":"},  Entry{"lbrack", "["},
                                 Entry{"rbrack", "]"}, Entry{"lparen", "("}, Entry{"rparen", ")"}};
constexpr std::array kRenamed = {Entry{"dfrac", "frac"},
                                 Entry{"tfrac", "frac"},
                                 Entry{"cfrac", "frac"},
                                 Entry{"dbinom", "binom"},
                                 Entry{"tbinom", "binom"},
                                 Entry{"leq", "le"},
                                 Entry{"leqslant", "le"},
                                 Entry{"geq", "ge"},
                                 Entry{"geqslant", "ge"},
                                 Entry{"neq", "ne"},
                                 Entry{"varnothing", "emptyset"},
                                 Entry{"degree", "circ"},
                                 Entry{"infinity", "infty"},
                                 Entry{"inf", "infty"},
                                 Entry{"tg", "tan"},
                                 Entry{"ctg", "cot"},
                                 Entry{"cosec", "csc"},
                                 Entry{"simeq", "approx"},
                                 Entry{"sim", "approx"},
                                 Entry{"varphi", "phi"},
                                 Entry{"varepsilon", "epsilon"},
                                 Entry{"smallsetminus", "setminus"},
                                 Entry{"backslash", "setminus"},
                                 Entry{"dots", "ldots"},
                                 Entry{"cdots", "ldots"}};
constexpr std::array kConjunctions = {Entry{"lor", "or"}, Entry{"vee", "or"}, Entry{"land", "and"},
                                      Entry{"wedge", "and"}};
constexpr std::array<std::string_view, 25> kGreek = {
    "alpha", "beta",   "gamma", "delta", "epsilon", "zeta", "eta",   "theta", "iota",
    "kappa", "lambda", "mu",    "nu",    "xi",      "rho",  "sigma", "tau",   "phi",
    "chi",   "psi",    "omega", "Delta", "Omega",   "ell",  "Gamma"};

template <std::size_t N>
std::string_view looked_up(const std::array<Entry, N>& table, std::string_view name) {
  const auto entry =
      std::find_if(table.begin(), table.end(), [name](const Entry& one) { return one.first == name; });
  return entry == table.end() ? std::string_view() : entry->second;
}

class Lexer {
 public:
  Lexer(std::string_view text, Commas commas) : text_(text), commas_(commas) {}

  Tokens run() {
    while (at_ < text_.size()) step();
    add(Type::kEnd, "");
    tokens_.ambiguous_commas = ambiguous_;
    return std::move(tokens_);
  }

 private:
  void add(Type type, std::string_view text) {
    if (tokens_.list.size() > kLongestMath) throw Unreadable();
    Token token;
    token.type = type;
    token.text = text;
    token.after_space = std::exchange(space_, false);
    tokens_.list.push_back(std::move(token));
  }

  char here(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void step() {
    const char c = here();
    if (is_space(c) || c == '~') {
      space_ = true;
      ++at_;
    } else if (c == '$') {
      ++at_;
    } else if (c == '\\') {
      ++at_;
      command();
    } else if (is_digit(c) || (c == '.' && is_digit(here(1)))) {
      take_number();
    } else if (is_letter(c)) {
      take_letters();
    } else if (c == '.') {
      if (here(1) == '.') throw Unreadable();  // an ellipsis: what it stands for is not known
      ++at_;                                   // the end of a sentence, or the empty delimiter of \right.
    } else {
      take_symbol(c);
    }
  }

  void take_symbol(char c) {
    if (std::string_view("+-*/^_()[]{}<>,;:=|!%&'").find(c) == std::string_view::npos) throw Unreadable();
    ++at_;
    if (c == '*' && here() == '*') {  // a power in plain text
      ++at_;
      add(Type::kSymbol, "^");
      return;
    }
    if ((c == '<' || c == '>' || c == '!') && here() == '=') {
      ++at_;
      add(Type::kCommand, c == '<' ? "le" : c == '>' ? "ge" : "ne");
      return;
    }
    if (c == '(' || c == '[') ++brackets_;
    if (c == ')' || c == ']') --brackets_;
    add(Type::kSymbol, std::string_view(&c, 1));
  }

  void take_number() {
    const bool groups = (brackets_ <= 0) == (commas_ == Commas::kUsual);
    const ScannedNumber scanned = scan_number(text_.substr(at_), groups);
    ambiguous_ |= scanned.ambiguous;
    add_number(scanned);
    at_ += scanned.length;
  }

  void take_letters() {
    std::size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string_view run = text_.substr(at_, end - at_);
    if (!take_word(run)) {
      if (run.size() >= 4) {
        add(Type::kWords, run);
      } else {
        for (const char& letter : run) add(Type::kLetter, std::string_view(&letter, 1));
      }
    }
    at_ = end;
  }

  // A word that means something by itself.
  bool take_word(std::string_view word) {
    const std::string lowered = lower_case(word);
    if (is_conjunction(lowered)) {
      add(Type::kConjunction, lowered);
    } else if (is_percent(lowered)) {
      add(Type::kSymbol, "%");
    } else if (is_degree(lowered)) {
      add(Type::kCommand, "degree");
    } else if (const auto power = power_of_ten(lowered)) {
      add(Type::kScale, lowered);
      tokens_.list.back().value = ten_to(static_cast<std::size_t>(*power));
    } else if (word == "pi" || word == "sqrt" || is_function(word)) {
      if (word == "min" && !tokens_.list.empty() && tokens_.list.back().type == Type::kNumber) {
        add(Type::kUnit, word);  // 5 min
      } else {
        add(Type::kCommand, word);
      }
    } else if (lowered == "inf" || lowered == "infinity") {
      add(Type::kCommand, "infty");
    } else if (lowered == "base") {
      add(Type::kCommand, "base");
    } else if (is_unit(word)) {
      add(Type::kUnit, lowered);
    } else {
      return false;
    }
    return true;
  }

  // What stands between the braces that begin here, braces matched; nothing else is taken.
  std::string_view braced() {
    while (is_space(here())) ++at_;
    if (here() != '{') {
      if (at_ >= text_.size()) throw Unreadable();
      return text_.substr(at_++, 1);
    }
    int open = 0;
    for (std::size_t end = at_; end < text_.size(); ++end) {
      if (text_[end] == '{') ++open;
      if (text_[end] == '}' && --open == 0) {
        const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return inside;
      }
    }
    throw Unreadable();
  }

  void text_command() {
    const std::string_view raw = braced();
    const std::string_view content = without_outer_space(raw);
    if (content.size() != raw.size()) space_ = true;
    if (content.empty()) return;
    const bool word = std::all_of(content.begin(), content.end(), is_letter);
    std::string_view joint = content;  // ", and"
    while (!joint.empty() && (joint.front() == ',' || is_space(joint.front()))) joint.remove_prefix(1);
    if (is_conjunction(joint)) {
      add(Type::kConjunction, joint);
    } else if (word && content.size() > 1 && take_word(content)) {
      if (tokens_.list.back().type == Type::kUnit) tokens_.list.back().type = Type::kWords;
    } else if (word && content.size() == 1) {
      add(Type::kLetter, content);  // \mathrm{e}
    } else if (is_plain_number(content)) {
      text_number(content);
    } else {
      add(Type::kWords, content);
    }
  }

  static bool is_plain_number(std::string_view text) {
    if (text.front() == '-' || text.front() == '+') text.remove_prefix(1);
    return !text.empty() && is_digit(text.front()) &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.' || c == ','; });
  }

  // \text{-12}
  void text_number(std::string_view content) {
    if (!is_digit(content.front())) {
      add(Type::kSymbol, content.substr(0, 1));
      content.remove_prefix(1);
    }
    const ScannedNumber scanned = scan_number(content, true);
    if (scanned.length != content.size()) throw Unreadable();
    add_number(scanned);
  }

  void add_number(const ScannedNumber& scanned) {
    add(Type::kNumber, scanned.digits);
    tokens_.list.back().value = scanned.value;
    tokens_.list.back().places = scanned.places;
  }

  void command() {
    const char c = here();
    if (!is_letter(c)) {
      ++at_;
      return one_character(c);
    }
    std::size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    if (among(kSpaces, name)) {
      space_ = true;
    } else if (among(kTexts, name)) {
      text_command();
    } else if (name == "mathbb") {
      const std::string_view set = braced();
      if (set != "R") throw Unreadable();
      add(Type::kCommand, "reals");
    } else if (name == "begin" || name == "end") {
      const std::string_view environment = braced();
      add(name == "begin" ? Type::kBegin : Type::kFinish, environment);
      if (name == "begin" && environment == "array") braced();  // {cc}
    } else if (!among(kDropped, name)) {
      named(name);
    }
  }

  void named(std::string_view name) {
    if (const std::string_view symbol = looked_up(kSymbols, name); !symbol.empty()) {
      add(Type::kSymbol, symbol);
      return;
    }
    if (const std::string_view other = looked_up(kRenamed, name); !other.empty()) name = other;
    if (name == "ldots") throw Unreadable();
    if (const std::string_view word = looked_up(kConjunctions, name); !word.empty())
      return add(Type::kConjunction, word);
    if (name == "lbrace" || name == "langle") ++brackets_;
    if (name == "rbrace" || name == "rangle") --brackets_;
    add(among(kGreek, name) ? Type::kLetter : Type::kCommand, name);
  }

  void one_character(char c) {
    switch (c) {
      case '{':
        ++brackets_;
        return add(Type::kCommand, "lbrace");
      case '}':
        --brackets_;
        return add(Type::kCommand, "rbrace");
      case '%':
        return add(Type::kSymbol, "%");
      case '|':
        return add(Type::kSymbol, "|");
      case '\\':
        return add(Type::kRow, "");
      case '$':
      case '!':
      case '(':  // \( and \) enclose mathematics
      case ')':
      case '[':
      case ']':
        return;
      default:
        if (!is_space(c) && std::string_view(",;:>/").find(c) == std::string_view::npos) throw Unreadable();
        space_ = true;
    }
  }

  std::string_view text_;
  Commas commas_;
  std::size_t at_ = 0;
  int brackets_ = 0;
  bool space_ = false;
  bool ambiguous_ = false;
  Tokens tokens_;
};

}  // namespace

Tokens tokens_of(std::string_view text, Commas commas) {
  if (text.size() > kLongestMath) throw Unreadable();
  const std::string latex = ascii_latex(text);
  return Lexer(latex, commas).run();
}

}  // namespace routeopd::grade::math
