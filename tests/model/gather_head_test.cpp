// The gather head against float64 autograd through full logits: values, loss and gradients, on every
// instruction set, backend and type; then threads, cuts, long lists, memory and errors.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/gather_head.h"

#include <hwy/highway.h>

#include <numeric>

#include "model/head_testing.h"

namespace routeopd::model::testing {
namespace {

struct Problem {
  at::Tensor hidden_TH, weight_VH;
  std::vector<std::int64_t> offsets;
  at::Tensor ids;  // int32

  TokenIds token_ids() const {
    return {offsets, {ids.const_data_ptr<std::int32_t>(), static_cast<std::size_t>(ids.numel())}};
  }
};

// Values of size one, 0 to `most` ids per token, repeats among them.
Problem make_problem(std::int64_t tokens, std::int64_t width, std::int64_t rows, std::int64_t most,
                     at::ScalarType hidden_type, at::ScalarType weight_type) {
  at::manual_seed(11);
  Problem problem;
  problem.hidden_TH = at::randn({tokens, width}).to(hidden_type);
  problem.weight_VH = at::randn({rows, width}).div_(std::sqrt(static_cast<double>(width))).to(weight_type);
  problem.offsets.push_back(0);
  for (std::int64_t t = 0; t < tokens; ++t)
    problem.offsets.push_back(problem.offsets.back() + t * 1999 % (most + 1));
  problem.ids = at::randint(rows, {problem.offsets.back()}, at::kInt);
  return problem;
}

HeadResult by_autograd(const Problem& problem) {
  const at::Tensor hidden = problem.hidden_TH.to(at::kDouble).clone().requires_grad_(true);
  const at::Tensor weight = problem.weight_VH.to(at::kDouble).clone().requires_grad_(true);
  std::vector<std::int64_t> token;
  std::vector<std::size_t> place;
  for (std::int64_t t = 0; t < hidden.size(0); ++t) {
    const std::size_t at = static_cast<std::size_t>(t);
    for (std::int64_t i = 0; i < problem.offsets[at + 1] - problem.offsets[at]; ++i) {
      token.push_back(t);
      place.push_back(static_cast<std::size_t>(i));
    }
  }
  const at::Tensor logits_TV = hidden.matmul(weight.t());
  const at::Tensor values = logits_TV.index({at::tensor(token), problem.ids.to(at::kLong)});
  const at::Tensor loss = huber_sum(values, token, place);
  loss.backward();
  return {values.detach(), hidden.grad(), weight.grad(), loss.item<double>()};
}

HeadResult by_head(const Problem& problem, Backend backend) {
  const at::ScalarType type = problem.hidden_TH.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  HeadResult result;
  result.values = gather_logits(problem.hidden_TH, problem.weight_VH, problem.token_ids(), backend);
  result.grad_hidden = guarded(at::full(problem.hidden_TH.sizes(), 9.0, type));
  HeadGradient gradient(guarded(at::zeros(problem.weight_VH.sizes(), type)));
  const TokenLoss loss = [](std::int64_t t, std::span<const float> values, std::span<float> grad) {
    EXPECT_FALSE(values.empty());
    return huber_token_loss(t, values, grad);
  };
  result.loss = gather_head_step(problem.hidden_TH, problem.weight_VH, problem.token_ids(), loss,
                                 result.grad_hidden, gradient, backend);
  result.grad_weight = gradient.tensor().clone();
  return result;
}

TEST(GatherHead, MatchesAutogradOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 100, 576}) {
    for (const auto& [hidden_type, weight_type] :
         {std::pair{at::kFloat, at::kFloat}, std::pair{at::kBFloat16, at::kBFloat16},
          std::pair{at::kFloat, at::kBFloat16}, std::pair{at::kBFloat16, at::kFloat}}) {
      SCOPED_TRACE(::testing::Message() << "H " << width << ", " << at::toString(hidden_type) << " x "
                                        << at::toString(weight_type));
      Problem problem = make_problem(25, width, 29, 11, hidden_type, weight_type);
      const HeadResult expected = by_autograd(problem);
      problem.hidden_TH = guarded(problem.hidden_TH);
      problem.weight_VH = guarded(problem.weight_VH);
      problem.ids = guarded(problem.ids);
      const HeadResult with_aten = by_head(problem, Backend::kAten);
      // Inputs are what they are, rounded to bfloat16 or not; sums are float32 either way.
      expect_close(with_aten, expected, 2e-5);
      for_each_target([&] {
        const HeadResult result = by_head(problem, Backend::kHighway);
        expect_close(result, expected, 2e-5);
        expect_close(result, with_aten, 2e-5);
      });
    }
  }
}

