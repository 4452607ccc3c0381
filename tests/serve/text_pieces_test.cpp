// Text that comes in pieces, names of tokens, and JSON as it is written.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "routeopd/serve/json_text.h"
#include "routeopd/serve/text_pieces.h"
#include "routeopd/serve/token_values.h"
#include "serve_testing.h"

namespace routeopd::serve {
namespace {

using ::testing::ElementsAre;

// The pieces of a text of which each token comes with `end` at the last.
std::vector<std::string> pieces_of(const std::vector<std::int32_t>& ids, const TextRules& rules, TokenEnd end,
                                   std::string* stop = nullptr) {
  TextPieces pieces(lab_tokenizer(), {}, rules);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < ids.size(); ++i)
    all.push_back(pieces.add(ids[i], i + 1 < ids.size() ? TokenEnd::kNone : end));
  if (stop != nullptr) *stop = pieces.stop_string();
  return all;
}

// " First there are 12."
const std::vector<std::int32_t> kFirst = {467, 468, 377, 270, 46};

TEST(TextPieces, WithoutStopStringsEachTokenIsAPiece) {
  EXPECT_THAT(pieces_of(kFirst, {}, TokenEnd::kLength), ElementsAre(" First", " there", " are", " 12", "."));
}

TEST(TextPieces, HoldsBackWhatMayBeginAStopStringAndNothingElse) {
  // " are" may go on to be " are 13"; it turns out not to be.
  EXPECT_THAT(pieces_of(kFirst, {.stop = {" are 13"}}, TokenEnd::kLength),
              ElementsAre(" First", " there", "", " are 12", "."));
  // The last character alone is held where only it may begin one.
  EXPECT_THAT(pieces_of(kFirst, {.stop = {"ex"}}, TokenEnd::kLength),
              ElementsAre(" First", " ther", "e ar", "e 12", "."));
}

TEST(TextPieces, CutsBeforeOrAfterTheStopString) {
  std::string stop;
  const std::vector<std::int32_t> ids = {467, 468, 377, 270};
  EXPECT_THAT(pieces_of(ids, {.stop = {"zz", "re 1"}}, TokenEnd::kStop, &stop),
              ElementsAre(" First", " the", "re a", ""));
  EXPECT_EQ(stop, "re 1");
  EXPECT_THAT(pieces_of(ids, {.stop = {"zz", "re 1"}, .include_stop = true}, TokenEnd::kStop),
              ElementsAre(" First", " the", "re a", "re 1"));
}

TEST(TextPieces, TheEarliestOfSeveralStopStringsCounts) {
  std::string stop;
  const std::vector<std::int32_t> ids = {467, 468, 377};
  const std::vector<std::string> cut = pieces_of(ids, {.stop = {"are", " a"}}, TokenEnd::kStop, &stop);
  EXPECT_EQ(cut.back(), "");
  EXPECT_EQ(stop, " a");
  EXPECT_EQ(pieces_of(ids, {.stop = {"are", " a"}, .include_stop = true}, TokenEnd::kStop).back(), " a");
}

TEST(TextPieces, AnEndOfSequenceIsNoText) {
  EXPECT_THAT(pieces_of({467, 492}, {.skip_special = false}, TokenEnd::kEos), ElementsAre(" First", ""));
  EXPECT_THAT(pieces_of({467, 492, 46}, {.skip_special = false}, TokenEnd::kLength),
              ElementsAre(" First", "<|endoftext|>", "."));
  EXPECT_THAT(pieces_of({467, 492, 46}, {}, TokenEnd::kLength), ElementsAre(" First", "", "."));
  EXPECT_THAT(pieces_of({467, 492}, {.include_stop = true, .skip_special = false}, TokenEnd::kEos),
              ElementsAre(" First", "<|endoftext|>"));
}

// The laboratory's ids below 256 are bytes. "é" is c3 a9.
TEST(TextPieces, ACharacterComesWithItsLastByte) {
  const std::vector<std::int32_t> ids = lab_tokenizer().encode("é!");
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_THAT(pieces_of(ids, {}, TokenEnd::kLength), ElementsAre("", "é", "!"));
  EXPECT_THAT(pieces_of({ids[0]}, {}, TokenEnd::kLength), ElementsAre("\xEF\xBF\xBD"));
  // The prompt may end inside a character.
  TextPieces pieces(lab_tokenizer(), std::span(ids).first(1), TextRules{});
  EXPECT_EQ(pieces.add(ids[1], TokenEnd::kLength), "é");
}

TEST(TokenNames, APartOfACharacterHasNoNameAndItsLastByteHasTheWhole) {
  const std::vector<std::int32_t> ids = lab_tokenizer().encode("a€");
  ASSERT_EQ(ids.size(), 4U);
  const TokenNames names(&lab_tokenizer(), false);
  const std::span all(ids);
  EXPECT_EQ(names.name(ids[0], {}), "a");
  EXPECT_EQ(names.name(ids[1], all.first(1)), "");
  EXPECT_EQ(names.name(ids[2], all.first(2)), "");
  EXPECT_EQ(names.name(ids[3], all.first(3)), "€");
  EXPECT_EQ(names.name(492, {}), "<|endoftext|>");
  EXPECT_EQ(TokenNames(&lab_tokenizer(), true).name(33, {}), "token_id:33");
  EXPECT_EQ(TokenNames(nullptr, false).name(33, {}), "token_id:33");
}

TEST(JsonText, WritesWhatAParserReadsBack) {
  JsonText json;
  json.open('{').key("a").open('[').integer(-3).number(0.5F).number(0).null().boolean(true).close(']');
  json.key("t\"").text("q\"b\\n\n\t\x01é").key("ids").ids(std::vector<std::int32_t>{1, 2});
  json.key("e").open('{').close('}').key("low").number(-std::numeric_limits<float>::infinity()).close('}');
  const Json expected = {{"a", {-3, 0.5, 0.0, nullptr, true}},
                         {"t\"", "q\"b\\n\n\t\x01é"},
                         {"ids", {1, 2}},
                         {"e", Json::object()},
                         {"low", -9999.0}};
  EXPECT_EQ(Json::parse(json.str()), expected);
  JsonText zero;
  EXPECT_EQ(zero.number(0).str(), "0.0");
  // The double that equals the float, to the last digit.
  JsonText tenth;
  EXPECT_EQ(Json::parse(tenth.number(0.1F).str()).get<double>(), static_cast<double>(0.1F));
}

}  // namespace
}  // namespace routeopd::serve
