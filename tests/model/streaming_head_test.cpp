// The streaming head against dense logits: values, order, padding, threads, backends, memory and errors.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/streaming_head.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "routeopd/base/error.h"

namespace routeopd::model {
namespace {

// Small integers: every product and sum is exact in float32, so equal rows give equal logits and order is
// exact.
at::Tensor small_integers(std::int64_t rows, std::int64_t cols) {
  return at::randint(-2, 3, {rows, cols}, at::kLong).to(at::kFloat);
}

HeadScores dense_scores(const at::Tensor& hidden_TH, const at::Tensor& weight_RH, std::int64_t k,
                        const at::Tensor& ids_TG) {
  const at::Tensor logits_TR = at::linear(hidden_TH.to(at::kDouble), weight_RH.to(at::kDouble));
  const auto [sorted, order] = at::sort(logits_TR, /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor log_p_TR = at::log_softmax(logits_TR, -1);
  return {order.narrow(-1, 0, k), sorted.narrow(-1, 0, k), at::logsumexp(logits_TR, -1),
          -(log_p_TR.exp() * log_p_TR).sum(-1), logits_TR.gather(-1, ids_TG.to(at::kLong).clamp_min(0))};
}

void expect_close(const HeadScores& actual, const at::Tensor& hidden_TH, const at::Tensor& weight_RH,
                  const at::Tensor& ids_TG, double tolerance) {
  const std::int64_t k = actual.top_ids_TK.size(1);
  const HeadScores expected = dense_scores(hidden_TH, weight_RH, k, ids_TG);
  const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
    return a.numel() == 0 ? 0.0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  };
  EXPECT_LE(distance(actual.top_logits_TK, expected.top_logits_TK), tolerance);
  EXPECT_LE(distance(actual.logsumexp_T, expected.logsumexp_T), tolerance);
  EXPECT_LE(distance(actual.gathered_TG, expected.gathered_TG), tolerance);
  if (actual.entropy_T.defined()) {
    EXPECT_LE(distance(actual.entropy_T, expected.entropy_T), 2 * tolerance);
  }
  // The logit of each reported id is the reported logit, and no id stands twice: then the ids are those of
  // the dense order wherever its values differ by more than the tolerance.
  const at::Tensor at_ids = at::linear(hidden_TH.to(at::kDouble), weight_RH.to(at::kDouble))
                                .gather(-1, actual.top_ids_TK.to(at::kLong));
  EXPECT_LE(distance(actual.top_logits_TK, at_ids), tolerance);
  for (std::int64_t t = 0; t < hidden_TH.size(0); ++t) {
    const at::Tensor row = actual.top_ids_TK[t].contiguous();
    const auto* ids = row.const_data_ptr<std::int32_t>();
    EXPECT_EQ(std::set<std::int32_t>(ids, ids + k).size(), static_cast<std::size_t>(k));
  }
}

void expect_same_bits(const HeadScores& a, const HeadScores& b) {
  EXPECT_TRUE(at::equal(a.top_ids_TK, b.top_ids_TK));
  EXPECT_TRUE(at::equal(a.top_logits_TK, b.top_logits_TK));
  EXPECT_TRUE(at::equal(a.logsumexp_T, b.logsumexp_T));
  EXPECT_TRUE(at::equal(a.gathered_TG.nan_to_num(-7.0), b.gathered_TG.nan_to_num(-7.0)));
}

class StreamingHeadTest : public ::testing::Test {
 protected:
  StreamingHeadTest() : threads_(at::get_num_threads()) { at::manual_seed(11); }
  ~StreamingHeadTest() override { at::set_num_threads(threads_); }

 private:
  int threads_;
};

// Logits of about unit variance from H = 64 products: float32 sums are within 5e-6 of the double ones.
constexpr double kTolerance = 5e-6;

TEST_F(StreamingHeadTest, EqualsDenseLogits) {
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    for (const auto& [vocabulary, tokens, k] :
         std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
             {1, 1, 1}, {7, 3, 4}, {1025, 2, 32}, {4097, 5, 31}, {4500, 260, 32}, {20011, 9, 200}}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(::testing::Message()
                     << "backend " << int(backend) << ", V " << vocabulary << ", " << type);
        const at::Tensor weight = (at::randn({vocabulary, 64}) * 0.125).to(type);
        const at::Tensor hidden = at::randn({tokens, 64}).to(type);
        const at::Tensor ids = at::randint(0, vocabulary, {tokens, 5}, at::kInt);
        const StreamingHead head(weight, vocabulary, backend);
        EXPECT_EQ(head.backend(), backend);
        EXPECT_FALSE(head.score(hidden, k, ids).entropy_T.defined());
        const HeadScores scores = head.score(hidden, k, ids, /*entropy=*/true);
        EXPECT_EQ(scores.entropy_T.sizes(), scores.logsumexp_T.sizes());
        EXPECT_EQ(scores.top_ids_TK.scalar_type(), at::kInt);
        EXPECT_EQ(scores.top_logits_TK.scalar_type(), at::kFloat);
        expect_close(scores, hidden, weight, ids, kTolerance);
      }
    }
  }
}

