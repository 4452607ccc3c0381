// Texts as decontamination compares them: in lower case, without what is
// neither a word character nor white space, words one space apart. Exact for
// Python 3.11: str.lower(), then re.sub(r"[^\w\s]", "", …), then str.split().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::decontamination {

struct Slice {  // bytes [begin, end) of a text
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct NormalText {
  std::string text;
  std::vector<Slice> words;
};

// `text` is valid UTF-8, as every string of a JSON file that was read is.
NormalText normal_text(std::string_view text);

// White space as str.split() sees it, so that callers can split the original text into the same words.
bool is_white_space(char32_t point);

// What n-grams are made of. Each unit has a hash whose key is new in every
// process, so that no file can be written whose n-grams all collide. Equal
// units have equal hashes; whether the reverse holds, a comparison tells.
struct Units {
  std::vector<Slice> slices;
  std::vector<std::uint64_t> hashes;
};

Units words_of(const NormalText& normal);
Units characters_of(const NormalText& normal);  // code points, the spaces between words among them

}  // namespace routeopd::decontamination
