// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/unicode.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/unicode_tables.h"

namespace routeopd::tokenizer {
namespace {

std::vector<std::uint8_t> make_classes() {
  std::vector<std::uint8_t> classes(0x110000);
  const auto mark = [&](std::span<const CodeRange> ranges, CharClass kind) {
    for (const CodeRange& range : ranges) {
      for (char32_t point = range.first; point <= range.last; ++point)
        classes[point] = static_cast<std::uint8_t>(classes[point] | kind);
    }
  };
  for (const auto letters : {category_lu(), category_ll(), category_lt(), category_lm(), category_lo()})
    mark(letters, kLetter);
  mark(category_n(), kNumber);
  mark(space(), kWhiteSpace);
  mark(word(), kWordChar);
  mark(numeric(), kNumericChar);
  mark(punctuation(), kPunctuationChar);
  return classes;
}

constexpr char32_t kTableEnd = 0x30000;  // normalization changes no character from here on
// Hangul syllables are made of a leading consonant, a vowel and perhaps a trailing consonant, by arithmetic.
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeading = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrailing = 0x11A7;  // one before the first
constexpr char32_t kLeadingCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

struct Mark {
  char32_t point;
  std::uint8_t number;  // canonical combining class, 0 for a starter
};

class NormalForms {
 public:
  static const NormalForms& get() {
    static const NormalForms tables;
    return tables;
  }

  // Whether normalization may change the character, move it or join it to the previous one.
  bool is_active(char32_t point) const { return point < kTableEnd && active_[point] != 0; }
  std::uint8_t number_of(char32_t point) const { return point < kTableEnd ? number_[point] : 0; }

  // Appends the full canonical decomposition.
  void decompose(char32_t point, std::vector<Mark>& out) const {
    if (point - kSyllables < kSyllableCount) {
      const char32_t index = point - kSyllables;
      out.push_back({kLeading + index / (kVowelCount * kTrailingCount), 0});
      out.push_back({kVowels + index / kTrailingCount % kVowelCount, 0});
      if (index % kTrailingCount != 0) out.push_back({kTrailing + index % kTrailingCount, 0});
      return;
    }
    const auto found = parts_.find(point);
    if (found == parts_.end()) {
      out.push_back({point, number_of(point)});
      return;
    }
    decompose(found->second.first, out);  // a few levels at most, in our own data
    if (found->second.second != 0) out.push_back({found->second.second, number_of(found->second.second)});
  }

  // The composition of two characters, 0 if there is none.
  char32_t composed(char32_t first, char32_t second) const {
    if (first - kLeading < kLeadingCount && second - kVowels < kVowelCount)
      return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
    if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailingCount == 0 &&
        second - kTrailing - 1 < kTrailingCount - 1)
      return first + (second - kTrailing);
    const auto found = wholes_.find(std::uint64_t{first} << 32U | second);
    return found == wholes_.end() ? 0 : found->second;
  }

 private:
  struct Parts {
    char32_t first;
    char32_t second;
  };

  NormalForms() : active_(kTableEnd), number_(kTableEnd) {
    for (const CombiningClass& marks : combining_classes()) {
      for (char32_t point = marks.first; point <= marks.last; ++point) {
        number_.at(point) = marks.number;
        active_.at(point) = 1;
      }
    }
    for (const Decomposition& each : decompositions()) {
      parts_.emplace(each.whole, Parts{each.first, each.second});
      if (each.composes) {
        wholes_.emplace(std::uint64_t{each.first} << 32U | each.second, each.whole);
        active_.at(each.second) = 1;
      } else {
        active_.at(each.whole) = 1;
      }
    }
    for (char32_t i = 0; i < kVowelCount; ++i) active_.at(kVowels + i) = 1;
    for (char32_t i = 1; i < kTrailingCount; ++i) active_.at(kTrailing + i) = 1;
  }

  std::vector<std::uint8_t> active_;
  std::vector<std::uint8_t> number_;
  std::unordered_map<char32_t, Parts> parts_;
  std::unordered_map<std::uint64_t, char32_t> wholes_;  // by first << 32 | second
};

// Composes a decomposed and ordered text in place: each mark joins the last starter unless a mark that did
// not join, of the same class or a higher one, is between.
void compose(const NormalForms& tables, std::vector<Mark>& marks) {
  std::size_t kept = 0;
  std::size_t starter = marks.size();  // its position; none yet
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Mark mark = marks[i];
    if (starter < kept) {
      const bool adjacent = starter + 1 == kept;
      const bool blocked = !adjacent && marks[kept - 1].number >= mark.number;
      const char32_t whole = blocked ? 0 : tables.composed(marks[starter].point, mark.point);
      if (whole != 0) {
        marks[starter].point = whole;
        continue;
      }
    }
    if (mark.number == 0) starter = kept;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

}  // namespace

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes.data();
}

bool is_plainly_nfc(std::string_view text) {
  if (is_ascii(text)) return true;
  const NormalForms& tables = NormalForms::get();
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    if (static_cast<unsigned char>(text[at]) >= 0xCC && tables.is_active(code_point_at(text, at)))
      return false;
  }
  return true;
}

std::string nfc(std::string_view text) {
  const NormalForms& tables = NormalForms::get();
  std::vector<Mark> marks;
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;  // bytes that are in `out`
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = code_point_at(text, at);
    const std::size_t next = at + utf8_length(text[at]);
    if (!tables.is_active(point)) {
      at = next;
      continue;
    }
    // A run of active characters, with the character before it, which they may join.
    std::size_t begin = at;
    if (begin > done) {
      --begin;
      while ((static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
    }
    std::size_t end = next;
    while (end < text.size() && tables.is_active(code_point_at(text, end))) end += utf8_length(text[end]);
    out += text.substr(done, begin - done);
    marks.clear();
    for (std::size_t i = begin; i < end; i += utf8_length(text[i]))
      tables.decompose(code_point_at(text, i), marks);
    for (auto mark = marks.begin(); mark != marks.end();) {
      const auto starter = std::find_if(mark, marks.end(), [](const Mark& each) { return each.number == 0; });
      std::stable_sort(mark, starter, [](const Mark& a, const Mark& b) { return a.number < b.number; });
      mark = starter == marks.end() ? starter : starter + 1;
    }
    compose(tables, marks);
    for (const Mark& mark : marks) append_utf8(mark.point, out);
    done = end;
    at = end;
  }
  out += text.substr(done);
  return out;
}

}  // namespace routeopd::tokenizer
