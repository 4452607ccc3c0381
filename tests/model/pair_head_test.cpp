// The pair head against float64 autograd through full logits: values, loss and gradients, on every
// instruction set, backend and type; then what must not change them (threads, cuts), what must not be there
// (a [T,V] matrix) and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/heads/pair_head.h"

#include <hwy/highway.h>

#include "model/head_testing.h"

namespace routeopd::model::testing {
namespace {

struct PairProblem {
  at::Tensor hidden_TH, weight_VH, source_TM, destination_TM;
};

// Values of size one. Some pairs are missing, token 3 has none, and few rows make many visits to each.
PairProblem make_pair_problem(std::int64_t tokens, std::int64_t width, std::int64_t rows, std::int64_t pairs,
                              at::ScalarType hidden_type, at::ScalarType weight_type) {
  at::manual_seed(7);
  PairProblem problem;
  problem.hidden_TH = at::randn({tokens, width}).to(hidden_type);
  problem.weight_VH = at::randn({rows, width}).div_(std::sqrt(static_cast<double>(width))).to(weight_type);
  problem.source_TM = at::randint(rows, {tokens, pairs}, at::kInt);
  problem.destination_TM = at::randint(rows, {tokens, pairs}, at::kInt);
  problem.source_TM.masked_fill_(at::rand({tokens, pairs}).lt(0.15), -1);
  if (tokens > 3) problem.source_TM[3].fill_(-1);
  problem.destination_TM.masked_fill_(problem.source_TM.lt(0), -5);
  return problem;
}

PairProblem guarded(const PairProblem& problem) {
  using testing::guarded;
  return {guarded(problem.hidden_TH), guarded(problem.weight_VH), guarded(problem.source_TM),
          guarded(problem.destination_TM)};
}

HeadResult pairs_by_autograd(const PairProblem& problem) {
  const at::Tensor hidden = problem.hidden_TH.to(at::kDouble).clone().requires_grad_(true);
  const at::Tensor weight = problem.weight_VH.to(at::kDouble).clone().requires_grad_(true);
  const at::Tensor logits_TV = hidden.matmul(weight.t());
  std::vector<std::int64_t> token, source, destination;
  std::vector<std::size_t> place;
  const at::Tensor there_TM = problem.source_TM.ge(0);
  for (std::int64_t t = 0; t < hidden.size(0); ++t) {
    for (std::int64_t i = 0; i < problem.source_TM.size(1); ++i) {
      if (!there_TM[t][i].item<bool>()) continue;
      token.push_back(t);
      place.push_back(static_cast<std::size_t>(i));
      source.push_back(problem.source_TM[t][i].item<int>());
      destination.push_back(problem.destination_TM[t][i].item<int>());
    }
  }
  const at::Tensor tokens = at::tensor(token);
  const at::Tensor values =
      logits_TV.index({tokens, at::tensor(destination)}) - logits_TV.index({tokens, at::tensor(source)});
  const at::Tensor loss = huber_sum(values, token, place);
  loss.backward();
  HeadResult result;
  result.values = at::zeros(problem.source_TM.sizes(), at::kDouble).masked_scatter(there_TM, values.detach());
  result.loss = loss.item<double>();
  result.grad_hidden = hidden.grad();
  result.grad_weight = weight.grad();
  return result;
}

// A loss that is also unkind: it answers NaN for pairs that are not there, and fails for a token without any.
TokenLoss strict_loss(const PairProblem& problem) {
  return [&problem](std::int64_t t, std::span<const float> values, std::span<float> grad) {
    const std::int32_t* const source =
        problem.source_TM.const_data_ptr<std::int32_t>() + t * std::ssize(values);
    EXPECT_TRUE(std::any_of(source, source + values.size(), [](std::int32_t id) { return id >= 0; }));
    double sum = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = static_cast<double>(values[i]) - target_of(t, i), size = std::abs(error);
      const double weight = weight_of(t, i);
      grad[i] = std::nanf("");
      if (source[i] < 0) continue;
      sum += weight * (size <= kKnee ? 0.5 * error * error : kKnee * (size - 0.5 * kKnee));
      grad[i] = static_cast<float>(weight * std::clamp(error, -kKnee, kKnee));
    }
    return sum;
  };
}

HeadResult pairs_by_head(const PairProblem& problem, Backend backend) {
  const at::ScalarType type = problem.hidden_TH.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  HeadResult result;
  result.values =
      pair_log_odds(problem.hidden_TH, problem.weight_VH, problem.source_TM, problem.destination_TM, backend);
  result.grad_hidden = testing::guarded(at::full(problem.hidden_TH.sizes(), 9.0, type));
  HeadGradient gradient(testing::guarded(at::zeros(problem.weight_VH.sizes(), type)));
  result.loss =
      pair_head_step(problem.hidden_TH, problem.weight_VH, problem.source_TM, problem.destination_TM,
                     strict_loss(problem), result.grad_hidden, gradient, backend);
  result.grad_weight = gradient.tensor().clone();
  return result;
}

TEST(PairHead, MatchesAutogradOnEveryTarget) {
  for (const std::int64_t width : {1, 7, 33, 64, 100, 576}) {
    for (const std::int64_t pairs : {1, 2, 5}) {
      for (const auto& [hidden_type, weight_type] :
           {std::pair{at::kFloat, at::kFloat}, std::pair{at::kBFloat16, at::kBFloat16},
            std::pair{at::kFloat, at::kBFloat16}, std::pair{at::kBFloat16, at::kFloat}}) {
        SCOPED_TRACE(::testing::Message() << "H " << width << ", M " << pairs << ", "
                                          << at::toString(hidden_type) << " x " << at::toString(weight_type));
        const PairProblem problem = make_pair_problem(20, width, 23, pairs, hidden_type, weight_type);
        const HeadResult expected = pairs_by_autograd(problem);
        const PairProblem fenced = guarded(problem);
        const HeadResult with_aten = pairs_by_head(fenced, Backend::kAten);
        // Inputs are what they are, rounded to bfloat16 or not; sums are float32 either way.
        expect_close(with_aten, expected, 2e-5);
        for_each_target([&] {
          const HeadResult result = pairs_by_head(fenced, Backend::kHighway);
          expect_close(result, expected, 2e-5);
          expect_close(result, with_aten, 2e-5);
        });
      }
    }
  }
}

TEST(PairHead, TakesFloat64WithAten) {
  const PairProblem problem = make_pair_problem(20, 33, 23, 2, at::kDouble, at::kDouble);
  const HeadResult expected = pairs_by_autograd(problem), result = pairs_by_head(problem, Backend::kAuto);
  EXPECT_LE(distance(result.values, expected.values), 1e-13);
  EXPECT_EQ(result.values.scalar_type(), at::kDouble);
  expect_close(result, expected, 1e-6);  // the loss itself sees float32
}

TEST(PairHead, IsBitwiseEqualForAnyNumberOfThreads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const PairProblem problem = make_pair_problem(5000, 96, 300, 2, type, type);
    for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
      const HeadResult one = with_threads(1, [&] { return pairs_by_head(problem, backend); });
      expect_identical(with_threads(2, [&] { return pairs_by_head(problem, backend); }), one);
      expect_identical(with_threads(3, [&] { return pairs_by_head(problem, backend); }), one);
    }
  }
}

