// How text is cut and normalized: hand-written matchers against Oniguruma, NFC against `tokenizers`, and the
// time for long texts.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/tokenizer/split_pattern.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/tokenizer/unicode.h"
#include "tokenizer/golden_tokenizers.h"

namespace routeopd::tokenizer {
namespace {

using ::testing::HasSubstr;

char32_t random_character(std::mt19937& random) {
  static const std::u32string telling =
      U"ab Zz19'sStTlLrReEvVmMdD\u017f\u212a\n\r\t "
      U"\u00a0.,!-\u00e9\u4e94\u0301\U0001F642\u00b2\u3000\u180e\u2028";
  for (;;) {
    auto any = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
    if (random() % 8 != 0) any = telling[random() % telling.size()];
    if (any < 0xD800 || any > 0xDFFF) return any;
  }
}

std::string random_text(std::mt19937& random) {
  std::string text;
  for (auto left = random() % 40; left > 0; --left) append_utf8(random_character(random), text);
  return text;
}

std::vector<std::string> words_of(const SplitPattern& pattern, const std::string& text) {
  std::vector<Cut> cuts;
  pattern.cut(text, cuts);
  std::vector<std::string> words;
  for (const Cut& cut : cuts) words.push_back(text.substr(cut.begin, cut.end - cut.begin));
  return words;
}

TEST(WordMatcher, CutsAsOnigurumaDoes) {
  std::mt19937 random(3);
  for (const std::string_view expression : {kGpt2Pattern, kQwen2Pattern, kLlama3Pattern}) {
    const SplitPattern fast = SplitPattern::regex(expression);
    const SplitPattern reference = SplitPattern::regex(expression, SplitPattern::Engine::reference);
    ASSERT_NE(fast.known(), KnownPattern::none);
    ASSERT_EQ(reference.known(), KnownPattern::none);
    for (int round = 0; round < 6'000; ++round) {
      const std::string text = random_text(random);
      ASSERT_EQ(words_of(fast, text), words_of(reference, text)) << Json(text) << " by " << expression;
    }
  }
}

TEST(WordMatcher, EveryCharacterIsOfTheClassThatOnigurumaIsTold) {
  const SplitPattern fast = SplitPattern::regex(kQwen2Pattern);
  const SplitPattern reference = SplitPattern::regex(kQwen2Pattern, SplitPattern::Engine::reference);
  // After the last letters, every 97th is enough.
  for (char32_t point = 1; point < 0x110000; point += point < 0x33000 ? 1 : 97) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text = "a";
    append_utf8(point, text);
    text += "1";
    append_utf8(point, text);
    text += " b";
    ASSERT_EQ(words_of(fast, text), words_of(reference, text)) << static_cast<unsigned>(point);
  }
}

TEST(SplitPattern, CategoriesAreThoseOfTokenizers) {
  // Letters since Unicode 15, whatever version this system's Oniguruma has.
  const std::string text = "a\U00031350\U0002EBF0.";
  EXPECT_EQ(words_of(SplitPattern::regex(R"(\p{L}+)"), text).front(), "a\U00031350\U0002EBF0");
  EXPECT_EQ(words_of(SplitPattern::regex(R"([\p{Lo}]+)"), text)[1], "\U00031350\U0002EBF0");
  EXPECT_EQ(words_of(SplitPattern::regex(R"([^\P{L}]+)"), text).front(), "a\U00031350\U0002EBF0");
  EXPECT_EQ(words_of(SplitPattern::regex(R"(\p{^L}+)"), text).back(), ".");
  EXPECT_EQ(words_of(SplitPattern::regex(R"(\\p\{L\})"), R"(x\p{L})").back(), R"(\p{L})");
}

// Each follows the Unicode version of its part of `tokenizers`: Digits have a later one than patterns.
TEST(CharClasses, AreThoseOfTheirParts) {
  const std::uint8_t* classes = char_classes();
  EXPECT_EQ(classes[U'5'], kNumber | kNumericChar | kWordChar);
  EXPECT_EQ(classes[0x11DE0] & (kNumber | kNumericChar), kNumericChar) << "a digit of Unicode 17";
  EXPECT_EQ(classes[0x31350], kLetter | kWordChar) << "a letter of Unicode 15";
  EXPECT_EQ(classes[U'_'], kWordChar | kPunctuationChar);
  EXPECT_EQ(classes[0x85], kWhiteSpace);
  EXPECT_EQ(classes[0x180E], 0) << "no white space since Unicode 6.3";
}

TEST(Nfc, IsThatOfTokenizers) {
  formats::JsonLines lines(golden("nfc.jsonl").string());
  ASSERT_TRUE(lines.next()->contains("tokenizers")) << "the first line tells how the file was made";
  int changed = 0;
  while (const auto line = lines.next()) {
    const auto text = (*line)["text"].get<std::string>();
    const auto wanted = (*line)["nfc"].get<std::string>();
    EXPECT_EQ(nfc(text), wanted) << *line;
    EXPECT_EQ(nfc(wanted), wanted) << *line;
    EXPECT_TRUE(text == wanted || !is_plainly_nfc(text)) << *line;
    changed += static_cast<int>(text != wanted);
  }
  EXPECT_GT(changed, 300);
}

TEST(Nfc, PlainTextIsItsOwn) {
  for (const std::string text : {"", "plain", "Größe, élève", "数学の問題", "\u0378", "🙂"}) {
    EXPECT_TRUE(is_plainly_nfc(text)) << text;
    EXPECT_EQ(nfc(text), text);
  }
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text;
    append_utf8(point, text);
    ASSERT_TRUE(!is_plainly_nfc(text) || nfc(text) == text) << static_cast<unsigned>(point);
  }
}