TEST(GatherHead, TakesFloat64WithAten) {
  const Problem problem = make_problem(20, 33, 23, 9, at::kDouble, at::kDouble);
  const HeadResult expected = by_autograd(problem), result = by_head(problem, Backend::kAuto);
  EXPECT_LE(distance(result.values, expected.values), 1e-13);
  expect_close(result, expected, 1e-6);  // the loss itself sees float32
}

TEST(GatherHead, TakesThousandsOfIdsAToken) {
  const Problem problem = make_problem(170, 40, 5000, 4999, at::kFloat, at::kFloat);
  ASSERT_GT(problem.ids.numel(), 1 << 18);  // more than one block of visits
  expect_close(by_head(problem, Backend::kHighway), by_autograd(problem),
               5e-4);  // sums of 5,000 terms, up to 135
}

TEST(GatherHead, IsBitwiseEqualForAnyNumberOfThreads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Problem problem = make_problem(3000, 96, 300, 64, type, type);
    for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
      const HeadResult one = with_threads(1, [&] { return by_head(problem, backend); });
      expect_identical(with_threads(2, [&] { return by_head(problem, backend); }), one);
      expect_identical(with_threads(3, [&] { return by_head(problem, backend); }), one);
    }
  }
}

TEST(GatherHead, RunsOnTwoThreads) {
  const Problem problem = make_problem(200, 64, 50, 64, at::kFloat, at::kFloat);
  ThreadRecorder recorder;
  HeadGradient gradient(at::zeros({50, 64}));
  at::Tensor grad_hidden = at::empty({200, 64});
  with_threads(2, [&] {
    return gather_head_step(problem.hidden_TH, problem.weight_VH, problem.token_ids(), recorder.loss(),
                            grad_hidden, gradient);
  });
  EXPECT_EQ(recorder.threads(), 2U);
}

TEST(GatherHead, TwoStepsAddUpToOne) {
  const Problem problem = make_problem(300, 96, 40, 20, at::kFloat, at::kFloat);
  const TokenLoss square = [](std::int64_t, std::span<const float> values, std::span<float> grad) {
    std::copy(values.begin(), values.end(), grad.begin());
    return 0.0;
  };
  const auto run = [&](HeadGradient& gradient, std::size_t first, std::size_t count) {
    std::vector<std::int64_t> offsets(
        problem.offsets.begin() + static_cast<std::ptrdiff_t>(first),
        problem.offsets.begin() + static_cast<std::ptrdiff_t>(first + count + 1));
    const std::int64_t begin = offsets.front();
    for (std::int64_t& offset : offsets) offset -= begin;
    const auto ids = problem.token_ids().ids.subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(offsets.back()));
    at::Tensor grad_hidden = at::empty({static_cast<std::int64_t>(count), 96});
    gather_head_step(
        problem.hidden_TH.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)),
        problem.weight_VH, {offsets, ids}, square, grad_hidden, gradient);
    return grad_hidden;
  };
  HeadGradient whole(at::zeros({40, 96})), parts(at::zeros({40, 96}));
  const at::Tensor grad_hidden = run(whole, 0, 300);
  const at::Tensor first = run(parts, 0, 113), second = run(parts, 113, 187);
  EXPECT_TRUE(at::equal(whole.tensor(), parts.tensor()));
  EXPECT_TRUE(at::equal(grad_hidden, at::cat({first, second})));
  parts.clear();
  EXPECT_EQ(parts.tensor().abs().max().item<float>(), 0.0F);
}

