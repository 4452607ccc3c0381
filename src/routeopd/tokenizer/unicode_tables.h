// Unicode as Hugging Face's `tokenizers` knows it: data that scripts/make_tokenizer_tables.py obtained from
// that library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace routeopd::tokenizer {

struct CodeRange {
  char32_t first;
  char32_t last;
};

struct CombiningClass {
  char32_t first;
  char32_t last;
  std::uint8_t number;
};

// One step of canonical decomposition: a character as another and a mark; `second` is 0 if there is no mark.
struct Decomposition {
  char32_t whole;
  char32_t first;
  char32_t second;
  bool composes;  // `first` and `second` compose to `whole`
};

// General categories, as its regular expressions see them.
std::span<const CodeRange> category_lu();
std::span<const CodeRange> category_ll();
std::span<const CodeRange> category_lt();
std::span<const CodeRange> category_lm();
std::span<const CodeRange> category_lo();
std::span<const CodeRange> category_m();
std::span<const CodeRange> category_n();
std::span<const CodeRange> category_p();
std::span<const CodeRange> category_s();

std::span<const CodeRange> numeric();      // what Digits cuts out
std::span<const CodeRange> punctuation();  // what Punctuation cuts out
std::span<const CodeRange> word();         // \w of Whitespace, and of an added token that is a single word
std::span<const CodeRange> space();        // \s everywhere

std::span<const CombiningClass> combining_classes();  // all that are not 0
std::span<const Decomposition> decompositions();      // all but those of Hangul syllables, by `whole`

}  // namespace routeopd::tokenizer
