// Words that the families share, and what writes and reads them. A solution is sentences that end with a full
// stop; wording is free where it does not matter, and the writers choose differently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/lab/dice.h"

namespace routeopd::lab {

using Words = std::vector<std::string_view>;

// A way to say something, and how often the teacher and the base student say it so.
struct Phrase {
  std::string_view words;  // NAME stands for the problem's name
  double teacher;
  double base;
};
using Phrases = std::vector<Phrase>;

// How a problem wants its answer, which decides what kind of slip the base student makes there:
//
//   brief      figures alone, in fixed words: a slip is one token, and so is what the teacher wants instead
//   plain      sentences, both kinds of slip
//   explained  sentences in the base student's own words: a slip is where the teacher would choose among many
enum class Manner { kBrief, kPlain, kExplained };

// In the order in which they come: a step is "Next … gives …", where it is explained "… indeed".
extern const Phrases kConnectives, kResults, kRemarks, kClosings, kGuesses;
inline constexpr double kLuckyGuess = 0.2;  // share of guesses that are right

// One of the phrases: with probability `own_words` as the base student chooses, else as the teacher does.
std::string_view chosen(Dice& dice, const Phrases& phrases, double own_words);

// " Clearly we can say the final answer is 7."; " The final answer is 7."
std::string guess_text(Dice& dice, double own_words, std::int32_t answer);
std::string closing_text(Dice& dice, double own_words, std::int32_t answer);

using Sentence = std::vector<std::string_view>;

// Words between white space.
Sentence words_of(std::string_view text);

// What stands before each full stop, without empty ones; a rest without a full stop counts.
std::vector<Sentence> sentences_of(std::string_view text);

// Up to three digits: the tasks have no others, and a response may hold anything.
std::optional<std::int32_t> number_of(std::string_view word);

bool is_one_of(std::string_view word, const Phrases& phrases);
bool is_one_of(std::string_view word, const Words& words);

// The sentence without the connective before it and the remark after it, where it has them.
Sentence bare_step(Sentence words);

// N of "… final answer is N".
std::optional<std::int32_t> answer_in(const Sentence& words);

// What a tokenizer must have: every word once, in the order of adding.
class Vocabulary {
 public:
  // Begins with the words of the template, the numbers from 0, and those of the shared phrases.
  explicit Vocabulary(std::int32_t largest_number);
  void add(std::string_view text);  // each of its words
  void add(const Words& words);
  void add(const Phrases& phrases);
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
  std::set<std::string> seen_;
};

}  // namespace routeopd::lab
