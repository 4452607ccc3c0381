// libFuzzer: any bytes as a response and the answer it is graded against, cut at the first 0xFF. A right
// answer is one that could be read, what could be read is not empty, and a response that begins in thought
// and never leaves it has none.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "routeopd/grade/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace routeopd::grade;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find('\xFF');
  const std::string_view response = text.substr(0, cut);
  const std::string_view answer = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  const Grade grade = grade_response(response, answer);
  if (grade.correct && !grade.format_ok) std::abort();
  if (grade.format_ok != !grade.extracted.empty()) std::abort();
  const Grade thought = grade_response(response, answer, /*in_thought=*/true);
  if (thought.format_ok && response.find("</think>") == std::string_view::npos) std::abort();
  return 0;
}