TEST(GatherHead, FormsNoLogits) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  constexpr std::int64_t kTokens = 4096, kRows = 32768, kWidth = 64;
  constexpr std::int64_t kLogitBytes = kTokens * kRows * 4;  // 512 MB
  const Problem problem = make_problem(kTokens, kWidth, kRows, 64, at::kFloat, at::kFloat);
  HeadGradient gradient(at::zeros({kRows, kWidth}).add_(0));
  at::Tensor grad_hidden = at::ones({kTokens, kWidth});
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    // Not warmed up: the scratch of HeadGradient counts, too.
    EXPECT_LE(peak_growth([&] {
                gather_head_step(problem.hidden_TH, problem.weight_VH, problem.token_ids(), huber_token_loss,
                                 grad_hidden, gradient, backend);
              }),
              backend == Backend::kHighway ? kLogitBytes / 50 : kLogitBytes / 5);
  }
  EXPECT_GE(peak_growth([&] { problem.hidden_TH.matmul(problem.weight_VH.t()); }), kLogitBytes * 9 / 10);
}

TEST(GatherHead, RefusesWhatDoesNotFit) {
  const at::Tensor hidden = at::zeros({2, 8}), weight = at::zeros({5, 8});
  const auto error = [&](const std::vector<std::int64_t>& offsets, const std::vector<std::int32_t>& ids) {
    HeadGradient gradient(at::zeros({5, 8}));
    at::Tensor grad_hidden = at::full({2, 8}, 3.0);
    const std::string of_values = error_of([&] { gather_logits(hidden, weight, {offsets, ids}); });
    EXPECT_EQ(of_values, error_of([&] {
                gather_head_step(hidden, weight, {offsets, ids}, huber_token_loss, grad_hidden, gradient);
              }));
    if (!of_values.empty()) {
      EXPECT_TRUE(at::equal(grad_hidden, at::full({2, 8}, 3.0)));
      EXPECT_EQ(gradient.touched_rows(), 0);
    }
    return of_values;
  };
  const std::string bad_offsets = "gather head: offsets must be 3 numbers that ascend from 0 to the 3 ids";
  EXPECT_EQ(error({0, 1, 3}, {0, 4, 2}), "");
  EXPECT_EQ(error({0, 1, 3}, {0, 5, 2}), "gather head: token 1 names id 5, but ids must lie in [0, 5)");
  EXPECT_EQ(error({0, 1, 3}, {-1, 4, 2}), "gather head: token 0 names id -1, but ids must lie in [0, 5)");
  EXPECT_EQ(error({0, 3}, {0, 4, 2}), bad_offsets);
  EXPECT_EQ(error({}, {0, 4, 2}), bad_offsets);
  EXPECT_EQ(error({1, 1, 3}, {0, 4, 2}), bad_offsets);
  EXPECT_EQ(error({0, 4, 3}, {0, 4, 2}), bad_offsets);
  EXPECT_EQ(error({0, 1, 2}, {0, 4, 2}), bad_offsets);
  const std::vector<std::int64_t> offsets = {0, 1, 3};
  const std::vector<std::int32_t> ids = {0, 4, 2};
  EXPECT_EQ(
      error_of([&] { gather_logits(at::zeros({2, 7}), weight, {offsets, ids}); }),
      "gather head: hidden_TH and weight_VH must have the same hidden size, got shapes [2, 7] and [5, 8]");
  EXPECT_NE(error_of([&] { gather_logits(hidden.to(at::kLong), weight, {offsets, ids}); }), "");
  EXPECT_NE(error_of([&] { gather_logits(hidden[0], weight, {offsets, ids}); }), "");
  HeadGradient gradient(at::zeros({5, 8}));
  at::Tensor grad_hidden = at::zeros({2, 8}, at::kDouble);
  EXPECT_EQ(
      error_of(
          [&] { gather_head_step(hidden, weight, {offsets, ids}, huber_token_loss, grad_hidden, gradient); }),
      "gather head: grad_hidden_TH must be Float of shape [2, 8] on cpu, got Double of shape [2, 8] on cpu");
}

}  // namespace
}  // namespace routeopd::model::testing