TEST_F(StreamingHeadTest, AtenPathComputesInFloat64) {
  const at::Tensor weight = at::randn({5000, 64}, at::kDouble) * 0.125,
                   hidden = at::randn({9, 64}, at::kDouble);
  const at::Tensor ids = at::randint(0, 5000, {9, 5}, at::kLong);
  const HeadScores scores = StreamingHead(weight, 5000).score(hidden, 32, ids, /*entropy=*/true);
  EXPECT_EQ(scores.logsumexp_T.scalar_type(), at::kDouble);
  expect_close(scores, hidden, weight, ids, 1e-13);
}

TEST_F(StreamingHeadTest, TiesGoToTheLowerIdAcrossTilesThreadsAndBackends) {
  const std::int64_t vocabulary = 20000;
  const at::Tensor weight = small_integers(vocabulary, 6), hidden = small_integers(40, 6);
  const at::Tensor ids = at::randint(0, vocabulary, {40, 8}, at::kLong);
  const HeadScores expected = dense_scores(hidden, weight, 100, ids);
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const StreamingHead head(weight, vocabulary, backend);
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      const HeadScores scores = head.score(hidden, 100, ids);
      EXPECT_TRUE(at::equal(scores.top_ids_TK.to(at::kLong), expected.top_ids_TK));
      EXPECT_TRUE(at::equal(scores.top_logits_TK.to(at::kDouble), expected.top_logits_TK));
      EXPECT_TRUE(at::equal(scores.gathered_TG.to(at::kDouble), expected.gathered_TG));
      EXPECT_LE((scores.logsumexp_T - expected.logsumexp_T).abs().max().item<double>(), 2e-6);
    }
  }
}

TEST_F(StreamingHeadTest, PaddedRowsTakeNoPart) {
  const std::int64_t real = 4500;
  at::Tensor weight = at::randn({5000, 64}) * 0.125;
  const at::Tensor hidden = at::randn({6, 64}), ids = at::randint(0, real, {6, 5}, at::kInt);
  weight.narrow(0, real, 500).copy_(hidden[0].expand({500, 64}) * 10.0);  // would win every top-k of token 0
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const HeadScores scores = StreamingHead(weight, real, backend).score(hidden, 32, ids);
    EXPECT_LT(scores.top_ids_TK.max().item<int>(), real);
    expect_close(scores, hidden, weight.narrow(0, 0, real), ids, kTolerance);
  }
}

TEST_F(StreamingHeadTest, BitwiseTheSameForAnyNumberOfThreads) {
  for (const std::int64_t vocabulary : {100, 1000, 5000, 30000}) {
    for (const std::int64_t tokens : {1, 3, 40, 520}) {
      SCOPED_TRACE(::testing::Message() << "V " << vocabulary << ", T " << tokens);
      const at::Tensor hidden = at::randn({tokens, 96}),
                       ids = at::randint(-1, vocabulary, {tokens, 8}, at::kInt);
      const StreamingHead head(at::randn({vocabulary, 96}), vocabulary);
      at::set_num_threads(1);
      const HeadScores one = head.score(hidden, 32, ids);
      for (const int threads : {2, 3}) {
        at::set_num_threads(threads);
        expect_same_bits(head.score(hidden, 32, ids), one);
      }
    }
  }
}

TEST_F(StreamingHeadTest, GatherConventions) {
  const at::Tensor weight = at::randn({3000, 16}), hidden = at::randn({4, 16});
  at::Tensor ids = at::randint(0, 3000, {4, 3}, at::kLong);
  ids[1][2] = -1;
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const StreamingHead head(weight, 3000, backend);
    const HeadScores scores = head.score(hidden, 2, ids);
    EXPECT_TRUE(at::equal(at::isnan(scores.gathered_TG), ids.eq(-1)));
    expect_same_bits(scores, head.score(hidden, 2, ids.to(at::kInt)));
    EXPECT_EQ(head.score(hidden, 2).gathered_TG.sizes(), (at::IntArrayRef{4, 0}));
    EXPECT_EQ(head.score(hidden.narrow(0, 0, 0), 2).top_ids_TK.sizes(), (at::IntArrayRef{0, 2}));
  }
}

TEST_F(StreamingHeadTest, KIsCappedAtTheVocabulary) {
  const at::Tensor weight = at::randn({1500, 16}), hidden = at::randn({3, 16});
  const at::Tensor none = at::empty({3, 0}, at::kLong);
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const HeadScores scores = StreamingHead(weight, 1400, backend).score(hidden, 100000);
    EXPECT_EQ(scores.top_ids_TK.size(1), 1400);
    expect_close(scores, hidden, weight.narrow(0, 0, 1400), none, 2e-5);
  }
}

