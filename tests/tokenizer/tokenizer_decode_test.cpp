// Decoding id by id against decoding at once, for every kind of decoder.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "routeopd/base/fields.h"
#include "routeopd/base/utf8.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "tokenizer/golden_tokenizers.h"

namespace routeopd::tokenizer {
namespace {

using ::testing::HasSubstr;

Tokenizer parsed(const Json& file) {
  return Tokenizer::from_json(file.dump(), "test");
}

Tokenizer with_decoder(const std::string& name, const Json& decoder) {
  Json file = golden_json(name);
  file["decoder"] = decoder;
  return parsed(file);
}

Json in_order(std::initializer_list<Json> steps) {
  return {{"type", "Sequence"}, {"decoders", Json(Json::array_t(steps))}};
}

const Json kByteLevel = {{"type", "ByteLevel"}};
const Json kByteFallback = {{"type", "ByteFallback"}};
const Json kFuse = {{"type", "Fuse"}};

Json strip(int start, int stop) {
  return {{"type", "Strip"}, {"content", " "}, {"start", start}, {"stop", stop}};
}

Json replace(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

Json metaspace(const std::string& scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
}

// Random ids, many of them among the first 300, which are bytes and single characters.
std::vector<std::int32_t> random_ids(const Tokenizer& tokenizer, std::mt19937& random) {
  std::vector<std::int32_t> ids(random() % 24);
  for (std::int32_t& id : ids) {
    const auto below = static_cast<unsigned>(tokenizer.real_ids());
    id = static_cast<std::int32_t>(random() % (random() % 2 == 0 ? std::min(below, 300U) : below));
  }
  return ids;
}

TEST(StreamDecoder, PiecesAreTheWholeText) {
  const std::vector<Json> decoders = {kByteLevel,
                                      nullptr,
                                      kFuse,
                                      kByteFallback,
                                      metaspace("always"),
                                      metaspace("never"),
                                      in_order({}),
                                      in_order({kByteFallback, kFuse, strip(1, 0)}),
                                      in_order({kByteFallback, strip(0, 2)}),
                                      in_order({kByteFallback, kFuse, strip(2, 3)}),
                                      in_order({replace("▁", " "), kByteFallback, kFuse, strip(1, 0)}),
                                      in_order({kFuse, replace("aba", "▁"), metaspace("first")}),
                                      in_order({kFuse, kByteFallback}),
                                      in_order({kFuse, kByteLevel, replace("é", "e")}),
                                      in_order({kByteLevel, strip(1, 1), replace("ab", "ba"), kFuse}),
                                      in_order({replace("▁", "<0x0A>"), kByteFallback})};
  std::mt19937 random(5);
  int texts = 0;
  for (const char* name : {"llama2", "meta", "qwen", "partial"}) {
    for (const Json& decoder : decoders) {
      const Tokenizer tokenizer = with_decoder(name, decoder);
      for (int round = 0; round < 150; ++round) {
        const std::vector<std::int32_t> ids = random_ids(tokenizer, random);
        for (const bool skip : {false, true}) {
          StreamDecoder stream(tokenizer, skip);
          std::string text;
          for (const std::int32_t id : ids) {
            const std::string piece = stream.add(id);
            ASSERT_EQ(find_invalid_utf8(piece), std::string::npos) << "half a character";
            text += piece;
          }
          text += stream.finish();
          ASSERT_EQ(text, tokenizer.decode(ids, skip)) << name << " " << decoder << " " << Json(ids);
          texts += static_cast<int>(!text.empty());
        }
      }
    }
  }
  EXPECT_GT(texts, 10'000);
}

// What add() returns for each id, and finish() at the end.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  StreamDecoder stream(tokenizer);
  std::vector<std::string> pieces;
  for (const std::string& token : tokens) pieces.push_back(stream.add(tokenizer.id_of(token)));
  pieces.push_back(stream.finish());
  return pieces;
}

TEST(StreamDecoder, GivesACharacterWithItsLastByte) {
  const Tokenizer tokenizer = with_decoder("qwen", kByteLevel);
  EXPECT_THAT(pieces_of(tokenizer, {"a", "Ã", "©", "Ã", "b", "ð", "Ł"}),
              ::testing::ElementsAre("a", "", "é", "", "\uFFFDb", "", "", "\uFFFD"));
}

TEST(StreamDecoder, GivesARunOfBytesWhenItIsSure) {
  const Tokenizer tokenizer = with_decoder("llama2", kByteFallback);
  EXPECT_THAT(pieces_of(tokenizer, {"<0xC3>", "<0xA9>", "a", "<0xC3>", "<0x41>", "<0x42>", "b", "<0xC3>"}),
              ::testing::ElementsAre("", "", "éa", "", "\uFFFD\uFFFD", "\uFFFD", "b", "", "\uFFFD"))
      << "a run that is broken stays so, and is given out at once";
}

// The number parser of `tokenizers` accepts a sign.
TEST(Decoder, AByteTokenMayHaveASign) {
  const Json vocabulary = {{"<0x+A>", 0}, {"<0x+a>", 1}, {"<0x-A>", 2},
                           {"<0xA+>", 3}, {"<0x7a>", 4}, {"<0x7>", 5}};
  const Json file = {{"decoder", kByteFallback},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  EXPECT_EQ(parsed(file).decode(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}), "\n\n<0x-A><0xA+>z<0x7>");
}

TEST(StreamDecoder, HoldsNoMoreThanItMust) {
  EXPECT_THAT(pieces_of(with_decoder("llama2", in_order({replace("▁", " "), kFuse, strip(1, 0)})),
                        {"▁", "▁", "a", "▁"}),
              ::testing::ElementsAre("", " ", "a", " ", ""));
  EXPECT_THAT(pieces_of(with_decoder("llama2", in_order({replace("▁", " "), kFuse, strip(0, 1)})),
                        {"a", "▁", "▁", "b", "▁"}),
              ::testing::ElementsAre("a", "", " ", " b", "", ""));
  EXPECT_THAT(
      pieces_of(with_decoder("llama2", in_order({kFuse, replace("aab", "-")})), {"a", "a", "a", "b", "a"}),
      ::testing::ElementsAre("", "", "a", "-", "", "a"));
}

TEST(StreamDecoder, StripsEachTokenByItself) {
  const Tokenizer tokenizer = with_decoder("llama2", in_order({replace("▁", " "), strip(1, 2)}));
  EXPECT_THAT(pieces_of(tokenizer, {"▁▁▁▁", "▁a", "▁▁", "o▁", "▁"}),
              ::testing::ElementsAre(" ", "a", "", "o", "", ""));
}

TEST(StreamDecoder, AnIdThatIsNoneLeavesItAsItWas) {
  const Tokenizer tokenizer = with_decoder("qwen", kByteLevel);
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.add(tokenizer.id_of("Ã")), "");
  EXPECT_THAT(error_of([&] { stream.add(1 << 20); }), HasSubstr("id: expected one of the tokenizer's"));
  EXPECT_EQ(stream.add(tokenizer.id_of("©")), "é");
}

// For random ids if the decoder is ByteLevel; for texts if it is byte fallback, which turns each byte of a
// broken run into U+FFFD. What a decoder drops before a text is a space.
TEST(TokenBytes, AreTheTextOneBehindAnother) {
  std::mt19937 random(5);
  const auto expect_text = [](const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
    std::string bytes;
    int parts = 0;
    for (const std::int32_t id : ids) {
      bytes += tokenizer.bytes_of(id);
      parts += find_invalid_utf8(tokenizer.bytes_of(id)) == std::string_view::npos ? 0 : 1;
    }
    const std::string text = tokenizer.decode(ids), shown = lossy_utf8(bytes);
    EXPECT_TRUE(shown == text || shown == " " + text) << shown << " is not " << text;
    return parts;  // tokens that are parts of characters
  };
  for (const char* name : {"qwen", "llama3", "smollm"}) {
    const Tokenizer tokenizer = parsed(golden_json(name));
    int parts = 0;
    for (int i = 0; i < 500; ++i) parts += expect_text(tokenizer, random_ids(tokenizer, random));
    EXPECT_GT(parts, 100);
    EXPECT_EQ(tokenizer.bytes_of(tokenizer.real_ids()), "");
    EXPECT_EQ(tokenizer.bytes_of(-1), "");
  }
  const Tokenizer fallback = parsed(golden_json("llama2"));
  int parts = 0;
  for (const char* text : {"the cat", " the  cat\n", "x😀 y", "<0x41> 東京\t</s>"})
    parts += expect_text(fallback, fallback.encode(text));
  EXPECT_GE(parts, 4) << "the bytes of a character that has no token";
}

}  // namespace
}  // namespace routeopd::tokenizer