TEST(PairHead, RunsOnTwoThreads) {
  const PairProblem problem = make_pair_problem(512, 64, 50, 2, at::kFloat, at::kFloat);
  ThreadRecorder recorder;
  HeadGradient gradient(at::zeros({50, 64}));
  at::Tensor grad_hidden = at::empty({512, 64});
  with_threads(2, [&] {
    return pair_head_step(problem.hidden_TH, problem.weight_VH, problem.source_TM, problem.destination_TM,
                          recorder.loss(), grad_hidden, gradient);
  });
  EXPECT_EQ(recorder.threads(), 2U);
}

TEST(PairHead, TwoStepsAddUpToOne) {
  const PairProblem problem = make_pair_problem(300, 96, 40, 2, at::kFloat, at::kFloat);
  const auto zero_loss_target = [](std::int64_t, std::span<const float> values, std::span<float> grad) {
    double sum = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += 0.5 * static_cast<double>(values[i]) * static_cast<double>(values[i]);
      grad[i] = values[i];
    }
    return sum;
  };
  const auto run = [&](HeadGradient& gradient, std::int64_t first, std::int64_t count) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, first, count); };
    at::Tensor grad_hidden = at::empty({count, 96});
    pair_head_step(part(problem.hidden_TH), problem.weight_VH, part(problem.source_TM),
                   part(problem.destination_TM), zero_loss_target, grad_hidden, gradient);
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

