// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "routeopd/base/display.h"
#include "routeopd/base/error.h"
#include "routeopd/base/utf8.h"
#include "routeopd/report/charts/palette.h"

namespace routeopd::report {
namespace {

constexpr std::size_t kMostSvgBytes = std::size_t{16} << 20;
constexpr std::size_t kMostDepth = 256;

constexpr std::array<std::string_view, 18> kElements = {
    "svg",  "g",     "path", "line",     "rect",           "circle",         "ellipse", "polyline", "polygon",
    "text", "tspan", "defs", "clipPath", "linearGradient", "radialGradient", "stop",    "title",    "desc"};

// Everything else is presentation of shapes and text. "style" could fetch, "href" could lead away.
constexpr std::array<std::string_view, 45> kAttributes = {"class",
                                                          "id",
                                                          "transform",
                                                          "d",
                                                          "x",
                                                          "y",
                                                          "x1",
                                                          "x2",
                                                          "y1",
                                                          "y2",
                                                          "dx",
                                                          "dy",
                                                          "r",
                                                          "rx",
                                                          "ry",
                                                          "cx",
                                                          "cy",
                                                          "width",
                                                          "height",
                                                          "viewBox",
                                                          "points",
                                                          "fill",
                                                          "fill-opacity",
                                                          "stroke",
                                                          "stroke-width",
                                                          "stroke-opacity",
                                                          "stroke-dasharray",
                                                          "stroke-dashoffset",
                                                          "stroke-linecap",
                                                          "stroke-linejoin",
                                                          "stroke-miterlimit",
                                                          "opacity",
                                                          "font-family",
                                                          "font-size",
                                                          "font-weight",
                                                          "font-style",
                                                          "text-anchor",
                                                          "clip-path",
                                                          "offset",
                                                          "stop-color",
                                                          "pointer-events",
                                                          "display",
                                                          "role",
                                                          "version",
                                                          "gradientUnits"};

template <class Names>
bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(std::string_view what) {
  throw UserError("the drawing has {}, which a page does not take", what.substr(0, 80));
}

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The value of an attribute as the page has it. Names of functions mean the same in capitals.
std::string page_value(std::string_view name, std::string_view value, std::string_view prefix) {
  if (name == "id") return fmt::format("{}-{}", prefix, value);
  constexpr std::string_view kReference = "url(#";
  const std::string lower = lower_case(value);
  if (lower.find("url") != std::string::npos) {
    if (!value.starts_with(kReference) || lower.find("url", 1) != std::string::npos)
      refuse("a reference to a file");
    return fmt::format("{}{}-{}", kReference, prefix, value.substr(kReference.size()));
  }
  for (const ChartColor& color : kChartColors) {
    if (value == css(color.light)) return fmt::format("var(--{})", color.name);
  }
  return std::string(value);
}

class Reader {
 public:
  Reader(std::string_view svg, std::string_view prefix) : svg_(svg), prefix_(prefix) {}

  // The tags and texts between the root's own tags; the root's size is left in `size`.
  std::string body(std::string& size) {
    skip_space();
    if (!svg_.substr(at_).starts_with("<svg")) refuse("another beginning than <svg");
    std::string out;
    do {
      tag(out, size);
      const std::size_t next = std::min(svg_.find('<', at_), svg_.size());
      const std::string_view words = svg_.substr(at_, next - at_);
      if (!open_.empty()) out += words;
      at_ = next;
    } while (!open_.empty());
    skip_space();
    if (at_ != svg_.size()) refuse("something after its end");
    return out;
  }

 private:
  void skip_space() {
    while (at_ < svg_.size() &&
           (svg_[at_] == ' ' || svg_[at_] == '\n' || svg_[at_] == '\t' || svg_[at_] == '\r'))
      ++at_;
  }
  char here() const { return at_ < svg_.size() ? svg_[at_] : '\0'; }
  std::string_view name() {
    const std::size_t begin = at_;
    while (is_name_letter(here())) ++at_;
    return svg_.substr(begin, at_ - begin);
  }
  void expect(char c) {
    if (here() != c) refuse("a tag that is not well formed");
    ++at_;
  }

  void tag(std::string& out, std::string& size) {
    expect('<');
    if (here() == '/') {
      ++at_;
      const std::string_view closed = name();
      expect('>');
      if (open_.empty() || open_.back() != closed) refuse("tags that do not match");
      open_.pop_back();
      if (!open_.empty()) out += fmt::format("</{}>", closed);
      return;
    }
    const std::string_view element = name();
    const bool root = open_.empty();
    if (!holds(kElements, element) || (element == "svg") != root) refuse(fmt::format("<{}>", element));
    std::string kept;
    for (skip_space(); is_name_letter(here()); skip_space()) attribute(root, kept, size);
    if (!root) out += fmt::format("<{}{}", element, kept);
    if (here() == '/') {
      ++at_;
      if (root) refuse("no content");
      out += "/>";
    } else {
      open_.push_back(element);
      if (open_.size() > kMostDepth) refuse("too many levels");
      if (!root) out += ">";
    }
    expect('>');
  }

  void attribute(bool root, std::string& kept, std::string& size) {
    const std::string_view key = name();
    expect('=');
    expect('"');
    const std::size_t end = svg_.find('"', at_);
    if (end == std::string_view::npos) refuse("a tag that is not well formed");
    const std::string_view value = svg_.substr(at_, end - at_);
    at_ = end + 1;
    if (value.find('<') != std::string_view::npos) refuse("a tag that is not well formed");
    // What the renderer says to screen readers of every mark: the page says it once for the whole.
    if (key.starts_with("xmlns") || key.starts_with("aria-") || key == "role" || key == "class") return;
    if (!holds(kAttributes, key)) refuse(fmt::format("the attribute {}", key));
    // Escapes of XML and of CSS spell any word, "url" too; what these attributes hold needs none.
    if (value.find_first_of("&\\") != std::string_view::npos)
      refuse(fmt::format("an escape in the attribute {}", key));
    const std::string shown = fmt::format(" {}=\"{}\"", key, page_value(key, value, prefix_));
    if (!root) {
      kept += shown;
    } else if (key == "width" || key == "height" || key == "viewBox") {
      size += shown;
    }
  }

  std::string_view svg_, prefix_;
  std::size_t at_ = 0;
  std::vector<std::string_view> open_;
};

}  // namespace

std::string page_svg(std::string_view svg, std::string_view prefix, std::string_view description) {
  if (svg.size() > kMostSvgBytes) refuse("more than 16 MB");
  if (find_invalid_utf8(svg) != std::string_view::npos) refuse("bytes that are not UTF-8");
  std::string size;
  const std::string body = Reader(svg, prefix).body(size);
  return fmt::format("<svg role=\"img\" aria-label=\"{}\"{}>{}</svg>", html_escaped(description), size, body);
}

}  // namespace routeopd::report
