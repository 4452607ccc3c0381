// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"

namespace routeopd::jinja {
namespace {

// Longer ones first: the first match is taken.
constexpr std::array<std::string_view, 26> kOperators{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// Turns \r\n and \r into \n and drops one newline at the very end.
std::string with_plain_newlines(std::string_view source) {
  std::string plain;
  plain.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      plain.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      plain.push_back('\n');
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The code point of `digits` hex digits at `at`; `at` moves past them.
char32_t hex_point(std::string_view body, std::size_t& at, std::size_t digits, char letter) {
  char32_t point = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    const int value = at < body.size() ? hex_value(body[at]) : -1;
    if (value < 0) throw UserError("expected {} hex digits after \\{}, got fewer", digits, letter);
    point = point * 16 + static_cast<char32_t>(value);
  }
  if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
    throw UserError("expected a character after \\{}, got {:#x}, which is none", letter,
                    static_cast<std::uint32_t>(point));
  return point;
}

// jinja turns é into \xe9 before it reads escapes: a backslash before é then escapes the new backslash.
std::string escaped_spelling(char32_t point) {
  const auto code = static_cast<std::uint32_t>(point);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  return fmt::format("\\U{:08x}", code);
}

// What stands between the quotes of a string literal, unescaped as jinja does: unknown escapes stay as they
// are. Throws UserError for a broken \x, \u or \U, for \N{…} and for a surrogate.
std::string unescaped(std::string_view body) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
  std::string text;
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      text.push_back(body[at++]);
      continue;
    }
    const char letter = body[at + 1];  // exists: the lexer takes a backslash with the next character
    at += 2;
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
      text.push_back(kMeant[known]);
    } else if (letter == '\n') {
      continue;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      append_utf8(hex_point(body, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, letter), text);
    } else if (letter >= '0' && letter <= '7') {
      char32_t point = 0;
      std::size_t end = at - 1;
      for (; end < body.size() && end < at + 2 && body[end] >= '0' && body[end] <= '7'; ++end)
        point = point * 8 + static_cast<char32_t>(body[end] - '0');
      at = end;
      append_utf8(point, text);
    } else if (letter == 'N') {
      throw UserError("\\N{{…}} in a string is not supported; write \\u and the character's number");
    } else if (static_cast<unsigned char>(letter) >= 0x80) {
      --at;
      text += escaped_spelling(next_code_point(body, at));
    } else {
      text.push_back('\\');
      text.push_back(letter);
    }
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view words) const { return rest().starts_with(words); }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("chat template, line {}: {}", line_, what);
  }

  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }

  std::size_t spaces_at(std::size_t from) const {
    const std::string_view after = std::string_view(source_).substr(from);
    return after.size() - python::strip_left(after).size();
  }

  // Reads data up to the next tag, then that tag.
  void root() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == source_.size()) {
        push(TokenKind::kData, source_.substr(at_));
        advance(source_.size() - at_);
        return;
      }
      if (const char next = source_[tag + 1]; next == '{' || next == '%' || next == '#') break;
    }
    const char type = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    data(tag, sign, type == '{');
    if (const auto raw = type == '%' ? end_of_raw_tag(tag) : std::nullopt) {
      advance(*raw - at_);
      line_starting_ = source_[at_ - 1] == '\n';
      raw_block();
      return;
    }
    const TokenKind kind = type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin;
    if (type != '#') push(kind, "");
    advance(sign == '\0' ? 2 : 3);
    if (type == '#') {
      comment();
    } else {
      inside(type == '{');
    }
  }

  char sign_at(std::size_t at) const {
    const char sign = at < source_.size() ? source_[at] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
  }

  // Pushes source[at_, end) as data, stripped as the following tag says, and moves to `end`.
  void data(std::size_t end, char sign, bool before_variable) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = python::strip_right(text);
    } else if (sign != '+' && !before_variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && python::strip_left(text.substr(line)).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenKind::kData, std::string(text));
    advance(end - at_);
  }

  // The end of the tag {% raw %} that begins at `tag`; nullopt if it is another tag. No newline is trimmed
  // after it.
  std::optional<std::size_t> end_of_raw_tag(std::size_t tag) const {
    std::size_t at = tag + 2;
    if (sign_at(at) != '\0') ++at;
    at += spaces_at(at);
    if (source_.compare(at, 3, "raw") != 0) return std::nullopt;
    at += 3;
    at += spaces_at(at);
    if (source_.compare(at, 2, "%}") == 0) return at + 2;
    if (source_.compare(at, 3, "-%}") == 0) return at + 3 + spaces_at(at + 3);
    return std::nullopt;
  }

  void raw_block() {
    if (at_ == source_.size()) return;  // as jinja: no error if the template ends here
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      std::size_t at = tag + 2;
      const char sign = sign_at(at);
      if (sign != '\0') ++at;
      at += spaces_at(at);
      if (source_.compare(at, 6, "endraw") != 0) continue;
      at += 6;
      at += spaces_at(at);
      const auto end = end_of_tag(at, "%}");
      if (!end) continue;
      data(tag, sign, false);
      advance(*end - at_);
      line_starting_ = source_[at_ - 1] == '\n';
      return;
    }
    fail("expected endraw, got the end of the template");
  }

  // The end of a closing "%}" or "#}" at `at` with its sign, including the whitespace that it strips.
  std::optional<std::size_t> end_of_tag(std::size_t at, std::string_view close) const {
    const char sign = sign_at(at);
    if (sign != '\0') ++at;
    if (source_.compare(at, close.size(), close) != 0) return std::nullopt;
    at += close.size();
    if (sign == '-') return at + spaces_at(at);
    if (sign == '\0' && at < source_.size() && source_[at] == '\n') return at + 1;
    return at;
  }

  void comment() {
    if (at_ == source_.size()) return;
    std::size_t close = source_.find("#}", at_);
    if (close == std::string::npos) fail("expected the end of the comment, #}, got the end of the template");
    if (close > at_ && sign_at(close - 1) != '\0') --close;
    advance(*end_of_tag(close, "#}") - at_);
    line_starting_ = source_[at_ - 1] == '\n';
  }

  // The end of the tag if it closes at the cursor.
  std::optional<std::size_t> closing(bool variable) const {
    if (!variable) return end_of_tag(at_, "%}");
    if (sees("-}}")) return at_ + 3 + spaces_at(at_ + 3);
    if (sees("}}")) return at_ + 2;
    return std::nullopt;
  }

  // Reads the words of a tag up to its end. Within brackets a closing sign does not count: {{ {'a': {}} }}.
  void inside(bool variable) {
    std::string open;
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const auto end = closing(variable)) {
          push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          advance(*end - at_);
          line_starting_ = source_[at_ - 1] == '\n';
          return;
        }
      }
      if (const std::size_t spaces = spaces_at(at_); spaces > 0) {
        advance(spaces);
      } else {
        word(open);
      }
    }
  }

  void word(std::string& open) {
    const char c = source_[at_];
    if (is_ascii_digit(c)) {
      number();
    } else if (c == '\'' || c == '"') {
      string(c);
    } else if (const std::size_t name = name_length(); name > 0) {
      push(TokenKind::kName, source_.substr(at_, name));
      advance(name);
    } else {
      const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                       [&](std::string_view each) { return sees(each); });
      if (found == kOperators.end()) {
        std::size_t after = at_;
        next_code_point(source_, after);
        fail(fmt::format("expected a word of jinja, got {}", source_.substr(at_, after - at_)));
      }
      balance(open, found->front());
      push(TokenKind::kOperator, std::string(*found));
      advance(found->size());
    }
  }

  void balance(std::string& open, char bracket) const {
    if (bracket == '(' || bracket == '[' || bracket == '{') {
      open.push_back(bracket == '(' ? ')' : bracket == '[' ? ']' : '}');
    } else if (bracket == ')' || bracket == ']' || bracket == '}') {
      if (open.empty()) fail(fmt::format("unexpected '{}'", bracket));
      if (open.back() != bracket) fail(fmt::format("unexpected '{}', expected '{}'", bracket, open.back()));
      open.pop_back();
    }
  }

  std::size_t name_length() const {
    std::size_t at = at_;
    while (at < source_.size()) {
      std::size_t after = at;
      const char32_t point = next_code_point(source_, after);
      if (point != '_' && !python::is_alpha(point) && !(at > at_ && python::is_decimal(point))) break;
      at = after;
    }
    return at - at_;
  }

  // The end of the digits from `at` on, which may have single underscores between them.
  template <class Accepts>
  std::size_t digits(std::size_t at, const Accepts& accepts) const {
    const auto good = [&](std::size_t i) { return i < source_.size() && accepts(source_[i]); };
    while (good(at) || (at < source_.size() && source_[at] == '_' && good(at + 1))) ++at;
    return at;
  }

  void number() {
    const std::size_t from = at_;
    const std::size_t whole = digits(from, is_ascii_digit);
    std::size_t end = whole;
    if (from == 0 || source_[from - 1] != '.') {
      if (end + 1 < source_.size() && source_[end] == '.' && is_ascii_digit(source_[end + 1]))
        end = digits(end + 1, is_ascii_digit);
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const std::size_t exponent = end + (sign_at(end + 1) == '\0' ? 1 : 2);
        if (exponent < source_.size() && is_ascii_digit(source_[exponent]))
          end = digits(exponent, is_ascii_digit);
      }
    }
    const TokenKind kind = end == whole ? TokenKind::kInteger : TokenKind::kFloat;
    if (kind == TokenKind::kInteger) end = end_of_integer(from, whole);
    std::string text = source_.substr(from, end - from);
    std::erase(text, '_');
    push(kind, std::move(text));
    advance(end - from);
  }

  // The end of a number, with 0x, 0o and 0b. In "007" only the zeros form a number, as in jinja.
  std::size_t end_of_integer(std::size_t from, std::size_t whole) const {
    if (source_[from] != '0') return whole;
    const char base = from + 1 < source_.size() ? static_cast<char>(source_[from + 1] | 0x20) : '\0';
    const auto accepts = [base](char c) {
      if (base == 'b') return c == '0' || c == '1';
      if (base == 'o') return c >= '0' && c <= '7';
      return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    };
    if (base == 'x' || base == 'o' || base == 'b') {
      const std::size_t end = digits(from + 2, accepts);
      if (end > from + 2) return end;
    }
    return digits(from, [](char c) { return c == '0'; });
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2U : 1U;
    if (end >= source_.size()) fail(fmt::format("expected the end of a string, {}, got none", quote));
    const std::string_view body = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    try {
      push(TokenKind::kString, unescaped(body));
    } catch (const UserError& error) {
      fail(error.what());
    }
    advance(end + 1 - at_);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  return Lexer(with_plain_newlines(source)).run();
}

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace routeopd::jinja
