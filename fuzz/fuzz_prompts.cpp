// libFuzzer: any bytes as a file of prompts; the first says whether lines may name a teacher, which of two,
// and how a problem becomes a prompt. What is accepted has ids of the tokenizer and names that differ.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/text/prompts.h"
#include "scratch.h"

namespace {

namespace text = routeopd::text;
using routeopd::fuzz::require;

constexpr const char* kTemplate =
    R"({"chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n)"
    R"({% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{{ mood }}>"})";

struct Fixed {
  routeopd::fuzz::Scratch scratch{"prompts"};
  std::filesystem::path model =
      std::filesystem::path(scratch.write("model/tokenizer_config.json", kTemplate)).parent_path();
  text::PromptTemplate chat{"chat", model}, raw{"raw"}, slot{"Q: {problem}{problem} A:", model};
  text::PromptTeachers one{.all = {{"", chat}}, .usual = ""};
  text::PromptTeachers two{.all = {{"math", chat}, {"code", raw}}, .usual = "math"};
  routeopd::tokenizer::Tokenizer tokenizer{std::filesystem::path(ROUTEOPD_FUZZ_ROOT) / "lab" / "teacher"};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Fixed fixed;
  if (size == 0) return 0;
  const std::string path = fixed.scratch.write("prompts.jsonl", routeopd::fuzz::text_of(data + 1, size - 1));
  const text::PromptTemplate* const words[] = {&fixed.chat, &fixed.raw, &fixed.slot, &fixed.chat};
  const text::PromptTeachers* const teachers[] = {nullptr, &fixed.one, &fixed.two, &fixed.two};
  const bool without_text = (data[0] & 16U) != 0;
  try {
    const auto prompts =
        text::read_prompts(path, *words[data[0] & 3U], without_text ? nullptr : &fixed.tokenizer, 7,
                           teachers[data[0] >> 2U & 3U]);
    require(!prompts.empty());
    std::set<std::string> names;
    for (const routeopd::Prompt& prompt : prompts) {
      require(names.insert(prompt.id).second && !prompt.ids.empty());
      for (const auto* ids : {&prompt.ids, &prompt.teacher_ids, &prompt.response_ids})
        for (const std::int32_t id : *ids) require(id >= 0);
      require(prompt.teacher >= 0 && prompt.teacher < 2);
      require(prompt.teacher_ids != prompt.ids);
    }
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