TEST_F(StreamingHeadTest, ANonFiniteTokenIsSeenAndSpoilsNoOther) {
  const at::Tensor weight = at::randn({9000, 16}), hidden = at::randn({5, 16});
  const HeadScores clean = StreamingHead(weight, 9000).score(hidden, 8);
  at::Tensor spoilt = hidden.clone();
  spoilt[1][3] = std::numeric_limits<float>::quiet_NaN();
  spoilt[3][0] = std::numeric_limits<float>::infinity();
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const HeadScores scores = StreamingHead(weight, 9000, backend).score(spoilt, 8);
    EXPECT_TRUE(at::equal(at::isfinite(scores.logsumexp_T), at::isfinite(spoilt).all(-1)));
    for (const std::int64_t t : {0, 2, 4}) {
      EXPECT_TRUE(at::equal(scores.top_ids_TK[t], clean.top_ids_TK[t]));
      EXPECT_NEAR(scores.logsumexp_T[t].item<float>(), clean.logsumexp_T[t].item<float>(), kTolerance);
    }
    EXPECT_GE(scores.top_ids_TK.min().item<int>(), -1);
    EXPECT_LT(scores.top_ids_TK.max().item<int>(), 9000);
  }
}

// Counts the bytes of live tensors, and their peak. Memory itself comes from and goes to torch's own
// allocator, whose deleter must also do for blocks that are freed after this one was taken off.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static CountingAllocator counting;
    return counting;
  }
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    const std::scoped_lock lock(mutex_);
    bytes_[memory] = static_cast<std::int64_t>(bytes);
    live_ += static_cast<std::int64_t>(bytes);
    peak = std::max(peak, live_);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  std::int64_t peak = 0;

 private:
  static void release(void* memory) {
    CountingAllocator& self = instance();
    {
      const std::scoped_lock lock(self.mutex_);
      if (const auto found = self.bytes_.find(memory); found != self.bytes_.end()) {
        self.live_ -= found->second;
        self.bytes_.erase(found);
      }
    }
    c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  }

  std::mutex mutex_;
  std::map<void*, std::int64_t> bytes_;
  std::int64_t live_ = 0;
};

template <class Work>
std::int64_t peak_tensor_bytes(const Work& work) {
  CountingAllocator::instance().peak = 0;
  c10::SetCPUAllocator(&CountingAllocator::instance(), /*priority=*/100);
  work();
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), /*priority=*/100);
  return CountingAllocator::instance().peak;
}

TEST_F(StreamingHeadTest, NeverHoldsTheLogitsOfAllTokens) {
  const std::int64_t tokens = 1024, vocabulary = 32768;
  const at::Tensor weight = at::randn({vocabulary, 16}), hidden = at::randn({tokens, 16});
  const at::Tensor ids = at::randint(0, vocabulary, {tokens, 32}, at::kInt);
  const StreamingHead head(weight, vocabulary);
  const std::int64_t dense_bytes = tokens * vocabulary * 4;
  at::set_num_threads(2);
  EXPECT_GE(peak_tensor_bytes([&] { at::linear(hidden, weight); }), dense_bytes);  // the measure sees them
  const std::int64_t peak = peak_tensor_bytes([&] { head.score(hidden, 32, ids); });
  EXPECT_GT(peak, 0);
  EXPECT_LE(peak, dense_bytes / 12);  // two tiles of 256 x 4096 and the answers
}

template <class Work>
void expect_user_error(const Work& work, const std::string& part) {
  try {
    work();
    ADD_FAILURE() << "no error about " << part;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(StreamingHeadTest, RefusesBadInput) {
  const at::Tensor weight = at::randn({50, 8}), hidden = at::randn({4, 8});
  expect_user_error([&] { StreamingHead(at::Tensor(), 5); }, "weight");
  expect_user_error([&] { StreamingHead(weight[0], 5); }, "[V, H], got Float [8]");
  expect_user_error([&] { StreamingHead(weight.to(at::kInt), 5); }, "floating-point");
  expect_user_error([&] { StreamingHead(weight, 51); }, "[1, 50], got 51");
  expect_user_error([&] { StreamingHead(weight, 0); }, "got 0");
  expect_user_error([&] { StreamingHead(weight.to(at::kDouble), 50, Backend::kHighway); }, "fast path");
  const StreamingHead head(weight, 40);
  expect_user_error([&] { head.score(hidden.narrow(1, 0, 7), 3); }, "[T, 8]");
  expect_user_error([&] { head.score(hidden[0], 3); }, "[T, 8]");
  expect_user_error([&] { head.score(at::Tensor(), 3); }, "undefined");
  expect_user_error([&] { head.score(hidden.to(at::kDouble), 3); }, "float64");
  expect_user_error([&] { head.score(hidden, 0); }, "k must be at least 1");
  expect_user_error([&] { head.score(hidden, -3); }, "got -3");
  expect_user_error([&] { head.score(hidden, 3, at::zeros({3, 2}, at::kInt)); }, "[4, G]");
  expect_user_error([&] { head.score(hidden, 3, at::zeros({4}, at::kInt)); }, "[4, G]");
  expect_user_error([&] { head.score(hidden, 3, at::zeros({4, 2})); }, "int32 or int64");
  expect_user_error([&] { head.score(hidden, 3, at::full({4, 2}, 40, at::kInt)); }, "[-1, 40)");
  expect_user_error([&] { head.score(hidden, 3, at::full({4, 2}, -2, at::kLong)); }, "got -2 to -2");
}

}  // namespace
}  // namespace routeopd::model
