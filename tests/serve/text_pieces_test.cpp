// Text that comes in pieces, names of tokens, and their values as JSON.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "routeopd/serve/answer_json.h"
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

TEST(TokenValues, AreTheDoublesThatEqualThemAndFinite) {
  const TokenNames names(nullptr, false);
  const float none = -std::numeric_limits<float>::infinity(), unknown = std::nanf("");
  const std::vector<TokenRow> rows = {{.id = 1, .logprob = -0.1F},
                                      {.id = 2, .logprob = none},
                                      {.id = 3, .logprob = unknown},
                                      {.id = 4},
                                      {.id = 5, .has_value = false}};
  const OrderedJson values = completion_logprobs(rows, names, {}, 0, 0)["token_logprobs"];
  EXPECT_EQ(values.dump(), "[-0.10000000149011612,-9999.0,-9999.0,0.0,null]");
  EXPECT_EQ(Json::parse(values.dump())[0].get<double>(), static_cast<double>(-0.1F));
}

TEST(TokenValues, NamesThatReadTheSameShareAKeyAndKeepTheLargerValue) {
  const std::vector<std::int32_t> top = {195, 33, 196};  // parts of characters have no name
  const std::vector<float> logits = {-2, -3, -1};
  const TokenRow row{.id = 46, .logprob = -4, .top_ids = top, .top_logits = logits};
  EXPECT_EQ(completion_logprobs({&row, 1}, {&lab_tokenizer(), false}, {}, 3, 0)["top_logprobs"].dump(),
            R"([{".":-4.0,"":-1.0,"!":-3.0}])");
}

TEST(AnswerJson, KeepsTheOrderOfKeysAndReplacesWhatIsNotUtf8) {
  EXPECT_EQ(json_text({{"z", "\xff\n\x01é"}, {"a", 0.5}}), "{\"z\":\"\xEF\xBF\xBD\\n\\u0001é\",\"a\":0.5}");
}

}  // namespace
}  // namespace routeopd::serve
