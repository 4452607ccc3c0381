// libFuzzer: any bytes as a chat template, rendered with a chat that has everything. Gives a text or a
// UserError, within the bounds.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "routeopd/base/error.h"
#include "routeopd/formats/ordered_json.h"
#include "routeopd/jinja/interpreter.h"
#include "routeopd/jinja/parser.h"

namespace {

using routeopd::OrderedJson;

const OrderedJson& chat() {
  static const OrderedJson made = routeopd::formats::parse_ordered_json(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "Grüße 🙂 <tag>"}, {"type": "image"}]},
      {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSo.", "reasoning_content": "hm",
       "tool_calls": [{"type": "function", "id": "c1",
                       "function": {"name": "f", "arguments": {"x": 1.5, "y": [null, true, "a\"b"]}}}]},
      {"role": "tool", "name": "f", "content": "42"},
      {"role": "user", "content": ""}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
      {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}}}],
    "documents": null, "add_generation_prompt": true, "enable_thinking": false,
    "bos_token": "<s>", "eos_token": "</s>", "number": 9223372036854775807})",
                                                                        "chat");
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace jinja = routeopd::jinja;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  // Lower bounds than usual, for less than 0.1 s per run under sanitizers.
  const jinja::Limits limits{
      .steps = 100'000, .text_bytes = 1 << 20U, .items = 10'000, .memory_bytes = 16 << 20U, .depth = 1200};
  try {
    const jinja::Template parsed = jinja::parse(source);
    jinja::Interpreter interpreter(limits);
    for (const auto& [name, value] : chat().items())
      interpreter.define(name, jinja::value_of(interpreter.heap(), value));
    interpreter.render(parsed);
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
