// "The final answer is …", "Answer: …": the sentences in which an answer is given without a box.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace routeopd::grade {

enum class Phrase : std::uint8_t {
  kFinalAnswer,  // "final answer", then "is", a colon or the end of a line
  kAnswer,       // "answer", then "is" or a colon
};

struct PhraseAnswer {
  std::size_t at = 0;  // after the phrase; 0 where there is none
  std::string text{};  // trimmed; empty where there is none
  bool mathematics = false;
  bool readable = false;  // readable.h
};

// The answer after the last such phrase that a readable one follows; where none is, what follows the last
// phrase. The last few phrases are tried. Upper and lower case are alike, and ** may stand around the phrase.
// "answer isn't", "answer is not" and "answer is never" are no phrases.
//
// After a phrase white space, a colon, ** and the signs that open mathematics are skipped. A box there, or
// mathematics between $…$, \(…\) or \[…\], is taken whole. Otherwise the answer is what the sentence begins
// with, if that is mathematics, or else the sentence up to "because" or "since". A sentence ends with the
// line, or with a point before white space or the end. Time and memory are linear in the text.
PhraseAnswer answer_after(std::string_view text, Phrase phrase);

}  // namespace routeopd::grade