TEST(PairHead, TakesNoTokensAndNoPairs) {
  for (const auto& [tokens, pairs] : {std::pair{0, 2}, std::pair{3, 0}}) {
    const PairProblem problem = make_pair_problem(tokens, 8, 5, pairs, at::kFloat, at::kFloat);
    for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
      const HeadResult result = pairs_by_head(problem, backend);
      EXPECT_EQ(result.loss, 0.0);
      EXPECT_EQ(result.grad_hidden.abs().sum().item<float>(), 0.0F);
    }
  }
}

// Rounding logits to bfloat16 costs about 0.06 log-odds where they are near 20; sums in float32 must cost a
// thousandth.
TEST(PairHead, IsAThousandTimesMoreAccurateThanBfloat16Logits) {
  PairProblem problem = make_pair_problem(200, 1536, 500, 2, at::kBFloat16, at::kBFloat16);
  problem.weight_VH.mul_(10.0);
  const at::Tensor logits_TV =
      problem.hidden_TH.to(at::kDouble).matmul(problem.weight_VH.to(at::kDouble).t());
  const at::Tensor there = problem.source_TM.ge(0);
  const auto difference = [&](const at::Tensor& logits) {
    return (logits.gather(1, problem.destination_TM.clamp_min(0).to(at::kLong)) -
            logits.gather(1, problem.source_TM.clamp_min(0).to(at::kLong)))
        .masked_select(there);
  };
  const at::Tensor truth = difference(logits_TV);
  const auto rms = [&](const at::Tensor& values) {
    return (values - truth).square().mean().sqrt().item<double>();
  };
  const double rounded = rms(difference(logits_TV.to(at::kBFloat16).to(at::kDouble)));
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const at::Tensor values = pairs_by_head(problem, backend).values.to(at::kDouble).masked_select(there);
    EXPECT_LE(rms(values), 1e-3 * rounded);
  }
}

TEST(PairHead, FormsNoLogits) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  constexpr std::int64_t kTokens = 4096, kRows = 32768, kWidth = 64;
  constexpr std::int64_t kLogitBytes = kTokens * kRows * 4;  // 512 MB
  const PairProblem problem = make_pair_problem(kTokens, kWidth, kRows, 2, at::kFloat, at::kFloat);
  HeadGradient gradient(at::zeros({kRows, kWidth}).add_(0));
  at::Tensor grad_hidden = at::ones({kTokens, kWidth});
  for (const Backend backend : {Backend::kHighway, Backend::kAten}) {
    const auto step = [&] {
      pair_head_step(problem.hidden_TH, problem.weight_VH, problem.source_TM, problem.destination_TM,
                     huber_token_loss, grad_hidden, gradient, backend);
    };
    step();
    EXPECT_LE(peak_growth(step), backend == Backend::kHighway ? kLogitBytes / 100 : kLogitBytes / 5);
  }
  // The measure itself: what the head must not do is seen.
  EXPECT_GE(peak_growth([&] { problem.hidden_TH.matmul(problem.weight_VH.t()); }), kLogitBytes * 9 / 10);
}

