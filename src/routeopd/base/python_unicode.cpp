// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/python_unicode.h"

#include <algorithm>
#include <span>

#include "routeopd/base/python_unicode_tables.h"
#include "routeopd/base/utf8.h"

namespace routeopd::python {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

// The row that contains `point`; no two rows overlap.
template <class Row>
const Row* row_of(std::span<const Row> rows, char32_t point) {
  const auto after = std::upper_bound(rows.begin(), rows.end(), point,
                                      [](char32_t at, const Row& row) { return at < row.first; });
  if (after == rows.begin()) return nullptr;
  const Row& row = *(after - 1);
  return point <= row.last && (point - row.first) % row.step == 0 ? &row : nullptr;
}

bool holds(std::span<const Run> rows, char32_t point) {
  return row_of(rows, point) != nullptr;
}

bool append_long(std::string& out, std::span<const LongMapping> rows, char32_t point) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), point,
                                      [](const LongMapping& row, char32_t at) { return row.from < at; });
  if (found == rows.end() || found->from != point) return false;
  for (const char32_t each : found->to) {
    if (each != 0) append_utf8(each, out);
  }
  return true;
}

char32_t mapped(std::span<const MappedRun> rows, char32_t point) {
  const MappedRun* row = row_of(rows, point);
  return row == nullptr ? point : static_cast<char32_t>(static_cast<std::int64_t>(point) + row->change);
}

void append_upper(std::string& out, char32_t point) {
  if (!append_long(out, kToUpperLong, point)) append_utf8(mapped(kToUpper, point), out);
}

void append_title(std::string& out, char32_t point) {
  if (append_long(out, kToTitleLong, point)) return;
  const MappedRun* row = row_of(kToTitle, point);
  if (row != nullptr) {
    append_utf8(static_cast<char32_t>(static_cast<std::int64_t>(point) + row->change), out);
  } else {
    append_upper(out, point);
  }
}

// A capital sigma is final after a cased letter and not before one; case-ignorable points between are
// skipped.
bool is_final_sigma(std::string_view text, std::size_t first, std::size_t after) {
  bool before = false;
  while (first > 0) {
    const char32_t point = previous_code_point(text, first);
    if (holds(kCaseIgnorable, point)) continue;
    before = is_cased(point);
    break;
  }
  if (!before) return false;
  while (after < text.size()) {
    const char32_t point = next_code_point(text, after);
    if (!holds(kCaseIgnorable, point)) return !is_cased(point);
  }
  return true;
}

// Appends the lower case of the code point `point`, which is text[first, after).
void append_lower(std::string& out, std::string_view text, std::size_t first, std::size_t after,
                  char32_t point) {
  if (point == kCapitalSigma) {
    append_utf8(is_final_sigma(text, first, after) ? kFinalSigma : kSmallSigma, out);
  } else if (!append_long(out, kToLowerLong, point)) {
    append_utf8(mapped(kToLower, point), out);
  }
}

}  // namespace

bool is_space(char32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_printable(char32_t point) {
  return holds(kPrintable, point);
}
bool is_alpha(char32_t point) {
  return holds(kAlpha, point);
}
bool is_decimal(char32_t point) {
  return holds(kDecimal, point);
}
bool is_digit(char32_t point) {
  return holds(kDigit, point);
}
bool is_numeric(char32_t point) {
  return holds(kNumeric, point);
}
bool is_upper(char32_t point) {
  return holds(kUpper, point);
}
bool is_lower(char32_t point) {
  return holds(kLower, point);
}
bool is_cased(char32_t point) {
  return is_upper(point) || is_lower(point) || holds(kTitle, point);
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(text, at);
    append_lower(out, text, first, at, point);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool inside = false;  // a word is a run of cased letters
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(text, at);
    if (inside) {
      append_lower(out, text, first, at, point);
    } else {
      append_title(out, point);
    }
    inside = is_cased(point);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(text, at);
    if (first == 0) {
      append_title(out, point);
    } else {
      append_lower(out, text, first, at, point);
    }
  }
  return out;
}

std::string to_swapped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(text, at);
    if (is_upper(point)) {
      append_lower(out, text, first, at, point);
    } else if (is_lower(point)) {
      append_upper(out, point);
    } else {
      append_utf8(point, out);
    }
  }
  return out;
}

bool is_upper_text(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (is_lower(point) || holds(kTitle, point)) return false;
    any = any || is_upper(point);
  }
  return any;
}

bool is_lower_text(std::string_view text) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (is_upper(point) || holds(kTitle, point)) return false;
    any = any || is_lower(point);
  }
  return any;
}

bool is_title_text(std::string_view text) {
  bool any = false;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    const bool begins = is_upper(point) || holds(kTitle, point);
    if ((begins && inside) || (is_lower(point) && !inside)) return false;
    inside = begins || is_lower(point);
    any = any || inside;
  }
  return any;
}

std::string_view strip_left(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t after = at;
    if (!is_space(next_code_point(text, after))) break;
    at = after;
  }
  return text.substr(at);
}

std::string_view strip_right(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t first = end;
    if (!is_space(previous_code_point(text, first))) break;
    end = first;
  }
  return text.substr(0, end);
}

}  // namespace routeopd::python
