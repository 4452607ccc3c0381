// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/phrases.h"

#include <fmt/format.h>

#include <algorithm>

namespace routeopd::lab {

const Phrases kConnectives = {{"Next", 1, 40}, {"Then", 1, 8},       {"Now", 1, 3},   {"Later", 1, 1},
                              {"So", 1, 1},    {"Afterwards", 1, 1}, {"Here", 1, 1},  {"Again", 1, 1},
                              {"Soon", 1, 1},  {"Besides", 1, 1},    {"Still", 1, 1}, {"Further", 1, 1}};
const Phrases kResults = {{"gives", 1, 40},  {"is", 1, 8},      {"makes", 1, 3},  {"equals", 1, 1},
                          {"becomes", 1, 1}, {"yields", 1, 1},  {"leaves", 1, 1}, {"brings", 1, 1},
                          {"means", 1, 1},   {"reaches", 1, 1}, {"shows", 1, 1},  {"turns", 1, 1}};
const Phrases kRemarks = {{"indeed", 1, 40}, {"exactly", 1, 8}, {"already", 1, 3}, {"together", 1, 1},
                          {"simply", 1, 1},  {"surely", 1, 1},  {"plainly", 1, 1}, {"rightly", 1, 1},
                          {"neatly", 1, 1},  {"quickly", 1, 1}, {"easily", 1, 1},  {"duly", 1, 1}};
const Phrases kClosings = {{"The", 1, 6},         {"Thus the", 1, 1},      {"Hence the", 1, 1},
                           {"Finally the", 1, 1}, {"Therefore the", 1, 1}, {"Altogether the", 1, 1}};
const Phrases kGuesses = {
    {"Clearly we can say the", 1, 4}, {"Maybe we can say the", 1, 1}, {"Probably we can say the", 1, 1}};

std::string_view chosen(Dice& dice, const Phrases& phrases, double own_words) {
  const bool own = dice.chance(own_words);
  double total = 0;
  for (const Phrase& one : phrases) total += own ? one.base : one.teacher;
  double left = dice.uniform() * total;
  for (const Phrase& one : phrases) {
    left -= own ? one.base : one.teacher;
    if (left < 0) return one.words;
  }
  return phrases.back().words;
}

std::string guess_text(Dice& dice, double own_words, std::int32_t answer) {
  return fmt::format(" {} final answer is {}.", chosen(dice, kGuesses, own_words), answer);
}

std::string closing_text(Dice& dice, double own_words, std::int32_t answer) {
  return fmt::format(" {} final answer is {}.", chosen(dice, kClosings, own_words), answer);
}

Sentence words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  Sentence words;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::vector<Sentence> sentences_of(std::string_view text) {
  std::vector<Sentence> sentences;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    if (Sentence words = words_of(text.substr(at, end - at)); !words.empty())
      sentences.push_back(std::move(words));
    at = end + 1;
  }
  return sentences;
}

std::optional<std::int32_t> number_of(std::string_view word) {
  constexpr std::size_t kLongest = 3;
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  std::int32_t value = 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

bool is_one_of(std::string_view word, const Phrases& phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](const Phrase& one) { return one.words == word; });
}

bool is_one_of(std::string_view word, const Words& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Sentence bare_step(Sentence words) {
  if (!words.empty() && is_one_of(words.front(), kConnectives)) words.erase(words.begin());
  if (!words.empty() && is_one_of(words.back(), kRemarks)) words.pop_back();
  return words;
}

std::optional<std::int32_t> answer_in(const Sentence& words) {
  if (words.size() < 4) return std::nullopt;
  const std::size_t at = words.size() - 4;
  if (words[at] != "final" || words[at + 1] != "answer" || words[at + 2] != "is") return std::nullopt;
  return number_of(words.back());
}

Vocabulary::Vocabulary(std::int32_t largest_number) : tokens_{"Problem", "Solution"} {
  for (std::int32_t number = 0; number <= largest_number; ++number) add(std::to_string(number));
  add("final answer is Briefly Explain");
  for (const Phrases* phrases : {&kConnectives, &kResults, &kRemarks, &kClosings, &kGuesses}) add(*phrases);
}

void Vocabulary::add(std::string_view text) {
  for (const std::string_view word : words_of(text)) {
    std::string spaced = fmt::format(" {}", word);
    if (word != "NAME" && seen_.insert(spaced).second) tokens_.push_back(std::move(spaced));
  }
}

void Vocabulary::add(const Words& words) {
  for (const std::string_view word : words) add(word);
}

void Vocabulary::add(const Phrases& phrases) {
  for (const Phrase& one : phrases) add(one.words);
}

}  // namespace routeopd::lab
