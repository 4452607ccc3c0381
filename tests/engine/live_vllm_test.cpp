// Our engine beside a live vLLM that serves the same weights. Skipped unless ROUTEOPD_LIVE_VLLM is its
// address and ROUTEOPD_LIVE_MODEL the model's directory (tests/peers/remote_vllm.py sets them).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/remote/remote_engine.h"
#include "routeopd/model/model_files.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::engine {
namespace {

// Both compute in float32 and sum in other orders.
constexpr float kAgreement = 2e-4F;

TEST(LiveVllm, ReadsWhatTheLocalEngineReads) {
  const char* const url = std::getenv("ROUTEOPD_LIVE_VLLM");
  const char* const directory = std::getenv("ROUTEOPD_LIVE_MODEL");
  if (url == nullptr || directory == nullptr) GTEST_SKIP() << "no live vLLM";
  const model::Model model = model::load_model(directory);
  const tokenizer::Tokenizer tokenizer(directory);
  const std::int32_t ids = tokenizer.real_ids(), k = 16;
  LocalEngine local(model, ids);
  RemoteOptions options;
  options.section = "teacher";
  options.fleet.servers = {net::read_endpoint(url)};
  options.needs = {.k = k, .real_ids = ids, .positions = 96};
  RemoteEngine remote(make_vllm_api(ids), ids, options);

  std::vector<Prompt> prompts(6);
  for (std::uint32_t p = 0; p < prompts.size(); ++p) {
    prompts[p].number = p;
    prompts[p].ids = tokenizer.encode("Problem: Vera has " + std::to_string(p + 3) + " plums. Then", false);
  }
  Rollout rollout = local.generate(prompts, {.n = 3, .max_new_tokens = 48}, {.k = k});
  std::vector<std::int32_t> asked;  // another top-k than the reader's own, and the tokens taken
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    for (std::int32_t i = 0; i < 4; ++i)
      asked.push_back(rollout.top_ids_NK[n * k + static_cast<std::size_t>(i)]);
    asked.push_back(rollout.id_N[n]);
  }
  const ScoreRequest request{.k = k, .gather_ids_NG = asked, .gather_columns = 5};
  const StateValues ours = local.score(rollout, request), theirs = remote.score(rollout, request);
  ASSERT_EQ(theirs.validity_N.size(), rollout.id_N.size());
  std::int64_t unknown = 0, other_ids = 0;
  float largest = 0;
  for (std::size_t n = 0; n < rollout.id_N.size(); ++n) {
    ASSERT_EQ(theirs.validity_N[n], Validity::kValid) << n;
    const auto difference = [&](float a, float b) {
      return std::fabs((a - ours.logsumexp_N[n]) - (b - theirs.logsumexp_N[n]));
    };
    for (std::size_t g = 0; g < 5; ++g) {
      const std::size_t at = n * 5 + g;
      if (!theirs.known_NG.empty() && theirs.known_NG[at] == 0) {
        ++unknown;
        continue;
      }
      largest = std::max(largest, difference(ours.gathered_NG[at], theirs.gathered_NG[at]));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      const std::size_t at = n * static_cast<std::size_t>(k) + i;
      other_ids += ours.top_ids_NK[at] != theirs.top_ids_NK[at] ? 1 : 0;  // equal values change places
      largest = std::max(largest, difference(ours.top_logits_NK[at], theirs.top_logits_NK[at]));
    }
  }
  EXPECT_LE(largest, kAgreement);
  EXPECT_LE(other_ids, std::ssize(rollout.id_N) * k / 1000 + 2);
  std::printf("%zu states: largest difference %.2e, %ld ids in other places, %ld values not known\n",
              rollout.id_N.size(), static_cast<double>(largest), static_cast<long>(other_ids),
              static_cast<long>(unknown));
}

}  // namespace
}  // namespace routeopd::engine
