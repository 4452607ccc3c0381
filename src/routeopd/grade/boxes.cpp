// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "routeopd/grade/ascii.h"
#include "routeopd/grade/math/budget.h"

namespace routeopd::grade {
namespace {

struct Box {
  std::size_t begin;  // of the command
  std::size_t end;    // after the closing brace
  std::string_view content;
};

// Characters of "\boxed" or "\fbox" and the white space and brace after it, 0 where no box begins.
std::size_t box_opening(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  std::size_t length = 0;
  if (rest.starts_with("\\boxed")) length = 6;
  if (rest.starts_with("\\fbox")) length = 5;
  if (length == 0) return 0;
  while (length < rest.size() && is_space(rest[length])) ++length;
  return length < rest.size() && rest[length] == '{' ? length + 1 : 0;
}

// \boxed 5 and \boxed5: one token without braces, a number whole.
std::optional<Box> unbraced_box(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with("\\boxed")) return std::nullopt;
  std::size_t first = 6;
  while (first < rest.size() && is_space(rest[first])) ++first;
  std::size_t end = first;
  while (end < rest.size() && (is_digit(rest[end]) || (end == first && rest[end] == '-'))) ++end;
  if (end == first || (end == first + 1 && rest[first] == '-')) return std::nullopt;
  return Box{at, at + end, rest.substr(first, end - first)};
}

// All boxes, in the order in which they end. Open braces are kept on a stack of our own: a response of
// nothing but braces costs memory, not the call stack. \{ and \} are text, not braces.
std::vector<Box> boxes_in(std::string_view text) {
  struct Open {
    std::size_t begin;
    std::size_t content;
    bool box;
  };
  std::vector<Open> open;
  std::vector<Box> boxes;
  if (last_box(text) == 0) return boxes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const std::size_t opening = box_opening(text, at); opening > 0) {
      open.push_back({at, at + opening, true});
      at += opening - 1;
    } else if (const auto box = text[at] == '\\' ? unbraced_box(text, at) : std::nullopt) {
      boxes.push_back(*box);
      at = box->end - 1;
    } else if (text[at] == '\\') {
      // An escaped brace is text, and so is what follows "\\", unless a box was written with two backslashes.
      if (box_opening(text, at + 1) == 0) ++at;
    } else if (text[at] == '{') {
      open.push_back({at, at + 1, false});
    } else if (text[at] == '}' && !open.empty()) {
      const Open closed = open.back();
      open.pop_back();
      if (closed.box)
        boxes.push_back({closed.begin, at + 1, text.substr(closed.content, at - closed.content)});
    }
  }
  return boxes;
}

// Whether what stands between two boxes only joins them: "$ and $", ", \text{ or }".
bool only_joins(std::string_view between) {
  static constexpr std::array<std::string_view, 17> kJoints = {"\\text", "\\quad", "\\ ", "\\,", "\\;", "\\(",
                                                               "\\)",    "\\[",    "\\]", "and", "or",  "{",
                                                               "}",      "$",      ",",   ";",   "&"};
  bool joined = false;
  while (!between.empty()) {
    if (is_space(between.front())) {
      between.remove_prefix(1);
      continue;
    }
    const std::string_view before = between;
    if (std::none_of(kJoints.begin(), kJoints.end(),
                     [&](std::string_view joint) { return take(between, joint); })) {
      return false;
    }
    joined |= std::string_view("ao,;&").find(before.front()) != std::string_view::npos;
  }
  return joined;
}

}  // namespace

std::size_t last_box(std::string_view text) {
  return std::max(text.rfind("\\boxed") + 1, text.rfind("\\fbox") + 1);  // npos + 1 is 0
}

std::string boxed_answer(std::string_view text, std::size_t reach) {
  std::vector<Box> boxes = boxes_in(text);
  std::size_t end = 0;
  for (const Box& box : boxes) {
    if (box.begin < reach) end = std::max(end, box.end);
  }
  std::erase_if(boxes, [end](const Box& box) { return box.end > end; });
  if (boxes.empty()) return {};
  std::sort(boxes.begin(), boxes.end(),
            [](const Box& left, const Box& right) { return left.begin < right.begin; });
  std::string answer(trimmed(boxes.back().content));
  for (std::size_t last = boxes.size() - 1; last > 0; --last) {
    const Box& before = boxes[last - 1];
    const std::size_t gap_end = boxes[last].begin;
    constexpr std::size_t kWidestGap = 40;
    if (before.end > gap_end || gap_end - before.end > kWidestGap) break;
    if (!only_joins(text.substr(before.end, gap_end - before.end))) break;
    answer = fmt::format("{}, {}", trimmed(before.content), answer);
    if (answer.size() > math::kLongestMath) break;
  }
  return answer;
}

}  // namespace routeopd::grade
