// libFuzzer: any bytes as a server's answer; the first chooses what was asked of which kind of server. What
// is accepted must have the sizes that its rows say, real ids, and no value above 0 but for rounding.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "routeopd/engine/remote/sglang_answers.h"
#include "routeopd/engine/remote/vllm_answers.h"

namespace {

namespace engine = routeopd::engine;

constexpr std::int32_t kRealIds = 512, kBest = 4;
constexpr std::int64_t kStates = 5, kColumns = 2;
const std::vector<std::int32_t> kGiven = {277, 479, 1, -1, 0, 511, -1, -1, 109, 3};

void require(bool condition) {
  if (!condition) std::abort();
}

void check_top(const std::vector<std::int32_t>& ids, const std::vector<float>& values, std::size_t rows) {
  require(ids.size() == rows * kBest && values.size() == rows * kBest);
  for (const std::int32_t id : ids) require(id >= -1 && id < kRealIds);
  for (const float value : values) require(std::isnan(value) || value <= 0.02F);
}

void check(const engine::ReadAnswer& read, std::int64_t columns) {
  const std::size_t rows = read.answer.id_N.size();
  require(read.answer.rows_B.size() == 1 && read.answer.rows_B[0] == static_cast<std::int64_t>(rows));
  require(rows <= static_cast<std::size_t>(kStates) && read.answer.values.logsumexp_N.size() == rows);
  check_top(read.answer.values.top_ids_NK, read.answer.values.top_logits_NK, rows);
  require(read.answer.values.gathered_NG.size() == rows * static_cast<std::size_t>(columns));
  require(read.answer.values.known_NG.size() == read.answer.values.gathered_NG.size());
}

void check(const engine::WrittenAnswer& written) {
  const std::size_t rows = written.rollout.id_N.size();
  require(written.rollout.responses_B.size() == 1 && rows >= 1 && rows <= 6);
  require(written.rollout.responses_B[0].length == static_cast<std::int64_t>(rows));
  require(written.rollout.logprob_N.size() == rows && written.rollout.logsumexp_N.size() == rows);
  check_top(written.rollout.top_ids_NK, written.rollout.top_logits_NK, rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool gathers = (data[0] & 8U) != 0, of_their_own = (data[0] & 16U) != 0;
  const std::int64_t columns = gathers ? kColumns : 0;
  const std::span<const std::int32_t> given =
      gathers ? std::span<const std::int32_t>(kGiven) : std::span<const std::int32_t>();
  try {
    engine::ReadAnswer read;
    engine::WrittenAnswer written;
    switch (data[0] & 3U) {
      case 0:
        engine::read_vllm_scores(std::move(body),
                                 {.prompt_length = 4,
                                  .response_length = kStates,
                                  .real_ids = kRealIds,
                                  .k = kBest,
                                  .top = kBest,
                                  .gather_ids_NG = given,
                                  .gather_columns = columns,
                                  .ids_per_position = gathers && of_their_own},
                                 read);
        check(read, columns);
        break;
      case 1:
        engine::read_vllm_response(std::move(body), {.real_ids = kRealIds, .k = kBest, .max_new_tokens = 6},
                                   written);
        check(written);
        break;
      case 2:
        engine::read_sglang_scores(std::move(body),
                                   {.response_length = kStates,
                                    .real_ids = kRealIds,
                                    .k = kBest,
                                    .top = kBest,
                                    .gather_ids_NG = given,
                                    .gather_columns = columns,
                                    .ids_of_request = gathers && of_their_own},
                                   read);
        check(read, columns);
        break;
      default:
        engine::read_sglang_response(std::move(body), {.real_ids = kRealIds, .k = kBest, .max_new_tokens = 6},
                                     written);
        check(written);
    }
  } catch (const engine::BadAnswer&) {
  }
  return 0;
}