// This thread's own processor time, without other work on the machine.
double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_for(const Tokenizer& tokenizer, const std::string& text) {
  const double start = processor_seconds();
  tokenizer.encode(text);
  return processor_seconds() - start;
}

std::string repeated(const std::string& unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

// At sixteen times the length, n log n takes about 20 times as long, n^2 takes 256 times. The best of ten
// measurements counts: other work on the machine can disturb one, but not all.
void expect_not_quadratic(const Tokenizer& tokenizer, const std::string& name, const std::string& unit) {
  double small = 1e9;
  double large = 1e9;
  for (int round = 0; round < 10 && (round < 2 || large > 80 * small + 0.005); ++round) {
    small = std::min(small, seconds_for(tokenizer, repeated(unit, 4'000)));
    large = std::min(large, seconds_for(tokenizer, repeated(unit, 64'000)));
  }
  EXPECT_LT(large, 80 * small + 0.005) << name << " " << Json(unit);
}

TEST(Tokenizer, NothingIsQuadratic) {
  for (const char* name : {"trained", "qwen", "llama2", "llama3", "smollm", "meta", "flags", "splits"}) {
    const Tokenizer tokenizer(golden(name));
    for (const char* unit : {"a", " ", "1", "🙂", "\n", "\u0301", "<", "  <k2>", "e\u0301", "an", "'"})
      expect_not_quadratic(tokenizer, name, unit);
  }
}

// Each space is a token that includes all white space after it, in which the next token is.
TEST(Tokenizer, WhiteSpaceIsLookedThroughOnce) {
  Json file = golden_json("trained");
  for (const char* side : {"lstrip", "rstrip"}) {
    Json& token = file["added_tokens"][0];
    token["content"] = " ";
    for (const char* flag : {"lstrip", "rstrip"}) token[flag] = std::string(flag) == side;
    expect_not_quadratic(Tokenizer::from_json(file.dump(), "test"), side, " ");
  }
}

// The example of the library's documentation. Every piece of the text is a token, so that the words are
// visible.
TEST(PreTokenizer, EachBehaviourOfASplit) {
  const std::string text = "the-final--countdown";
  Json vocabulary = Json::object();
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (std::size_t size = 1; begin + size <= text.size(); ++size) {
      if (!vocabulary.contains(text.substr(begin, size)))
        vocabulary[text.substr(begin, size)] = vocabulary.size();
    }
  }
  const auto words = [&](const char* behavior, bool invert) {
    const Json split = {
        {"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}};
    const Json model = {
        {"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}, {"ignore_merges", true}};
    const Json file = {{"pre_tokenizer", split}, {"model", model}};
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "test");
    return tokenizer.decode(tokenizer.encode(text));  // with a space between words
  };
  EXPECT_EQ(words("Removed", false), "the final countdown");
  EXPECT_EQ(words("Isolated", false), "the - final - - countdown");
  EXPECT_EQ(words("MergedWithPrevious", false), "the- final- - countdown");
  EXPECT_EQ(words("MergedWithNext", false), "the -final - -countdown");
  EXPECT_EQ(words("Contiguous", false), "the - final -- countdown");
  EXPECT_EQ(words("Removed", true), "- - -");
}

TEST(Normalizer, TextGrowsWithinBounds) {
  Json file = golden_json("trained");
  const Json step = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {step, step, step}}};
  file["added_tokens"].clear();
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "test");
  EXPECT_THAT(error_of([&] { tokenizer.encode("banana"); }),
              HasSubstr("normalizer: expected text that grows 16-fold"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("bcd")), "bcd");
}

}  // namespace
}  // namespace routeopd::tokenizer
