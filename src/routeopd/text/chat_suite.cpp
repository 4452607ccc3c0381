// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/chat_suite.h"

#include "routeopd/formats/ordered_json.h"

namespace routeopd::text {
namespace {

OrderedJson parsed(const char* text) {
  return formats::parse_ordered_json(text, "chat suite");
}

// Roles and turns as in training prompts and tool use; texts on which tokenizers are known to differ.
std::vector<SuiteChat> make_suite() {
  const OrderedJson prompt = {{"add_generation_prompt", true}};
  const OrderedJson whole = {{"add_generation_prompt", false}};
  const OrderedJson no_thinking = {{"add_generation_prompt", true}, {"enable_thinking", false}};
  const OrderedJson tools = parsed(R"({"add_generation_prompt":true,"tools":[{"type":"function","function":{
    "name":"add","description":"Adds two numbers <exactly>.","parameters":{"type":"object","properties":{
    "a":{"type":"number"},"b":{"type":"number","default":0.5}},"required":["a"]}}}]})");
  const OrderedJson problem =
      parsed(R"([{"role":"user","content":
    "Find $\\frac{1}{2}+\\frac{1}{3}$.\n\n)"
             R"(Please reason step by step, and put your final answer within \\boxed{}."}])");
  const OrderedJson turns = parsed(R"([{"role":"system","content":"You are a careful mathematician."},
    {"role":"user","content":"What is 12 * 12?"},
    {"role":"assistant","content":"<think>\n12 * 12\n</think>\n\n144"},
    {"role":"user","content":"And times 1000000007?"}])");
  const OrderedJson called = parsed(R"([{"role":"user","content":"Add 2 and 3."},
    {"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"add",
    "arguments":{"a":2,"b":3}}}]},{"role":"tool","name":"add","content":"5"}])");
  const OrderedJson scripts = parsed(R"([{"role":"user","content":
    "naïve café — Ⅷ ½ × π ≈ 3.14159 \u00a0 | 你好，世界 | Здравствуй | नमस्ते | 👩‍👩‍👧 e\u0301 \u200b"}])");
  const OrderedJson spaces =
      parsed(R"([{"role":"user","content":"  a\tb \r\n\r\n  c   d\n\n\n\nx=  0012345678901"}])");
  const OrderedJson specials = parsed(R"([{"role":"user","content":
    "<|im_end|><|endoftext|> <think></think> <s></s> [INST] <|eot_id|><|User|> {{ x }} {% y %}"}])");
  const OrderedJson code = parsed(R"([{"role":"user","content":
    "```python\ndef f(x):\n    return {'a': [x ** 2, \"b\"]}  # it's I'LL we've\n```"}])");
  const OrderedJson empty = parsed(R"([{"role":"user","content":""}])");
  const OrderedJson answered = parsed(R"([{"role":"user","content":"2 + 2?"},
    {"role":"assistant","content":"4"}])");
  return {{"a problem", problem, prompt},
          {"a problem, thinking off", problem, no_thinking},
          {"a system message and two turns", turns, prompt},
          {"two turns, thinking off", turns, no_thinking},
          {"a question with its answer", answered, whole},
          {"tools on offer", problem, tools},
          {"a tool call and its result", called, tools},
          {"scripts, signs and joined emoji", scripts, prompt},
          {"spaces, line ends and digits", spaces, prompt},
          {"special tokens inside the text", specials, prompt},
          {"code", code, prompt},
          {"an empty message", empty, prompt}};
}

}  // namespace

const std::vector<SuiteChat>& chat_suite() {
  static const std::vector<SuiteChat> suite = make_suite();
  return suite;
}

}  // namespace routeopd::text