TEST(PairHead, RefusesWhatDoesNotFit) {
  const PairProblem good = make_pair_problem(4, 8, 5, 2, at::kFloat, at::kFloat);
  const auto error = [](const PairProblem& problem, Backend backend = Backend::kAuto) {
    const std::string of_values = error_of([&] {
      pair_log_odds(problem.hidden_TH, problem.weight_VH, problem.source_TM, problem.destination_TM, backend);
    });
    HeadGradient gradient(at::zeros({5, 8}));
    at::Tensor grad_hidden = at::full({4, 8}, 3.0);
    EXPECT_EQ(of_values, error_of([&] {
                pair_head_step(problem.hidden_TH, problem.weight_VH, problem.source_TM,
                               problem.destination_TM, huber_token_loss, grad_hidden, gradient, backend);
              }));
    if (!of_values.empty()) {
      EXPECT_TRUE(at::equal(grad_hidden, at::full({4, 8}, 3.0)));
      EXPECT_EQ(gradient.touched_rows(), 0);
    }
    return of_values;
  };
  const auto with = [&](const auto& change) {
    PairProblem problem{good.hidden_TH.clone(), good.weight_VH.clone(), good.source_TM.clamp_min(0),
                        good.destination_TM.clamp_min(0)};
    change(problem);
    return problem;
  };
  EXPECT_EQ(error(with([](PairProblem&) {})), "");
  EXPECT_EQ(error(with([](PairProblem& p) {
              p.source_TM[2][1] = 5;
              p.destination_TM[2][1] = 0;
            })),
            "pair head: pair 1 of token 2 is (5, 0), but ids must lie in [0, 5)");
  EXPECT_EQ(error(with([](PairProblem& p) {
              p.source_TM[2][1] = 0;
              p.destination_TM[2][1] = -1;
            })),
            "pair head: pair 1 of token 2 is (0, -1), but ids must lie in [0, 5)");
  EXPECT_EQ(
      error(with([](PairProblem& p) { p.hidden_TH = at::zeros({4, 7}); })),
      "pair head: hidden_TH and weight_VH must have the same hidden size, got shapes [4, 7] and [5, 8]");
  EXPECT_EQ(
      error(with([](PairProblem& p) { p.hidden_TH = at::zeros({4, 8}, at::kHalf); })),
      "pair head: hidden_TH and weight_VH must be float32 or bfloat16 (or both float64), got Half and Float");
  EXPECT_EQ(error(with([](PairProblem& p) { p.hidden_TH = at::zeros({8, 4}).t(); })),
            "pair head: hidden_TH must be contiguous; try .contiguous()");
  EXPECT_EQ(error(with([](PairProblem& p) { p.source_TM = p.source_TM.to(at::kLong); })),
            "pair head: source_TM and destination_TM must be int32 of one shape [4, M], one row per token");
  EXPECT_EQ(error(with([](PairProblem& p) { p.destination_TM = p.destination_TM.narrow(1, 0, 1); })),
            "pair head: source_TM and destination_TM must be int32 of one shape [4, M], one row per token");
  const PairProblem wide = with([](PairProblem& p) {
    p.hidden_TH = p.hidden_TH.to(at::kDouble);
    p.weight_VH = p.weight_VH.to(at::kDouble);
  });
  EXPECT_NE(error_of([&] {
              pair_log_odds(wide.hidden_TH, wide.weight_VH, wide.source_TM, wide.destination_TM,
                            Backend::kHighway);
            }),
            "");
  const PairProblem whole = with([](PairProblem&) {});
  at::Tensor short_grad = at::zeros({3, 8});
  HeadGradient gradient(at::zeros({5, 8})), narrow(at::zeros({4, 8}));
  EXPECT_NE(error_of([&] {
              pair_head_step(whole.hidden_TH, whole.weight_VH, whole.source_TM, whole.destination_TM,
                             huber_token_loss, short_grad, gradient);
            }),
            "");
  at::Tensor grad_hidden = at::zeros({4, 8});
  EXPECT_NE(error_of([&] {
              pair_head_step(whole.hidden_TH, whole.weight_VH, whole.source_TM, whole.destination_TM,
                             huber_token_loss, grad_hidden, narrow);
            }),
            "");
}

}  // namespace
}  // namespace routeopd::model::testing
