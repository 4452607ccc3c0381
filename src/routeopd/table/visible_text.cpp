// SPDX-License-Identifier: Apache-2.0
#include "routeopd/table/visible_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "routeopd/base/utf8.h"

namespace routeopd::table {
namespace {

struct Block {
  char32_t first, last;
};

// Beyond ASCII: what a terminal obeys (C1), what a line's order depends on, and what has no width.
constexpr std::array<Block, 11> kUnseen = {{{0x80, 0x9F},
                                            {0xAD, 0xAD},
                                            {0x61C, 0x61C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFF0, 0xFFFB},
                                            {0xFFFE, 0xFFFF},
                                            {0xE0000, 0xE0FFF}}};

bool is_unseen(char32_t character) {
  return std::any_of(kUnseen.begin(), kUnseen.end(),
                     [&](const Block& block) { return block.first <= character && character <= block.last; });
}

void append_visible(std::string_view bytes, bool quoting, std::string& out) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, at);
    const std::string_view piece = bytes.substr(at, step.length);
    at += step.length;
    if (!step.valid) {
      for (const char byte : piece)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
      continue;
    }
    const char32_t character = code_point_at(piece, 0);
    if (character == '\n') {
      out += "\\n";
    } else if (character == '\t') {
      out += "\\t";
    } else if (character == '\r') {
      out += "\\r";
    } else if (character < 0x20 || character == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(character));
    } else if (is_unseen(character)) {
      fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}", static_cast<unsigned>(character));
    } else {
      if (quoting && (character == '"' || character == '\\')) out += '\\';
      out += piece;
    }
  }
}

}  // namespace

std::string visible(std::string_view bytes) {
  std::string out;
  append_visible(bytes, false, out);
  return out;
}

std::string visible_lines(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t feed = bytes.find('\n');
    const std::string_view line = bytes.substr(0, feed == bytes.npos ? feed : feed + 1);
    append_visible(line, false, out);
    if (feed != bytes.npos) out += '\n';
    bytes.remove_prefix(line.size());
  }
  return out;
}

std::string in_quotes(std::string_view bytes) {
  std::string out = "\"";
  append_visible(bytes, true, out);
  out += '"';
  return out;
}

}  // namespace routeopd::table
