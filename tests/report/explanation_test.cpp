// How an explanation is shown, without any model: text, page and JSON of one that was made up.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "routeopd/base/utf8.h"
#include "routeopd/report/explanation_page.h"
#include "routeopd/report/mass_colors.h"

namespace routeopd::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAttack = "</script><script>alert(1)</script>\" onclick='x'&<!--\x1b]0;t\x07";

// Three tokens: a routed one, one that ends in a line feed and is not routed, and half a character.
Explanation example() {
  ExplainedToken routed;
  routed.id = 1;
  routed.pi_student = 0.3;
  routed.pi_teacher = 0.01;
  routed.mass = 0.45;
  routed.mass_after = 0.375;
  routed.concentration = 0.75;
  routed.budget = 0.35;
  routed.n_excess = 1;
  routed.n_deficit = 2;
  routed.student_mass = 0.9;
  routed.teacher_mass = 0.99;
  routed.student_mass_after = 0.91;
  routed.support = 3;
  routed.ids = {{1, 0.5, 0.05, 1, 0, -2.3, -0.17, 0.4},
                {2, 0.25, 0.55, 0, 0.75, 0.8, 0.16, 0.3},
                {3, 0.25, 0.4, 0, 0.25, 0.47, 0.1, 0.3}};
  routed.pairs = {{1, 2, 0.33, 0.75, 1, 0.5, 0.25, 0.45, 0.28}, {1, 3, 0.27, 0.25, 0, 0.5, 0.25, 0.46, 0.27}};
  routed.drawn = {routed.pairs[0], {1, 9, 0.33, 0, 1, 0.5, {}, {}, {}}};
  ExplainedToken agreed;
  agreed.id = 2;
  agreed.not_routed = "the mass 1e-09 is not above delta_m = 1e-06";
  ExplainedToken half;
  half.id = 3;
  half.mass = 0.03;
  half.not_routed = "made up";
  Explanation explanation;
  explanation.student = "runs/<student>";
  explanation.teacher = "teacher";
  explanation.prompt = kAttack;
  explanation.prompt_ids = {1, 2, 3, 4, 5};
  explanation.response = "x\n\xf0";
  explanation.finish = "stop";
  explanation.seed = 7;
  explanation.objective = {{"arm", "routeopd"},
                           {"k", 32},
                           {"m", 2},
                           {"pairs", "sample"},
                           {"budget", "adaptive"},
                           {"destination", "teacher_deficit"}};
  explanation.tokens = {routed, agreed, half};
  explanation.texts = {{1, kAttack}, {2, "x\n"}, {3, "\xf0\x9f"}};
  return explanation;
}

// No byte below a space but line feeds, and nothing that is not UTF-8.
void expect_harmless(const std::string& text) {
  EXPECT_EQ(find_invalid_utf8(text), std::string::npos);
  for (const char c : text)
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
}

TEST(ExplanationText, WithoutColoursEveryTokenIsARowAndNothingActs) {
  const std::string text = explanation_text(example(), false);
  expect_harmless(text);
  EXPECT_THAT(text, HasSubstr("\\x1b]0;t\\x07"));
  EXPECT_THAT(text, HasSubstr("x\\n\n\\xf0\\x9f\n")) << "a line feed is shown and obeyed";
  EXPECT_THAT(text, HasSubstr("2  \"\\xf0\\x9f\""));
  EXPECT_THAT(text, HasSubstr("response of 3 (ended by the student), 1 of them routed, mean mass 0.1600"));
}

