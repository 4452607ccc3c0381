// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/number_scan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "routeopd/grade/ascii.h"

namespace routeopd::grade::math {
namespace {

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

// Characters of a separator of thousands at `at`, 0 if there is none.
std::size_t separator_at(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  constexpr std::array<std::string_view, 7> kMarked = {",\\!", "{,}\\!", "{,}", "\\,", "\\ ", "\\!,", "\\!"};
  for (const std::string_view mark : kMarked) {
    if (!rest.starts_with(mark)) continue;
    std::size_t length = mark.size();
    while (length < rest.size() && rest[length] == ' ') ++length;
    return length;
  }
  return !rest.empty() && (rest.front() == ',' || rest.front() == ' ') ? 1 : 0;
}

bool group_at(std::string_view text, std::size_t at) {
  return digits_at(text, at) == 3;
}

// Takes the groups of three that follow the first one to three digits.
void take_groups(std::string_view text, bool commas_group, ScannedNumber& number) {
  std::size_t end = number.length;
  std::string digits = number.digits;
  bool bare = false;
  for (std::size_t gap = 0; (gap = separator_at(text, end)) > 0 && group_at(text, end + gap);) {
    bare |= gap == 1 && text[end] == ',';
    digits += text.substr(end + gap, 3);
    end += gap + 3;
  }
  if (end == number.length) return;
  // 100,200,3 is a list whatever its first comma looks like; so is 7 123/456 a mixed number.
  const bool goes_on =
      end + 1 < text.size() && ((text[end] == ',' && is_digit(text[end + 1])) || text[end] == '/');
  if (goes_on) return;
  if (bare) {
    number.ambiguous = true;
    if (!commas_group) return;
  }
  number.digits = std::move(digits);
  number.length = end;
}

// \overline{3} after the decimal point: digits that recur. Returns how many; `length` is what they take.
std::size_t recurring_at(std::string_view text, std::size_t at, std::size_t& length) {
  for (const std::string_view mark : {std::string_view("\\overline{"), std::string_view("\\bar{")}) {
    if (!text.substr(at).starts_with(mark)) continue;
    const std::size_t digits = digits_at(text, at + mark.size());
    const std::size_t end = at + mark.size() + digits;
    if (digits == 0 || end >= text.size() || text[end] != '}') return 0;
    length = mark.size() + digits + 1;
    return digits;
  }
  return 0;
}

// 1.5e-3. At most three digits, so that 10^e stays small.
void take_exponent(std::string_view text, ScannedNumber& number) {
  std::size_t at = number.length;
  if (at >= text.size() || lower(text[at]) != 'e') return;
  ++at;
  const bool negative = at < text.size() && text[at] == '-';
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  const std::size_t digits = digits_at(text, at);
  if (digits == 0 || digits > 3) return;
  const mpq_class scale = ten_to(std::stoul(std::string(text.substr(at, digits))));
  number.value = negative ? mpq_class(number.value / scale) : mpq_class(number.value * scale);
  number.places = -1;
  number.length = at + digits;
}

}  // namespace

mpz_class ten_to(std::size_t exponent) {
  mpz_class power;
  mpz_ui_pow_ui(power.get_mpz_t(), 10, exponent);
  return power;
}

ScannedNumber scan_number(std::string_view text, bool commas_group) {
  ScannedNumber number;
  number.length = digits_at(text, 0);
  number.digits = text.substr(0, number.length);
  if (number.length >= 1 && number.length <= 3 && text[0] != '0') take_groups(text, commas_group, number);
  mpz_class numerator(number.digits.empty() ? "0" : number.digits, 10);
  mpz_class denominator = 1;
  const std::size_t point = number.length;
  std::size_t recurring_length = 0;
  if (point < text.size() && text[point] == '.') {
    const std::size_t places = digits_at(text, point + 1);
    const std::size_t recurring = recurring_at(text, point + 1 + places, recurring_length);
    if (places + recurring > 0) {
      const std::string decimals(text.substr(point + 1, places));
      if (places > 0) numerator = numerator * ten_to(places) + mpz_class(decimals, 10);
      denominator = ten_to(places);
      number.digits += '.';
      number.digits += decimals;
      number.places = static_cast<int>(places);
      number.length = point + 1 + places;
    }
    if (recurring > 0) {  // 0.1(6) = (1 · 9 + 6) / 90
      const std::size_t first = number.length + recurring_length - 1 - recurring;
      const mpz_class nines = ten_to(recurring) - 1;
      numerator = numerator * nines + mpz_class(std::string(text.substr(first, recurring)), 10);
      denominator *= nines;
      number.places = -1;
      number.length += recurring_length;
    }
  }
  number.value = mpq_class(numerator, denominator);
  number.value.canonicalize();
  take_exponent(text, number);
  return number;
}

}  // namespace routeopd::grade::math
