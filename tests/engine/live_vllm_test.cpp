// Our engine beside a live vLLM that serves the same weights. Skipped unless ROUTEOPD_LIVE_VLLM is its
// address and ROUTEOPD_LIVE_MODEL the model's directory (tests/peers/remote_vllm.py sets them); routes need
// ROUTEOPD_LIVE_STUDENT, a smaller model's, too.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/remote/remote_engine.h"
#include "routeopd/model/model_files.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::engine {
namespace {

// Both compute in float32 and sum in other orders.
constexpr float kAgreement = 2e-4F;

std::vector<Prompt> plum_problems(const tokenizer::Tokenizer& tokenizer) {
  std::vector<Prompt> prompts(6);
  for (std::uint32_t p = 0; p < prompts.size(); ++p) {
    prompts[p].number = p;
    prompts[p].ids = tokenizer.encode("Problem: Vera has " + std::to_string(p + 3) + " plums. Then", false);
  }
  return prompts;
}

RemoteOptions options_for(const char* url, std::int32_t k, std::int32_t ids) {
  RemoteOptions options;
  options.section = "teacher";
  options.fleet.servers = {net::read_endpoint(url)};
  options.needs = {.k = k, .real_ids = ids, .positions = 96};
  return options;
}

using Table = std::vector<std::map<std::int32_t, float>>;  // at each state, log-probabilities by id

// Hands on what another engine says, and keeps it.
class Recorder : public Engine {
 public:
  explicit Recorder(Engine& inner) : inner_(inner) {}
  void refresh() override {}
  std::int32_t real_ids() const override { return inner_.real_ids(); }
  Capabilities capabilities() const override { return {}; }
  std::string name() const override { return "recorder"; }
  const Table& table() const { return table_; }

 protected:
  Rollout write_responses(std::span<const Prompt>, const Sampling&, const Capture&, const Watch&) override {
    throw UserError("it only reads");
  }

  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override {
    Answer answer;
    StateValues& values = answer.values = inner_.score(rollout, request);
    values.validity_N.clear();
    answer.id_N = rollout.id_N;
    for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
    table_.resize(rollout.id_N.size());
    const auto k = static_cast<std::size_t>(values.columns),
               g = static_cast<std::size_t>(request.gather_columns);
    for (std::size_t n = 0; n < table_.size(); ++n) {
      for (std::size_t i = n * k; i < (n + 1) * k; ++i)
        table_[n][values.top_ids_NK[i]] = values.top_logits_NK[i];
      for (std::size_t i = n * g; i < (n + 1) * g; ++i)
        if (request.gather_ids_NG[i] >= 0 && (values.known_NG.empty() || values.known_NG[i] != 0))
          table_[n][request.gather_ids_NG[i]] = values.gathered_NG[i];
    }
    return answer;
  }

 private:
  Engine& inner_;
  Table table_;
};

// An engine whose model is that table, read plainly.
class TableEngine : public Recorder {
 public:
  TableEngine(Engine& inner, Table table) : Recorder(inner), rows_(std::move(table)) {}

 protected:
  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override {
    Answer answer;
    StateValues& values = answer.values;
    values.columns = request.k;
    answer.id_N = rollout.id_N;
    for (const Response& response : rollout.responses_B) answer.rows_B.push_back(response.length);
    for (std::size_t n = 0; n < rows_.size(); ++n) {
      std::vector<std::pair<float, std::int32_t>> sorted;  // best first, lower ids first among equals
      for (const auto& [id, value] : rows_[n]) sorted.emplace_back(-value, id);
      std::sort(sorted.begin(), sorted.end());
      for (std::size_t i = 0; i < static_cast<std::size_t>(request.k); ++i) {
        values.top_ids_NK.push_back(sorted.at(i).second);
        values.top_logits_NK.push_back(-sorted[i].first);
      }
      values.logsumexp_N.push_back(0);
      const auto g = static_cast<std::size_t>(request.gather_columns);
      for (const std::int32_t id : request.gather_ids_NG.subspan(n * g, g)) {
        const auto found = rows_[n].find(id);
        values.gathered_NG.push_back(found == rows_[n].end() ? std::nanf("") : found->second);
        values.known_NG.push_back(id < 0 || found != rows_[n].end() ? 1 : 0);
      }
    }
    return answer;
  }

 private:
  Table rows_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST(LiveVllm, RoutesFromTheSameValuesAreIdentical) {
  const char* const url = std::getenv("ROUTEOPD_LIVE_VLLM");
  const char* const directory = std::getenv("ROUTEOPD_LIVE_STUDENT");
  if (url == nullptr || directory == nullptr) GTEST_SKIP() << "no live vLLM";
  const model::Model model = model::load_model(directory);
  const tokenizer::Tokenizer tokenizer(directory);
  const std::int32_t ids = tokenizer.real_ids(), k = 16;
  const std::uint64_t seed = 42;
  LocalEngine student(model, ids);
  RemoteEngine remote(make_vllm_api(ids), ids, options_for(url, k, ids));
  const Rollout written =
      student.generate(plum_problems(tokenizer), {.n = 3, .max_new_tokens = 48}, {.k = k, .hidden = true});
  const train::Heads heads{.student_VH = model.head_VH, .teacher_UX = {}, .real_ids = ids};
  for (const char* arm : {"routeopd", "rank_matched", "source_only"}) {
    const routing::ObjectiveOptions options = routing::objective_from({{"arm", arm}, {"k", k}});
    const auto routed = [&](Engine& teacher) {
      Rollout rollout = written;
      const Scores scores = score_rollout(
          student, teacher, rollout, train::score_options(options, rollout, /*rescore=*/false, seed, ids));
      return train::route_rollout(rollout, scores, options, seed, heads);
    };
    Recorder recorder(remote);
    const Routes theirs = routed(recorder);
    TableEngine plain(remote, recorder.table());
    const Routes ours = routed(plain);
    EXPECT_TRUE(same_bits(ours.source_NM, theirs.source_NM)) << arm;
    EXPECT_TRUE(same_bits(ours.destination_NM, theirs.destination_NM)) << arm;
    EXPECT_TRUE(same_bits(ours.target_NM, theirs.target_NM)) << arm;
    EXPECT_TRUE(same_bits(ours.mass_N, theirs.mass_N)) << arm;
    EXPECT_EQ(ours.validity_N, theirs.validity_N) << arm;
    const auto moved = std::count_if(theirs.source_NM.begin(), theirs.source_NM.end(),
                                     [](std::int32_t id) { return id >= 0; });
    EXPECT_GT(moved, 100) << arm;
    std::printf("%s: %ld routes of %zu states are identical\n", arm, static_cast<long>(moved),
                written.id_N.size());
  }
}

TEST(LiveVllm, ReadsWhatTheLocalEngineReads) {
  const char* const url = std::getenv("ROUTEOPD_LIVE_VLLM");
  const char* const directory = std::getenv("ROUTEOPD_LIVE_MODEL");
  if (url == nullptr || directory == nullptr) GTEST_SKIP() << "no live vLLM";
  const model::Model model = model::load_model(directory);
  const tokenizer::Tokenizer tokenizer(directory);
  const std::int32_t ids = tokenizer.real_ids(), k = 16;
  LocalEngine local(model, ids);
  RemoteEngine remote(make_vllm_api(ids), ids, options_for(url, k, ids));

  Rollout rollout = local.generate(plum_problems(tokenizer), {.n = 3, .max_new_tokens = 48}, {.k = k});
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
