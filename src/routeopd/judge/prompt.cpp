// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/prompt.h"

#include <algorithm>

#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::judge {
namespace {

constexpr const char* kSystem =
    "You are a careful judge of mathematical solutions. Identify the first error that causes the final "
    "answer "
    "to be wrong. Judge only the response content; do not infer which model or method produced it.";

constexpr const char* kLabelsText =
    "Choose exactly one label:\n"
    "reasoning_error: the first decisive error is conceptual or logical, including a wrong method, invalid "
    "inference, or unjustified transformation.\n"
    "arithmetic_error: the approach is otherwise correct and the first decisive error is a local "
    "calculation, algebra, sign, or simplification mistake.\n"
    "premature_stop: the response stops before completing the required reasoning, with no earlier reasoning "
    "or arithmetic error.";

// The paper gives no words for adjudication; these are its paragraph on boundary cases as instructions.
constexpr const char* kPrecedence =
    "Rules:\n"
    "A local calculation error is an arithmetic_error only when the preceding strategy remains valid; if the "
    "calculation follows from an invalid setup, the earlier setup makes it a reasoning_error.\n"
    "A short response is a premature_stop only when it ends before a necessary step and contains no earlier "
    "decisive error. Merely concise but complete reasoning is not premature.\n"
    "Surface form does not override mathematical causality.";

constexpr const char* kForm =
    R"(Return only JSON in the form {"label": "<one label>", "rationale": "<one short sentence>"}.)";

std::string case_text(const JudgeCase& asked) {
  return fmt::format("Problem: {}\nReference answer: {}\nModel response: {}\nExtracted answer: {}",
                     asked.problem, asked.reference, asked.response, asked.extracted);
}

Json messages(const std::string& user) {
  return Json::array({{{"role", "system"}, {"content", kSystem}}, {{"role", "user"}, {"content", user}}});
}

constexpr std::size_t kMostText = 64 << 10U;
constexpr std::size_t kMostObject = 8 << 10U;
constexpr int kMostBraces = 64;

// The object that begins at `open`, up to the first '}'
// outside a string; empty where a '{' or the end comes first.
std::string_view flat_object(std::string_view text, std::size_t open) {
  bool in_string = false;
  const std::size_t end = std::min(text.size(), open + kMostObject);
  for (std::size_t i = open + 1; i < end; ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '{') {
      return {};
    } else if (c == '}') {
      return text.substr(open, i - open + 1);
    }
  }
  return {};
}

// Each backslash that begins none of \" \\ \/ is doubled, each control character becomes a space.
std::string forgiven(std::string_view object) {
  std::string out;
  for (std::size_t i = 0; i < object.size(); ++i) {
    const char c = object[i];
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    if (c != '\\' || i + 1 == object.size()) continue;
    const char next = object[i + 1];
    if (next == '"' || next == '\\' || next == '/') {
      out += next;
      ++i;
    } else {
      out += '\\';
    }
  }
  return out;
}

std::optional<Json> parsed(std::string_view object) {
  for (const std::string& text : {std::string(object), forgiven(object)}) {
    try {
      return formats::parse_json_object(text, "the judge's answer");
    } catch (const UserError&) {
      continue;
    }
  }
  return std::nullopt;
}

// At most `bytes` of it, whole characters, one line.
std::string cut(std::string text, std::size_t bytes) {
  text.resize(utf8_head(text, bytes).size());
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return text;
}

}  // namespace

Json pass_messages(const JudgeCase& asked) {
  return messages(fmt::format("{}\n\n{}\n\n{}", case_text(asked), kLabelsText, kForm));
}

Json adjudication_messages(const JudgeCase& asked, const Verdict& one, const Verdict& other) {
  ROUTEOPD_INVARIANT(one.label != other.label);
  const bool in_order = judge_name_of(one.label) < judge_name_of(other.label);
  const Verdict& first = in_order ? one : other;
  const Verdict& second = in_order ? other : one;
  const std::string candidates =
      fmt::format("Two judges disagree. Candidates:\n{}: {}\n{}: {}\nDecide between these two labels.",
                  judge_name_of(first.label), first.rationale, judge_name_of(second.label), second.rationale);
  return messages(fmt::format("{}\n\n{}\n\n{}\n\n{}\n\n{}", case_text(asked), kLabelsText, kPrecedence,
                              candidates, kForm));
}

std::optional<Verdict> read_verdict(std::string_view text) {
  if (text.size() > kMostText) text.remove_prefix(text.size() - kMostText);
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = text.rfind(kThought); end != std::string_view::npos)
    text.remove_prefix(end + kThought.size());
  std::optional<Verdict> found;  // the last one in the text
  std::size_t open = text.rfind('{');
  for (int tried = 0; open != std::string_view::npos && tried < kMostBraces; ++tried) {
    const std::string_view object = flat_object(text, open);
    if (const auto value = object.empty() ? std::nullopt : parsed(object)) {
      const Json& words = formats::value_or_null(*value, "label");
      const Json& why = formats::value_or_null(*value, "rationale");
      const auto label = words.is_string() ? label_of_judge(words.get<std::string>()) : std::nullopt;
      if (label && found && found->label != *label) return std::nullopt;
      if (label && !found)
        found = Verdict{*label, why.is_string() ? cut(why.get<std::string>(), kMostRationale) : ""};
    }
    open = open == 0 ? std::string_view::npos : text.rfind('{', open - 1);
  }
  return found;
}

}  // namespace routeopd::judge
