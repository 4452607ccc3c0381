// How long loading a tokenizer takes, and encoding all problems of a file on one thread, as one JSON line.
//
//   tokenizer_bench TOKENIZER_DIR FILE.jsonl
//
// tests/peers/tokenizer_speed.py compares it with `tokenizers`.
//
// The first of three passes meets each word for the first time; the fastest counts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/base/system.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace {

using routeopd::Json;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Json measured(const std::string& directory, const std::string& file) {
  const double start = seconds();
  const routeopd::tokenizer::Tokenizer tokenizer(directory);
  const double loaded = seconds();
  const double peak = static_cast<double>(routeopd::peak_resident_bytes()) / (1 << 20);
  std::vector<std::string> texts;
  routeopd::formats::JsonLines lines(file);
  while (const auto line = lines.next()) texts.push_back(line->at("problem").get<std::string>());
  std::size_t ids = 0;
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 3; ++pass) {
    const double begin = seconds();
    ids = 0;
    for (const std::string& text : texts) ids += tokenizer.encode(text).size();
    best = std::min(best, seconds() - begin);
  }
  return {{"load_seconds", loaded - start}, {"load_peak_mb", peak}, {"encode_seconds", best}, {"ids", ids}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: tokenizer_bench TOKENIZER_DIR FILE.jsonl\n", stderr);
    return 2;
  }
  try {
    std::puts(measured(arguments[1], arguments[2]).dump().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
