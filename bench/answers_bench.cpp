// How fast the answers of vLLM and SGLang are read on one thread, in MB/s: scores of 16,384 tokens with 32
// values each, made here.
//
//   answers_bench
//
// Each answer is read nine times, from memory as it was received; the fastest counts. Told by the clock and
// by the own time of the thread, which leaves out what a busy machine gave to others.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "routeopd/engine/remote/sglang_answers.h"
#include "routeopd/engine/remote/vllm_answers.h"

namespace {

namespace engine = routeopd::engine;

constexpr std::int64_t kStates = 16384;
constexpr std::int32_t kIds = 151936, kValues = 32;

// Ids and values as a server's: 32 different ids a state, falling values with all their digits.
std::int32_t id_at(std::int64_t state, int rank) {
  return static_cast<std::int32_t>((state * 7919 + rank * 4099) % kIds);
}
double value_at(std::int64_t state, int rank) {
  return -0.37210987654321 * (rank + 1) - 1e-3 * static_cast<double>(state % 977) / 7;
}

std::string vllm_answer() {
  std::string body = R"({"request_id":"r","prompt_logprobs":[null)";
  for (std::int64_t n = 0; n < kStates; ++n)
    for (int j = 0; j < kValues; ++j)
      fmt::format_to(std::back_inserter(body), R"({}"{}":{{"logprob":{},"rank":{},"decoded_token":null}}{})",
                     j == 0 ? ",{" : ",", id_at(n, j), value_at(n, j), j + 1, j + 1 == kValues ? "}" : "");
  return body + R"(],"choices":[{"index":0,"weight_versions":[{"version":"7","start":0,"end":1}]}]})";
}

std::string sglang_answer() {
  std::string own = "[null,1,null]", top = "null";
  for (std::int64_t n = 0; n < kStates; ++n) {
    fmt::format_to(std::back_inserter(own), ",[{},{},null]", value_at(n, 0), id_at(n, 0));
    for (int j = 0; j < kValues; ++j)
      fmt::format_to(std::back_inserter(top), "{}[{},{},null]{}", j == 0 ? ",[" : ",", value_at(n, j),
                     id_at(n, j), j + 1 == kValues ? "]" : "");
  }
  return fmt::format(R"({{"text":"","meta_info":{{"weight_version":"7","input_token_logprobs":[{}],)"
                     R"("input_top_logprobs":[{}]}}}})",
                     own, top);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Read>
void measure(const char* name, const std::string& answer, const Read& read) {
  double best = std::numeric_limits<double>::infinity(), own = best;
  for (int pass = 0; pass < 9; ++pass) {
    std::string body;
    body.reserve(answer.size() + 256);  // as a body grows while it is received
    body = answer;
    const auto start = std::chrono::steady_clock::now();
    const double own_start = thread_seconds();
    engine::ReadAnswer into;
    read(std::move(body), into);
    own = std::min(own, thread_seconds() - own_start);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (into.answer.id_N.size() != static_cast<std::size_t>(kStates) ||
        into.answer.values.top_logits_NK.back() != static_cast<float>(value_at(kStates - 1, kValues - 1)))
      throw routeopd::UserError("{}: the values are others than those that were written", name);
  }
  const double megabytes = static_cast<double>(answer.size()) / 1e6;
  fmt::print("{}: {:.1f} MB in {:.0f} ms, {:.0f} MB/s; {:.0f} MB/s of the thread's own time\n", name,
             megabytes, best * 1e3, megabytes / best, megabytes / own);
}

}  // namespace

int main() {
  measure("vllm", vllm_answer(), [](std::string body, engine::ReadAnswer& into) {
    engine::read_vllm_scores(
        std::move(body),
        {.prompt_length = 1, .response_length = kStates, .real_ids = kIds, .k = kValues, .top = kValues},
        into);
  });
  measure("sglang", sglang_answer(), [](std::string body, engine::ReadAnswer& into) {
    engine::read_sglang_scores(
        std::move(body), {.response_length = kStates, .real_ids = kIds, .k = kValues, .top = kValues}, into);
  });
  return 0;
}
