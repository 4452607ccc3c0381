// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/normal_text.h"

#include "routeopd/base/hashes.h"
#include "routeopd/base/python_unicode.h"
#include "routeopd/base/utf8.h"

namespace routeopd::decontamination {
namespace {

namespace unicode = python;  // code points as Python sees them

// Python's \w: str.isalnum() or an underscore.
bool is_word_character(char32_t point) {
  return unicode::is_alpha(point) || unicode::is_numeric(point) || unicode::is_digit(point) ||
         unicode::is_decimal(point) || point == U'_';
}

bool is_ascii_space(unsigned char c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
}

// Gathers word characters; a word begins with the first one after white space.
class Builder {
 public:
  explicit Builder(std::size_t bytes) { normal_.text.reserve(bytes); }

  void space() { inside_ = false; }

  void add(std::string_view character) {
    if (!inside_) {
      if (!normal_.words.empty()) normal_.text.push_back(' ');
      normal_.words.push_back({normal_.text.size(), normal_.text.size()});
      inside_ = true;
    }
    normal_.text.append(character);
    normal_.words.back().end = normal_.text.size();
  }

  NormalText take() { return std::move(normal_); }

 private:
  NormalText normal_;
  bool inside_ = false;
};

NormalText normal_ascii(std::string_view text) {
  Builder builder(text.size());
  for (const char c : text) {
    if (is_ascii_space(static_cast<unsigned char>(c))) {
      builder.space();
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') {
      builder.add({&c, 1});
    } else if (c >= 'A' && c <= 'Z') {
      const char lower = static_cast<char>(c - 'A' + 'a');
      builder.add({&lower, 1});
    }
  }
  return builder.take();
}

}  // namespace

bool is_white_space(char32_t point) {
  return unicode::is_space(point);
}

NormalText normal_text(std::string_view text) {
  if (is_ascii(text)) return normal_ascii(text);
  const std::string lower = unicode::to_lower(text);
  Builder builder(lower.size());
  for (std::size_t at = 0; at < lower.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(lower, at);
    if (unicode::is_space(point)) {
      builder.space();
    } else if (is_word_character(point)) {
      builder.add(std::string_view(lower).substr(first, at - first));
    }
  }
  return builder.take();
}

Units words_of(const NormalText& normal) {
  const std::uint64_t key = hash_key();
  Units units;
  units.slices = normal.words;
  units.hashes.reserve(normal.words.size());
  for (const Slice& word : normal.words)
    units.hashes.push_back(
        keyed_hash(std::string_view(normal.text).substr(word.begin, word.end - word.begin), key));
  return units;
}

Units characters_of(const NormalText& normal) {
  const std::uint64_t key = hash_key();
  Units units;
  units.slices.reserve(normal.text.size());
  units.hashes.reserve(normal.text.size());
  for (std::size_t at = 0; at < normal.text.size();) {
    const std::size_t first = at;
    const char32_t point = next_code_point(normal.text, at);
    units.slices.push_back({first, at});
    units.hashes.push_back(folded_product(point ^ key, 0x9E3779B97F4A7C15U ^ key));
  }
  return units;
}

}  // namespace routeopd::decontamination
