// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/json_scanner.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "routeopd/base/utf8.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kUnknown =
    static_cast<std::size_t>(-1);  // nlohmann's mark for an unknown number of members

// The bytes that need no escape inside a string.
constexpr std::array<bool, 256> make_plain() {
  std::array<bool, 256> plain = {};
  for (std::size_t byte = 0x20; byte < 256; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}
constexpr std::array<bool, 256> kPlain = make_plain();

class Scanner {
 public:
  Scanner(std::string_view text, nlohmann::json_sax<Json>& handler) : text_(text), handler_(handler) {}

  void all() {
    value();
    skip_space();
    if (at_ < text_.size()) refuse("the end");
  }

 private:
  [[noreturn]] void refuse(std::string_view wanted) const {
    throw UserError("expected JSON, got something else ({} is missing at byte {})", wanted, at_);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool digit() const { return peek() >= '0' && peek() <= '9'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }

  bool take(char byte) {
    if (at_ == text_.size() || text_[at_] != byte) return false;
    ++at_;
    return true;
  }

  void expect(char byte) {
    if (!take(byte)) refuse(std::string_view(&byte, 1));
  }

  void word(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) refuse("a value");
    at_ += wanted.size();
  }

  void value() {
    skip_space();
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        read_string();
        handler_.string(string_);
        return;
      case 't':
        word("true");
        handler_.boolean(true);
        return;
      case 'f':
        word("false");
        handler_.boolean(false);
        return;
      case 'n':
        word("null");
        handler_.null();
        return;
      default:
        return number();
    }
  }

  void object() {
    expect('{');
    handler_.start_object(kUnknown);
    skip_space();
    if (!take('}')) {
      do {
        skip_space();
        read_string();
        handler_.key(string_);
        skip_space();
        expect(':');
        value();
        skip_space();
      } while (take(','));
      expect('}');
    }
    handler_.end_object();
  }

  void array() {
    expect('[');
    handler_.start_array(kUnknown);
    skip_space();
    if (!take(']')) {
      do {
        value();
        skip_space();
      } while (take(','));
      expect(']');
    }
    handler_.end_array();
  }

  void read_string() {
    expect('"');
    string_.clear();
    for (;;) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && kPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
      string_ += text_.substr(begin, at_ - begin);
      if (take('"')) return;
      expect('\\');
      escape();
    }
  }

  void escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    if (take('u')) {
      char32_t point = four_digits();
      if (point >= 0xD800 && point <= 0xDBFF) {
        expect('\\');
        expect('u');
        const char32_t low = four_digits();
        if (low < 0xDC00 || low > 0xDFFF) refuse("the second half of a surrogate pair");
        point = 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00);
      } else if (point >= 0xDC00 && point <= 0xDFFF) {
        refuse("the first half of a surrogate pair");
      }
      append_utf8(point, string_);
      return;
    }
    const std::size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) refuse("an escape");
    string_ += kBytes[which];
    ++at_;
  }

  char32_t four_digits() {
    const std::string_view digits = text_.substr(at_, 4);
    std::uint32_t point = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
    if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4)
      refuse("\\u with four digits");
    at_ += 4;
    return static_cast<char32_t>(point);
  }

  void number() {
    const std::size_t begin = at_;
    const bool negative = take('-');
    if (!digit()) refuse("a value");
    if (!take('0')) digits();
    bool whole = true;
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      digits();
    }
    const char* const first = text_.data() + begin;
    const char* const last = text_.data() + at_;
    if (whole && !negative) {
      std::uint64_t integer = 0;
      if (std::from_chars(first, last, integer).ec == std::errc()) {
        handler_.number_unsigned(integer);
        return;
      }
    } else if (whole) {
      std::int64_t integer = 0;
      if (std::from_chars(first, last, integer).ec == std::errc()) {
        handler_.number_integer(integer);
        return;
      }
    }
    const std::string spelling(first, last);
    const double real = std::strtod(spelling.c_str(), nullptr);  // underflow gives 0
    if (!std::isfinite(real)) refuse("a smaller number");
    handler_.number_float(real, spelling);
  }

  void digits() {
    if (!digit()) refuse("a digit");
    while (digit()) ++at_;
  }

  std::string_view text_;
  nlohmann::json_sax<Json>& handler_;
  std::size_t at_ = 0;
  std::string string_;
};

}  // namespace

void scan_json(std::string_view text, nlohmann::json_sax<Json>& handler) {
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw UserError("expected JSON, got something else (byte {} is not UTF-8)", at);
  Scanner(text, handler).all();
}

}  // namespace routeopd::tokenizer