// Both prompts are shown where they differ, as harmlessly as all else.
TEST(ExplanationText, ATeachersOwnPromptIsShownBesideTheStudents) {
  Explanation explanation = example();
  EXPECT_THAT(explanation_text(explanation, false), Not(HasSubstr("The teacher reads")));
  EXPECT_FALSE(explanation_json(explanation).contains("teacher_prompt"));
  EXPECT_THAT(explanation_html(explanation), HasSubstr("<summary>Prompt</summary>"));
  explanation.teacher_prompt = std::string("a hint\n") + kAttack;
  explanation.teacher_prompt_ids = {8, 9, 10, 11, 12, 13, 14};
  const std::string text = explanation_text(explanation, false);
  expect_harmless(text);
  EXPECT_THAT(text, HasSubstr("prompt of 5 tokens, the teacher's of 7, response of 3"));
  EXPECT_THAT(text, HasSubstr("The student reads:\n</script>"));
  EXPECT_THAT(text, HasSubstr("The teacher reads:\na hint\\n\n</script>"));
  const std::string page = explanation_html(explanation);
  expect_harmless(page);
  EXPECT_THAT(page, HasSubstr("<summary>The student&#39;s prompt</summary>"));
  EXPECT_THAT(page, HasSubstr("<summary>The teacher&#39;s prompt</summary><div class=\"prompt\">a hint"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  const Json json = explanation_json(explanation);
  EXPECT_EQ(json["teacher_prompt_ids"], Json(explanation.teacher_prompt_ids));
  EXPECT_EQ(json["teacher_prompt_tokens"], 7);
  EXPECT_EQ(json["prompt_tokens"], 5);
  EXPECT_THAT(json["teacher_prompt"].get<std::string>(), HasSubstr("a hint"));
}

TEST(ExplanationText, ColoursAreTheLevelsAndOnlyOurs) {
  const std::string text = explanation_text(example(), true);
  std::string plain;
  const std::regex ours("\x1b\\[(48;5;(\\d+);38;5;(16|231)|0)m");
  std::regex_replace(std::back_inserter(plain), text.begin(), text.end(), ours, "");
  expect_harmless(plain);
  EXPECT_NE(plain, text);
  EXPECT_THAT(text, HasSubstr(fmt::format("\x1b[48;5;{};", kMassLevels[4].terminal))) << "0.45";
  EXPECT_THAT(text,
              HasSubstr(fmt::format("\x1b[48;5;{};38;5;231m\\xf0\\x9f\x1b[0m", kMassLevels[0].terminal)));
  EXPECT_THAT(plain, HasSubstr("mass of the state at which a token was written:  < 0.02 "));
}

TEST(ExplanationText, TheChosenTokenHasItsTables) {
  Explanation explanation = example();
  const std::string text = explanation_text(explanation, false);
  for (const char* words :
       {"At token 0 ", "concentration c", "0.750", "budget B", "0.350", "2 of 2 pairs", "100.00 % of",
        "M 0.4500 → 0.3750", "90.00 % → 91.00 %", "0.5000 → 0.4500", "outside U", "+0.330", "seed 7"})
    EXPECT_THAT(text, HasSubstr(words));
  explanation.chosen = 1;
  const std::string other = explanation_text(explanation, false);
  EXPECT_THAT(other, HasSubstr("not above delta_m"));
  EXPECT_THAT(other, Not(HasSubstr("From → to")));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ExplanationHtml, WhatAModelWroteIsNeverMarkup) {
  const std::string page = explanation_html(example());
  expect_harmless(page);
  EXPECT_EQ(count(page, "<script"), 1U);
  EXPECT_EQ(count(page, "</script"), 1U);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)"));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, Not(HasSubstr("runs/<student>")));
  const std::regex tag(
      "<a class=\"t m\\d\" href=\"#t\\d+\" data-mass=\"[\\d.]+\" title=\"[^\"<>]*\" "
      "aria-label=\"[^\"<>]*\">");
  EXPECT_EQ(std::distance(std::sregex_iterator(page.begin(), page.end(), tag), std::sregex_iterator()), 3);
}

TEST(ExplanationHtml, RefersToNothingOutsideItself) {
  const std::string page = explanation_html(example());
  for (const char* words : {"http:", "https:", "src=", "url(", "@import", "<link", "<img"})
    EXPECT_THAT(page, Not(HasSubstr(words)));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
}

TEST(ExplanationHtml, EveryTokenHasAPanelAndTheChosenStandsLast) {
  Explanation explanation = example();
  explanation.chosen = 1;
  const std::string page = explanation_html(explanation);
  for (const char* id : {"id=\"t0\"", "id=\"t1\"", "id=\"t2\""}) EXPECT_EQ(count(page, id), 1U);
  EXPECT_GT(page.find("<section class=\"panel chosen\" id=\"t1\">"), page.find("id=\"t2\""));
  EXPECT_EQ(count(page, "panel chosen\""), 1U);
  EXPECT_THAT(page, HasSubstr("<a class=\"t m5\" href=\"#t0\""));
  EXPECT_THAT(page, HasSubstr("x\\n</a><br>"));
}

TEST(ExplanationJson, HoldsEverythingAndNumbersReadBack) {
  const Explanation explanation = example();
  const Json json = Json::parse(explanation_json(explanation).dump());
  EXPECT_EQ(json["prompt"], kAttack);
  EXPECT_EQ(json["tokens"].size(), 3U);
  const Json& token = json["tokens"][0];
  EXPECT_EQ(token["mass"].get<double>(), explanation.tokens[0].mass);
  EXPECT_EQ(token["ids"][0]["p_after"].get<double>(), 0.4);
  EXPECT_EQ(token["pairs"][0]["isolated"]["source"], Json::array({0.5, 0.45}));
  EXPECT_EQ(token["drawn"][1]["isolated"]["destination"], Json::array({nullptr, nullptr}));
  EXPECT_TRUE(token["routed"]);
  EXPECT_FALSE(token.contains("bytes"));
  EXPECT_EQ(json["tokens"][1]["not_routed"], explanation.tokens[1].not_routed);
  EXPECT_EQ(json["tokens"][2]["bytes"], "f09f");
  EXPECT_EQ(json["tokens"][2]["text"], "\ufffd");
}

TEST(Explanation, TheHeadingTellsWhatMoves) {
  Explanation explanation = example();
  EXPECT_THAT(explanation_text(explanation, false),
              HasSubstr("arm routeopd, k = 32, m = 2, budget adaptive, to teacher_deficit, seed 7\n"));
  explanation.objective["pairs"] = "exact";
  EXPECT_THAT(explanation_text(explanation, false), HasSubstr("k = 32, all pairs (exact), budget adaptive"));
}

TEST(Explanation, AnIdWithoutATokenIsShownByItsNumber) {
  Explanation explanation = example();
  explanation.texts[2] = "";
  EXPECT_THAT(explanation_text(explanation, false), HasSubstr("[id 2]"));
  EXPECT_THAT(explanation_html(explanation), HasSubstr(">[id 2]</a>"));
  EXPECT_THAT(explanation_text(explanation, false), HasSubstr("1  id 2 "));
}

TEST(Explanation, NamesItsIdsAndItsHeaviestToken) {
  Explanation explanation = example();
  EXPECT_EQ(mentioned_ids(explanation.tokens), (std::vector<std::int32_t>{1, 2, 3, 9}));
  EXPECT_EQ(heaviest(explanation.tokens), 0U);
  explanation.tokens[2].mass = 0.46;
  EXPECT_EQ(heaviest(explanation.tokens), 2U);
  explanation.tokens[1].mass = 0.46;
  EXPECT_EQ(heaviest(explanation.tokens), 1U) << "the first among equals";
}

}  // namespace
}  // namespace routeopd::report
