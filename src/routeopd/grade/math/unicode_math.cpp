// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/math/unicode_math.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "routeopd/grade/ascii.h"

namespace routeopd::grade::math {
namespace {

using Entry = std::pair<std::string_view, std::string_view>;

// By meaning; looked up one after the other, for such characters are few in any answer.
constexpr std::array kMeanings = {Entry{"−", "-"},
                                  Entry{"–", "-"},
                                  Entry{"‐", "-"},
                                  Entry{"‑", "-"},
                                  Entry{"—", "-"},
                                  Entry{"×", "*"},
                                  Entry{"·", "*"},
                                  Entry{"⋅", "*"},
                                  Entry{"∙", "*"},
                                  Entry{"÷", "/"},
                                  Entry{"⁄", "/"},
                                  Entry{"∕", "/"},
                                  Entry{"±", "\\pm "},
                                  Entry{"∓", "\\mp "},
                                  Entry{"≤", "\\le "},
                                  Entry{"⩽", "\\le "},
                                  Entry{"≥", "\\ge "},
                                  Entry{"⩾", "\\ge "},
                                  Entry{"≠", "\\ne "},
                                  Entry{"≈", "\\approx "},
                                  Entry{"∪", "\\cup "},
                                  Entry{"∖", "\\setminus "},
                                  Entry{"∣", "\\mid "},
                                  Entry{"∈", "\\in "},
                                  Entry{"∞", "\\infty "},
                                  Entry{"∅", "\\emptyset "},
                                  Entry{"ℝ", "\\mathbb{R}"},
                                  Entry{"π", "\\pi "},
                                  Entry{"𝜋", "\\pi "},
                                  Entry{"θ", "\\theta "},
                                  Entry{"α", "\\alpha "},
                                  Entry{"β", "\\beta "},
                                  Entry{"γ", "\\gamma "},
                                  Entry{"λ", "\\lambda "},
                                  Entry{"φ", "\\phi "},
                                  Entry{"ω", "\\omega "},
                                  Entry{"°", "^\\circ "},
                                  Entry{"º", "^\\circ "},
                                  Entry{"′", "'"},
                                  Entry{"’", "'"},
                                  Entry{"½", "\\frac{1}{2}"},
                                  Entry{"⅓", "\\frac{1}{3}"},
                                  Entry{"⅔", "\\frac{2}{3}"},
                                  Entry{"¼", "\\frac{1}{4}"},
                                  Entry{"¾", "\\frac{3}{4}"},
                                  Entry{"⅕", "\\frac{1}{5}"},
                                  Entry{"⅖", "\\frac{2}{5}"},
                                  Entry{"⅗", "\\frac{3}{5}"},
                                  Entry{"⅘", "\\frac{4}{5}"},
                                  Entry{"⅙", "\\frac{1}{6}"},
                                  Entry{"⅚", "\\frac{5}{6}"},
                                  Entry{"⅛", "\\frac{1}{8}"},
                                  Entry{"⅜", "\\frac{3}{8}"},
                                  Entry{"⅝", "\\frac{5}{8}"},
                                  Entry{"⅞", "\\frac{7}{8}"},
                                  Entry{"€", "\\$"},
                                  Entry{"£", "\\$"},
                                  Entry{"¥", "\\$"},
                                  Entry{"₹", "\\$"},
                                  Entry{"⟨", "\\langle "},
                                  Entry{"⟩", "\\rangle "},
                                  Entry{"⌊", "\\lfloor "},
                                  Entry{"⌋", "\\rfloor "},
                                  Entry{"⌈", "\\lceil "},
                                  Entry{"⌉", "\\rceil "},
                                  Entry{"…", "\\ldots "},
                                  Entry{"，", ","},
                                  Entry{"。", "."},
                                  Entry{"\xC2\xA0", " "},
                                  Entry{"\xE2\x80\x89", "\\,"},
                                  Entry{"\xE2\x80\xAF", "\\,"},
                                  Entry{"\xE2\x81\x9F", "\\,"},
                                  Entry{"\xE2\x80\x8B", ""},
                                  Entry{"\xEF\xBB\xBF", ""}};

constexpr std::array kRaised = {Entry{"⁰", "0"}, Entry{"¹", "1"}, Entry{"²", "2"}, Entry{"³", "3"},
                                Entry{"⁴", "4"}, Entry{"⁵", "5"}, Entry{"⁶", "6"}, Entry{"⁷", "7"},
                                Entry{"⁸", "8"}, Entry{"⁹", "9"}, Entry{"⁻", "-"}, Entry{"ⁿ", "n"}};
constexpr std::array kLowered = {Entry{"₀", "0"}, Entry{"₁", "1"}, Entry{"₂", "2"}, Entry{"₃", "3"},
                                 Entry{"₄", "4"}, Entry{"₅", "5"}, Entry{"₆", "6"}, Entry{"₇", "7"},
                                 Entry{"₈", "8"}, Entry{"₉", "9"}, Entry{"ₙ", "n"}};
constexpr std::string_view kRadical = "√";

template <std::size_t N>
const Entry* found(const std::array<Entry, N>& table, std::string_view text) {
  const auto entry = std::find_if(table.begin(), table.end(),
                                  [text](const Entry& one) { return text.starts_with(one.first); });
  return entry == table.end() ? nullptr : &*entry;
}

// "²³" at the start of `text` becomes "^{23}".
template <std::size_t N>
void take_run(const std::array<Entry, N>& table, std::string_view opening, std::string_view& text,
              std::string& latex) {
  latex += opening;
  for (const Entry* entry = nullptr; (entry = found(table, text)) != nullptr;) {
    latex += entry->second;
    text.remove_prefix(entry->first.size());
  }
  latex += '}';
}

// U+FF01 to U+FF5E, three bytes, are ASCII's 0x21 to 0x7E; 0 for all else.
char full_width(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xEF') return 0;
  const int high = static_cast<unsigned char>(text[1]) - 0xBC;
  const int low = static_cast<unsigned char>(text[2]) - 0x80;
  if (high < 0 || high > 1 || low < 0 || low > 0x3F) return 0;
  const int offset = high * 0x40 + low;
  return offset >= 1 && offset <= 0x5E ? static_cast<char>(0x20 + offset) : '\0';
}

}  // namespace

std::string ascii_latex(std::string_view text) {
  std::string latex;
  latex.reserve(text.size());
  while (!text.empty()) {
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      latex += text.front();
      text.remove_prefix(1);
    } else if (text.starts_with(kRadical)) {
      text.remove_prefix(kRadical.size());
      std::size_t digits = 0;
      while (digits < text.size() && is_digit(text[digits])) ++digits;
      latex += digits > 0 ? "\\sqrt{" : "\\sqrt ";
      latex += text.substr(0, digits);
      if (digits > 0) latex += '}';
      text.remove_prefix(digits);
    } else if (found(kRaised, text) != nullptr) {
      take_run(kRaised, "^{", text, latex);
    } else if (found(kLowered, text) != nullptr) {
      take_run(kLowered, "_{", text, latex);
    } else if (const Entry* entry = found(kMeanings, text)) {
      latex += entry->second;
      text.remove_prefix(entry->first.size());
    } else if (const char ascii = full_width(text); ascii != 0) {
      latex += ascii;
      text.remove_prefix(3);
    } else {
      latex += text.front();
      text.remove_prefix(1);
    }
  }
  return latex;
}

}  // namespace routeopd::grade::math
