// SPDX-License-Identifier: Apache-2.0
#include "routeopd/jinja/text_methods.h"

#include <algorithm>
#include <array>

#include "routeopd/base/error.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"
#include "routeopd/jinja/operators.h"
#include "routeopd/jinja/string_format.h"

namespace routeopd::jinja {
namespace {

const Text& self_of(Evaluator& evaluator, const Value& self) {
  const Text& text = *as_text(self);
  evaluator.heap().spend_bytes(text.bytes.size());
  return text;
}

// Arguments that Python takes by position only.
std::vector<std::optional<Value>> by_place(std::string_view what, Arguments& arguments,
                                           std::initializer_list<std::string_view> names,
                                           std::size_t required = 0) {
  if (!arguments.named.empty())
    throw UserError("{} takes no argument by name, got {}", what, arguments.named[0].first);
  return bound(what, arguments, names, required);
}

template <std::string (*kChange)(std::string_view)>
Value change(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  by_place("method", arguments, {});
  const Text& text = self_of(evaluator, self);
  return evaluator.heap().text(kChange(text.bytes), text.markup);
}

template <bool kLeft, bool kRight>
Value strip(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  const auto given = by_place("strip", arguments, {"chars"});
  const Text* characters = given[0] && !is_none(*given[0]) ? &text_argument("strip", *given[0]) : nullptr;
  const Text& text = self_of(evaluator, self);
  if (characters != nullptr) evaluator.heap().spend_bytes(characters->bytes.size());
  return evaluator.heap().text(std::string(stripped(text.bytes, characters, kLeft, kRight)), text.markup);
}

using Pieces = std::vector<std::string_view>;

Pieces split_at(Heap& heap, std::string_view text, std::string_view separator, std::int64_t most) {
  Pieces pieces;
  std::size_t from = 0;
  while (most < 0 || static_cast<std::int64_t>(pieces.size()) < most) {
    const std::size_t at = find_text(heap, text, separator, from);
    if (at == std::string_view::npos) break;
    pieces.push_back(text.substr(from, at - from));
    heap.expect_items(static_cast<std::int64_t>(pieces.size()));
    from = at + separator.size();
  }
  pieces.push_back(text.substr(from));
  return pieces;
}

Pieces split_at_right(Heap& heap, std::string_view text, std::string_view separator, std::int64_t most) {
  Pieces pieces;
  while (most < 0 || static_cast<std::int64_t>(pieces.size()) < most) {
    const std::size_t at = find_text_right(heap, text, separator);
    if (at == std::string_view::npos) break;
    pieces.push_back(text.substr(at + separator.size()));
    heap.expect_items(static_cast<std::int64_t>(pieces.size()));
    text = text.substr(0, at);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Pieces split_at_spaces(Heap& heap, std::string_view text, std::int64_t most) {
  Pieces pieces;
  for (text = python::strip_left(text); !text.empty(); text = python::strip_left(text)) {
    if (most >= 0 && static_cast<std::int64_t>(pieces.size()) == most) {
      pieces.push_back(text);
      break;
    }
    std::size_t end = 0;
    for (std::size_t after = 0; after < text.size(); end = after) {
      if (python::is_space(next_code_point(text, after))) break;
    }
    pieces.push_back(text.substr(0, end));
    heap.expect_items(static_cast<std::int64_t>(pieces.size()));
    text = text.substr(end);
  }
  return pieces;
}

Pieces split_at_spaces_right(Heap& heap, std::string_view text, std::int64_t most) {
  Pieces pieces;
  for (text = python::strip_right(text); !text.empty(); text = python::strip_right(text)) {
    if (most >= 0 && static_cast<std::int64_t>(pieces.size()) == most) {
      pieces.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    for (std::size_t before = text.size(); before > 0; begin = before) {
      if (python::is_space(previous_code_point(text, before))) break;
    }
    pieces.push_back(text.substr(begin));
    heap.expect_items(static_cast<std::int64_t>(pieces.size()));
    text = text.substr(0, begin);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Value listed(Heap& heap, const Pieces& pieces) {
  Values items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(heap.text(std::string(piece)));
  return heap.list(std::move(items));
}

template <bool kFromRight>
Value split(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = bound("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = given[1] ? integer_argument("split", *given[1]) : -1;
  const std::string& text = self_of(evaluator, self).bytes;
  if (!given[0] || is_none(*given[0]))
    return listed(heap,
                  kFromRight ? split_at_spaces_right(heap, text, most) : split_at_spaces(heap, text, most));
  const std::string& separator = text_argument("split", *given[0]).bytes;
  if (separator.empty()) throw UserError("split: expected a separator, got an empty text");
  return listed(
      heap, kFromRight ? split_at_right(heap, text, separator, most) : split_at(heap, text, separator, most));
}

template <bool kFromRight>
Value partition(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("partition", arguments, {"sep"}, 1);
  const std::string& text = self_of(evaluator, self).bytes;
  const Text& separator = text_argument("partition", *given[0]);
  if (separator.bytes.empty()) throw UserError("partition: expected a separator, got an empty text");
  const Pieces pieces =
      kFromRight ? split_at_right(heap, text, separator.bytes, 1) : split_at(heap, text, separator.bytes, 1);
  const Value empty = heap.text("");
  if (pieces.size() == 1)
    return kFromRight ? heap.tuple({empty, empty, self}) : heap.tuple({self, empty, empty});
  return heap.tuple({heap.text(std::string(pieces[0])), *given[0], heap.text(std::string(pieces[1]))});
}

Value splitlines(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  const auto given = bound("splitlines", arguments, {"keepends"});
  return listed(evaluator.heap(), split_lines(self_of(evaluator, self).bytes, given[0] && truth(*given[0])));
}

// The part of the text between the arguments start and end, and its position in code points.
struct Part {
  Value value;
  std::int64_t begin;
  bool is_beyond;  // start is past the end: not even an empty text is found there
};

Part part_of(Heap& heap, const Value& self, const std::optional<Value>& start,
             const std::optional<Value>& end) {
  const Value from = start ? *start : Value(None{});
  std::int64_t begin = is_none(from) ? 0 : integer_argument("start", from);
  const std::int64_t length = as_text(self)->length;
  if (begin < 0) begin = std::max<std::int64_t>(0, begin + length);
  return {slice(heap, self, from, end ? *end : Value(None{}), None{}), begin, begin > length};
}

template <bool kAtEnd>
Value starts_or_ends(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  const auto given = by_place(kAtEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const Part part = part_of(evaluator.heap(), self, given[1], given[2]);
  const std::string& text = as_text(part.value)->bytes;
  const auto fits = [&](const Value& affix) {
    const Text& piece = text_argument(kAtEnd ? "endswith" : "startswith", affix);
    return !part.is_beyond && (kAtEnd ? text.ends_with(piece.bytes) : text.starts_with(piece.bytes));
  };
  const Sequence* tuple = as_list(*given[0]);
  if (tuple == nullptr || tuple->form != Sequence::Form::kTuple) return fits(*given[0]);
  evaluator.heap().spend(static_cast<std::int64_t>(tuple->items.size()));
  return std::any_of(tuple->items.begin(), tuple->items.end(), fits);
}

template <bool kFromRight, bool kMustBe>
Value find_in(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("find", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(heap, self, given[1], given[2]);
  const std::string& text = as_text(part.value)->bytes;
  const std::string& sub = text_argument("find", *given[0]).bytes;
  std::size_t at = std::string::npos;
  if (!part.is_beyond) {
    at = kFromRight ? find_text_right(heap, text, sub) : find_text(heap, text, sub);
  }
  if (at != std::string::npos) return part.begin + count_code_points(std::string_view(text).substr(0, at));
  if (kMustBe) throw UserError("index: expected a part of the text, got another");
  return std::int64_t{-1};
}

Value count(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("count", arguments, {"sub", "start", "end"}, 1);
  const Part part = part_of(heap, self, given[1], given[2]);
  const Text& text = *as_text(part.value);
  const std::string& sub = text_argument("count", *given[0]).bytes;
  if (part.is_beyond) return std::int64_t{0};
  if (sub.empty()) return text.length + 1;
  std::int64_t found = 0;
  for (std::size_t at = find_text(heap, text.bytes, sub); at != std::string::npos;
       at = find_text(heap, text.bytes, sub, at + sub.size()))
    ++found;
  return found;
}

Value replace(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t most = given[2] ? integer_argument("replace", *given[2]) : -1;
  return heap.text(replaced(heap, self_of(evaluator, self).bytes, text_argument("replace", *given[0]).bytes,
                            text_argument("replace", *given[1]).bytes, most));
}

Value join(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("join", arguments, {"iterable"}, 1);
  TextBuilder out(heap);
  Cursor cursor(heap, *given[0]);
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!first) out.add(as_text(self)->bytes);
    out.add(text_argument("join", item).bytes);
  }
  return heap.text(std::move(out.text()));
}

template <bool kAtEnd>
Value remove_affix(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  const auto given = by_place("removeprefix", arguments, {"prefix"}, 1);
  std::string_view text = self_of(evaluator, self).bytes;
  const std::string& affix = text_argument("removeprefix", *given[0]).bytes;
  if (kAtEnd ? text.ends_with(affix) : text.starts_with(affix))
    text = kAtEnd ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  return evaluator.heap().text(std::string(text));
}

// Whether the text is not empty and every character passes the test.
template <bool (*kPasses)(char32_t)>
Value all_are(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  by_place("method", arguments, {});
  const std::string& text = self_of(evaluator, self).bytes;
  for (std::size_t at = 0; at < text.size();) {
    if (!kPasses(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool is_alphanumeric(char32_t point) {
  return python::is_alpha(point) || python::is_decimal(point) || python::is_digit(point) ||
         python::is_numeric(point);
}
bool is_ascii(char32_t point) {
  return point < 0x80;
}

// isascii and isprintable hold for the empty text too.
template <bool (*kPasses)(char32_t)>
Value none_is_not(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  return as_text(self)->bytes.empty() ? Value(true) : all_are<kPasses>(evaluator, self, arguments);
}

template <bool (*kHolds)(std::string_view)>
Value whole_is(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  by_place("method", arguments, {});
  return kHolds(self_of(evaluator, self).bytes);
}

template <char kAlign>
Value pad(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  const auto given = by_place("ljust", arguments, {"width", "fillchar"}, 1);
  const Text* fill = given[1] ? &text_argument("ljust", *given[1]) : nullptr;
  if (fill != nullptr && fill->length != 1)
    throw UserError("expected one character to fill with, got {}", fill->length);
  return evaluator.heap().text(
      padded(evaluator.heap(), self_of(evaluator, self), integer_argument("ljust", *given[0]),
             fill == nullptr ? std::string_view(" ") : std::string_view(fill->bytes), kAlign));
}

Value zfill(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  Heap& heap = evaluator.heap();
  const auto given = by_place("zfill", arguments, {"width"}, 1);
  const Text& text = self_of(evaluator, self);
  const std::size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  TextBuilder out(heap);
  out.add(std::string_view(text.bytes).substr(0, sign));
  const std::int64_t width = std::max<std::int64_t>(integer_argument("zfill", *given[0]), 0);
  out.repeat("0", width - text.length);
  out.add(std::string_view(text.bytes).substr(sign));
  return heap.text(std::move(out.text()));
}

Value format(Evaluator& evaluator, const Value& self, Arguments& arguments) {
  return evaluator.heap().text(brace_format(evaluator, self_of(evaluator, self).bytes, arguments));
}

constexpr std::array<NamedFilter, 40> kMethods{{
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"startswith", starts_or_ends<false>},
    {"endswith", starts_or_ends<true>},
    {"replace", replace},
    {"upper", change<python::to_upper>},
    {"lower", change<python::to_lower>},
    {"title", change<python::to_title>},
    {"capitalize", change<python::to_capitalized>},
    {"swapcase", change<python::to_swapped>},
    {"find", find_in<false, false>},
    {"rfind", find_in<true, false>},
    {"index", find_in<false, true>},
    {"rindex", find_in<true, true>},
    {"count", count},
    {"join", join},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"isalpha", all_are<python::is_alpha>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isdecimal", all_are<python::is_decimal>},
    {"isdigit", all_are<python::is_digit>},
    {"isnumeric", all_are<python::is_numeric>},
    {"isspace", all_are<python::is_space>},
    {"isascii", none_is_not<is_ascii>},
    {"isprintable", none_is_not<python::is_printable>},
    {"isupper", whole_is<python::is_upper_text>},
    {"islower", whole_is<python::is_lower_text>},
    {"istitle", whole_is<python::is_title_text>},
    {"ljust", pad<'<'>},
    {"rjust", pad<'>'>},
    {"center", pad<'^'>},
    {"zfill", zfill},
    {"format", format},
}};

}  // namespace

std::span<const NamedFilter> text_methods() {
  return kMethods;
}

std::string_view stripped(std::string_view text, const Text* characters, bool left, bool right) {
  if (characters == nullptr) {
    if (left) text = python::strip_left(text);
    return right ? python::strip_right(text) : text;
  }
  std::vector<char32_t> points;
  for (std::size_t at = 0; at < characters->bytes.size();)
    points.push_back(next_code_point(characters->bytes, at));
  std::sort(points.begin(), points.end());
  const auto is_stripped = [&](char32_t point) {
    return std::binary_search(points.begin(), points.end(), point);
  };
  while (left && !text.empty()) {
    std::size_t after = 0;
    if (!is_stripped(next_code_point(text, after))) break;
    text.remove_prefix(after);
  }
  while (right && !text.empty()) {
    std::size_t first = text.size();
    if (!is_stripped(previous_code_point(text, first))) break;
    text = text.substr(0, first);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t point = next_code_point(text, at);
    const bool breaks = (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) ||
                        point == 0x85 || point == 0x2028 || point == 0x2029;
    if (!breaks) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(from, (keep_ends ? at : end) - from));
    from = at;
  }
  if (from < text.size()) lines.push_back(text.substr(from));
  return lines;
}

std::string replaced(Heap& heap, std::string_view text, std::string_view old, std::string_view by,
                     std::int64_t count) {
  TextBuilder out(heap);
  std::size_t from = 0;
  // An empty text is found before each character and at the end.
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    const std::size_t at = find_text(heap, text, old, from);
    if (at == std::string_view::npos) break;
    out.add(text.substr(from, at - from));
    out.add(by);
    from = at + old.size();
    if (old.empty()) {
      if (from == text.size()) return std::move(out.text());
      const std::size_t first = from;
      next_code_point(text, from);
      out.add(text.substr(first, from - first));
    }
  }
  out.add(text.substr(from));
  return std::move(out.text());
}

std::string padded(Heap& heap, const Text& text, std::int64_t width, std::string_view fill, char align) {
  const std::int64_t missing = width > text.length ? width - text.length : 0;
  // Python's rule for center: of an odd number of spaces, the extra one goes right, or left if the width is
  // odd.
  const std::int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
  TextBuilder out(heap);
  out.repeat(fill, left);
  out.add(text.bytes);
  out.repeat(fill, missing - left);
  return std::move(out.text());
}

}  // namespace routeopd::jinja
