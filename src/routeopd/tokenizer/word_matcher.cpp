// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/word_matcher.h"

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/unicode.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::uint8_t kNotSymbol = kWhiteSpace | kLetter | kNumber;  // [^\s\p{L}\p{N}] is the rest

bool is_line_end(char byte) {
  return byte == '\r' || byte == '\n';
}

// A text with the matchers that the patterns consist of.
class Matcher {
 public:
  Matcher(const std::uint8_t* classes, std::string_view text) : classes_(classes), text_(text) {}

  std::uint8_t at(std::size_t place) const { return classes_at(classes_, text_, place); }
  std::size_t next(std::size_t place) const { return place + utf8_length(text_[place]); }
  bool inside(std::size_t place) const { return place < text_.size(); }

  bool is_letter(std::size_t place) const { return inside(place) && (at(place) & kLetter) != 0; }
  bool is_number(std::size_t place) const { return inside(place) && (at(place) & kNumber) != 0; }
  bool is_symbol(std::size_t place) const { return inside(place) && (at(place) & kNotSymbol) == 0; }
  bool is_space(std::size_t place) const { return inside(place) && (at(place) & kWhiteSpace) != 0; }

  std::size_t letters(std::size_t place) const {
    while (is_letter(place)) place = next(place);
    return place;
  }
  std::size_t numbers(std::size_t place, std::size_t most) const {
    for (; most > 0 && is_number(place); --most) place = next(place);
    return place;
  }
  std::size_t symbols(std::size_t place) const {
    while (is_symbol(place)) place = next(place);
    return place;
  }
  std::size_t line_ends(std::size_t place) const {
    while (inside(place) && is_line_end(text_[place])) ++place;
    return place;
  }

  // The length of '(s|t|re|ve|m|ll|d) from the apostrophe at `place`; 0 if there is none. (?i) accepts
  // capitals and ſ, which folds to s.
  std::size_t contraction(std::size_t place, bool any_case) const {
    const auto letter = [&](std::size_t i) -> char {
      if (!inside(place + i)) return '\0';
      const char byte = text_[place + i];
      return any_case && byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + ('a' - 'A')) : byte;
    };
    const char first = letter(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    const char second = letter(2);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return place + 3;
    if (any_case && text_.substr(place + 1).starts_with("\u017f")) return place + 3;
    return 0;
  }

  // \s+(?!\S)|\s+ : white space without its last character if a word follows.
  std::size_t spaces(std::size_t place) const {
    std::size_t last = place;
    std::size_t end = place;
    while (is_space(end)) {
      last = end;
      end = next(end);
    }
    return inside(end) && last > place ? last : end;
  }

  // \s*[\r\n]+ : white space up to its last line end; 0 if it has none.
  std::size_t lines(std::size_t place) const {
    std::size_t end = 0;
    while (is_space(place)) {
      const bool line_end = is_line_end(text_[place]);
      place = next(place);
      if (line_end) end = place;
    }
    return end;
  }

 private:
  const std::uint8_t* classes_;
  std::string_view text_;
};

std::size_t gpt2_end(const Matcher& match, std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t end = match.contraction(at, false); end != 0) return end;
  }
  const std::size_t begin = at + (text[at] == ' ' ? 1 : 0);
  if (match.is_letter(begin)) return match.letters(begin);
  if (match.is_number(begin)) return match.numbers(begin, text.size());
  if (match.is_symbol(begin)) return match.symbols(begin);
  return match.spaces(at);
}

std::size_t qwen2_end(const Matcher& match, std::string_view text, std::size_t at, std::size_t most_digits) {
  if (text[at] == '\'') {
    if (const std::size_t end = match.contraction(at, true); end != 0) return end;
  }
  const std::uint8_t first = match.at(at);
  if ((first & kLetter) != 0) return match.letters(at);
  if ((first & kNumber) != 0) return match.numbers(at, most_digits);
  const std::size_t second = match.next(at);
  if (!is_line_end(text[at]) && match.is_letter(second)) return match.letters(second);
  if ((first & kNotSymbol) == 0) return match.line_ends(match.symbols(at));
  if (text[at] == ' ' && match.is_symbol(second)) return match.line_ends(match.symbols(second));
  if (const std::size_t end = match.lines(at); end != 0) return end;
  return match.spaces(at);
}

}  // namespace

KnownPattern known_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return KnownPattern::gpt2;
  if (pattern == kQwen2Pattern) return KnownPattern::qwen2;
  if (pattern == kLlama3Pattern) return KnownPattern::llama3;
  return KnownPattern::none;
}

std::size_t word_end(KnownPattern pattern, const std::uint8_t* classes, std::string_view text,
                     std::size_t at) {
  const Matcher match(classes, text);
  if (pattern == KnownPattern::gpt2) return gpt2_end(match, text, at);
  ROUTEOPD_INVARIANT(pattern != KnownPattern::none);
  return qwen2_end(match, text, at, pattern == KnownPattern::llama3 ? 3 : 1);
}

}  // namespace routeopd::tokenizer
