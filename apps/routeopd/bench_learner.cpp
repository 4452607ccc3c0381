// Ratios 1, 1b, 3 and 4: the learner's pair and gather heads against the faster of our chunked dense head and
// naive logits, their memory against [T, V], and the accuracy of log-odds.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bench.h"
#include "routeopd/base/system.h"
#include "routeopd/kernels/dense_rows.h"
#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/heads/gather_head.h"
#include "routeopd/model/heads/pair_head.h"
#include "routeopd/routing/token_losses.h"

namespace routeopd::app {
namespace {

constexpr std::int64_t kPairs = 2;
constexpr std::int64_t kUnion = 64;
constexpr float kTarget = 0.3F;
constexpr float kKappa = 1;

// `count` ids, Zipf(1.0) over the vocabulary under a random renaming of the ids, or uniform.
std::vector<std::int32_t> draw_ids(const std::string& distribution, std::int64_t count,
                                   std::int64_t vocabulary, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  if (distribution == "uniform") {
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocabulary));
    return ids;
  }
  std::vector<std::int32_t> names(static_cast<std::size_t>(vocabulary));
  std::iota(names.begin(), names.end(), 0);
  std::shuffle(names.begin(), names.end(), random);
  std::vector<double> cumulative;
  double total = 0;
  for (std::int64_t rank = 1; rank <= vocabulary; ++rank)
    cumulative.push_back(total += 1.0 / static_cast<double>(rank));
  std::uniform_real_distribution<double> uniform(0, total);
  for (std::int32_t& id : ids) {
    const auto at =
        std::lower_bound(cumulative.begin(), cumulative.end(), uniform(random)) - cumulative.begin();
    id = names[static_cast<std::size_t>(at)];
  }
  return ids;
}

// One shape's tensors. The gradients exist already and are touched: their making is not part of a loss stage.
struct Learner {
  Shape shape;
  std::int64_t tokens;
  at::Tensor hidden_TH, weight_VH, grad_hidden_TH;
  model::HeadGradient gradient;

  Learner(const Shape& of, std::int64_t count)
      : shape(of),
        tokens(count),
        hidden_TH(at::randn({count, of.hidden})),
        weight_VH(at::randn({of.vocabulary, of.hidden}).mul_(1 / std::sqrt(static_cast<double>(of.hidden)))),
        grad_hidden_TH(at::zeros({count, of.hidden})),
        gradient(at::zeros({of.vocabulary, of.hidden})) {}
};

double pair_loss(std::span<const float> log_odds, std::span<float> grad, double scale) {
  double loss = 0;
  for (std::size_t i = 0; i < log_odds.size(); ++i) {
    loss += scale * static_cast<double>(routing::huber(log_odds[i] - kTarget, kKappa));
    grad[i] = static_cast<float>(scale) * routing::huber_slope(log_odds[i] - kTarget, kKappa);
  }
  return loss;
}

struct PairIds {
  at::Tensor source_TM, destination_TM;

  PairIds(const std::string& distribution, const Learner& learner, std::uint64_t seed) {
    const std::int64_t count = learner.tokens * kPairs;
    auto source = draw_ids(distribution, count, learner.shape.vocabulary, seed);
    auto destination = draw_ids(distribution, count, learner.shape.vocabulary, seed + 1);
    const auto tensor = [&](std::vector<std::int32_t>& ids) {
      return at::from_blob(ids.data(), {learner.tokens, kPairs}, at::kInt).clone();
    };
    source_TM = tensor(source);
    destination_TM = tensor(destination);
  }
};

// The pair objective from whole rows of log-probabilities: what a system without a pair head does, chunked.
model::DenseLoss dense_pair_loss(const PairIds& ids, double scale) {
  model::DenseLoss loss;
  loss.row = [&ids, scale](std::int64_t t, std::span<const float> logits, std::span<float> grad) {
    const std::int32_t* a = ids.source_TM.data_ptr<std::int32_t>() + t * kPairs;
    const std::int32_t* b = ids.destination_TM.data_ptr<std::int32_t>() + t * kPairs;
    const kernels::RowLse lse = kernels::row_logsumexp(logits);
    float log_odds[kPairs], slopes[kPairs];
    for (std::int64_t i = 0; i < kPairs; ++i) {
      log_odds[i] = static_cast<float>(lse.log_prob(logits[static_cast<std::size_t>(b[i])]) -
                                       lse.log_prob(logits[static_cast<std::size_t>(a[i])]));
    }
    const double value = pair_loss(log_odds, slopes, scale);
    kernels::row_softmax(grad, lse, 0);  // the slopes of a pair cancel; the pass is what a dense arm pays
    for (std::int64_t i = 0; i < kPairs; ++i) {
      grad[static_cast<std::size_t>(b[i])] += slopes[i];
      grad[static_cast<std::size_t>(a[i])] -= slopes[i];
    }
    return value;
  };
  return loss;
}

// Naive: full logits, log-softmax, gather, autograd.
double naive_pairs(const Learner& learner, const PairIds& ids, double scale, at::Tensor& grad_hidden,
                   at::Tensor& grad_weight) {
  const at::Tensor hidden = learner.hidden_TH.detach().requires_grad_(true);
  const at::Tensor weight = learner.weight_VH.detach().requires_grad_(true);
  const at::Tensor log_p = at::log_softmax(at::matmul(hidden, weight.t()), 1);
  const at::Tensor log_odds =
      log_p.gather(1, ids.destination_TM.to(at::kLong)) - log_p.gather(1, ids.source_TM.to(at::kLong));
  const at::Tensor residual = log_odds - static_cast<double>(kTarget);
  const at::Tensor size = residual.abs();
  const at::Tensor loss =
      scale * at::where(size <= kKappa, residual * residual / 2, kKappa * (size - kKappa / 2)).sum();
  loss.backward();
  grad_hidden = hidden.grad();
  grad_weight = weight.grad();
  return loss.item<double>();
}

double relative(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).norm() / expected.norm()).item<double>();
}

struct GatherIds {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> ids;
  std::vector<float> log_p_teacher;

  GatherIds(const std::string& distribution, const Learner& learner, std::uint64_t seed)
      : ids(draw_ids(distribution, learner.tokens * kUnion, learner.shape.vocabulary, seed)),
        log_p_teacher(static_cast<std::size_t>(kUnion), -std::log(static_cast<float>(kUnion))) {
    for (std::int64_t t = 0; t <= learner.tokens; ++t) offsets.push_back(t * kUnion);
  }
  model::TokenIds view() const { return {offsets, ids}; }
};

double gather_step(Learner& learner, const GatherIds& ids, double scale) {
  const model::TokenLoss loss = [&](std::int64_t, std::span<const float> logits, std::span<float> grad) {
    return routing::union_reverse_kl(ids.log_p_teacher, logits, -18.4F, scale, grad);
  };
  const double value = model::gather_head_step(learner.hidden_TH, learner.weight_VH, ids.view(), loss,
                                               learner.grad_hidden_TH, learner.gradient);
  learner.gradient.clear();  // each step pays for clearing the rows that it touched
  return value;
}

std::string check_gather(Learner& learner, const GatherIds& ids, double scale) {
  const double loss = gather_step(learner, ids, scale);
  const std::int64_t probe = std::min<std::int64_t>(learner.tokens, 64);
  const at::Tensor hidden = learner.hidden_TH.slice(0, 0, probe).to(at::kDouble).requires_grad_(true);
  const at::Tensor index =
      at::from_blob(const_cast<std::int32_t*>(ids.ids.data()), {probe, kUnion}, at::kInt).to(at::kLong);
  const at::Tensor rows =
      learner.weight_VH.index_select(0, index.flatten()).to(at::kDouble).view({probe, kUnion, -1});
  const at::Tensor log_p = at::log_softmax(at::matmul(rows, hidden.unsqueeze(2)).squeeze(2), 1);
  (scale * (log_p.exp() * (log_p + std::log(static_cast<double>(kUnion)))).sum()).backward();
  if (!std::isfinite(loss)) throw UserError("bench: the gather head's loss is not finite");
  return agreed("gradient of 64 hidden states",
                relative(learner.grad_hidden_TH.slice(0, 0, probe).to(at::kDouble), hidden.grad()), 1e-4);
}

void bench_time(Bench& bench, const Shape& shape) {
  Learner learner(shape, bench.options().tokens);
  const double scale = 1 / static_cast<double>(learner.tokens);
  const std::string name = shape.name() + fmt::format(" T={}", learner.tokens);
  const PairIds zipf("zipf", learner, bench.options().seed),
      uniform("uniform", learner, bench.options().seed);
  const auto pair_step = [&](const PairIds& ids) {
    return model::pair_head_step(
        learner.hidden_TH, learner.weight_VH, ids.source_TM, ids.destination_TM,
        [&](std::int64_t, std::span<const float> log_odds, std::span<float> grad) {
          return pair_loss(log_odds, grad, scale);
        },
        learner.grad_hidden_TH, learner.gradient);
  };
  const auto timed_pair_step = [&](const PairIds& ids) {
    pair_step(ids);
    learner.gradient.clear();
  };
  const model::DenseLoss dense = dense_pair_loss(zipf, scale);
  // The dense steps have a head gradient of their own, which is never cleared: they overwrite or accumulate.
  model::HeadGradient dense_gradient(at::zeros({shape.vocabulary, shape.hidden}));
  at::Tensor dense_grad_hidden = at::zeros_like(learner.grad_hidden_TH);
  const auto dense_step = [&] {
    return model::dense_head_step(learner.hidden_TH, learner.weight_VH, shape.vocabulary, dense,
                                  dense_grad_hidden, dense_gradient);
  };

  std::string check;
  {
    bench.say(fmt::format("1: checking the heads against each other, {}", name));
    at::Tensor grad_hidden, grad_weight;
    const double expected = naive_pairs(learner, zipf, scale, grad_hidden, grad_weight);
    check = agreed("loss", std::abs(pair_step(zipf) - expected) / expected, 1e-4);
    check += "; " + agreed("gradient of hidden", relative(learner.grad_hidden_TH, grad_hidden), 1e-3);
    check += "; " + agreed("of the head", relative(learner.gradient.tensor(), grad_weight), 1e-3);
    dense_gradient.clear();
    check += "; chunked " + agreed("loss", std::abs(dense_step() - expected) / expected, 1e-4);
    check += "; " + agreed("gradient of hidden", relative(dense_grad_hidden, grad_hidden), 1e-3);
    check += "; " + agreed("of the head", relative(dense_gradient.tensor(), grad_weight), 1e-3);
  }
  bench.say(fmt::format("1, 1b: timing, {}", name));
  const GatherIds gather_zipf("zipf", learner, bench.options().seed),
      gather_uniform("uniform", learner, bench.options().seed);
  const std::string gather_check = check_gather(learner, gather_zipf, scale);
  const auto medians = interleaved_medians(bench.options().rounds,
                                           {[&] { timed_pair_step(zipf); }, [&] { timed_pair_step(uniform); },
                                            [&] { gather_step(learner, gather_zipf, scale); },
                                            [&] { gather_step(learner, gather_uniform, scale); },
                                            [&] {
                                              at::Tensor grad_hidden, grad_weight;
                                              naive_pairs(learner, zipf, scale, grad_hidden, grad_weight);
                                            },
                                            [&] { dense_step(); }});
  const double baseline = std::min(medians[4], medians[5]);
  const bool large = shape.vocabulary > 100000;
  const auto add = [&](const char* id, const std::string& what, double ours, double other, double target,
                       const std::string& how) {
    bench.add({.id = id,
               .what = what,
               .shape = name,
               .threads = bench.options().threads,
               .ours = ours,
               .other = other,
               .target = target,
               .check = how});
  };
  // The targets are for the large vocabulary; a ratio of work scales with V.
  const double share = large ? 1 : 151936.0 / static_cast<double>(shape.vocabulary);
  if (bench.wants("1")) {
    add("1", "pair head m=2 / dense head, Zipf ids", medians[0], baseline, share / 2000, check);
    add("1", "pair head m=2 / dense head, uniform ids", medians[1], baseline, share / 2000, check);
    add("1", "our chunked dense head / naive logits", medians[5], medians[4], 1, check);
  }
  if (bench.wants("1b")) {
    add("1b", "gather head, 64 ids / dense head, Zipf ids", medians[2], baseline, share / 200, gather_check);
    add("1b", "gather head, 64 ids / dense head, uniform ids", medians[3], baseline, share / 120,
        gather_check);
  }
}

void bench_memory(Bench& bench, const Shape& shape) {
  constexpr std::int64_t kTokens = 16384;
  bench.say(fmt::format("3: memory, {}", shape.name()));
  Learner learner(shape, kTokens);
  learner.gradient.begin_dense(
      shape.vocabulary);  // touch every page of the gradient, as a run has done long before
  learner.gradient.clear();
  learner.grad_hidden_TH.fill_(1);
  const PairIds pairs("zipf", learner, bench.options().seed);
  const GatherIds gather("zipf", learner, bench.options().seed);
  const double scale = 1.0 / kTokens;
  const auto pair_bytes = static_cast<double>(peak_growth([&] {
    model::pair_head_step(
        learner.hidden_TH, learner.weight_VH, pairs.source_TM, pairs.destination_TM,
        [&](std::int64_t, std::span<const float> log_odds, std::span<float> grad) {
          return pair_loss(log_odds, grad, scale);
        },
        learner.grad_hidden_TH, learner.gradient);
  }));
  const auto gather_bytes = static_cast<double>(peak_growth([&] { gather_step(learner, gather, scale); }));
  const double full = 4.0 * kTokens * static_cast<double>(shape.vocabulary);
  const std::string name = shape.name() + " T=16384";
  const std::string how = "peak resident set, from /proc/self/status";
  bench.add({.id = "3",
             .what = "extra peak bytes of the pair loss / [T,V] fp32",
             .shape = name,
             .threads = bench.options().threads,
             .ours = pair_bytes,
             .other = full,
             .unit = "bytes",
             .target = 0.01,
             .check = how});
  bench.add({.id = "3",
             .what = "extra peak bytes of a loss on unions of 64 / [T,V] fp32",
             .shape = name,
             .threads = bench.options().threads,
             .ours = gather_bytes,
             .other = full,
             .unit = "bytes",
             .target = 0.01,
             .check = how});
}

void bench_accuracy(Bench& bench, const Shape& shape) {
  constexpr std::int64_t kTokens = 64;
  bench.say(fmt::format("4: accuracy of log-odds, {}", shape.name()));
  Learner learner(shape, kTokens);
  const PairIds ids("uniform", learner, bench.options().seed);
  const at::Tensor hidden = learner.hidden_TH.to(at::kBFloat16), weight = learner.weight_VH.to(at::kBFloat16);
  const at::Tensor a = ids.source_TM.to(at::kLong), b = ids.destination_TM.to(at::kLong);
  const auto rows = [&](const at::Tensor& id) {
    return weight.index_select(0, id.flatten()).to(at::kDouble).view({kTokens, kPairs, -1});
  };
  const at::Tensor truth = at::matmul(rows(b) - rows(a), hidden.to(at::kDouble).unsqueeze(2)).squeeze(2);
  const at::Tensor ours = model::pair_log_odds(hidden, weight, ids.source_TM, ids.destination_TM);
  const at::Tensor logits = at::linear(hidden, weight);  // bf16 in, bf16 out
  const at::Tensor rounded = logits.gather(1, b).to(at::kDouble) - logits.gather(1, a).to(at::kDouble);
  const auto rms = [&](const at::Tensor& value) {
    return (value.to(at::kDouble) - truth).pow(2).mean().sqrt().item<double>();
  };
  bench.add({.id = "4",
             .what = "rms error of pair log-odds / from bf16 logits",
             .shape = shape.name() + " T=64",
             .threads = bench.options().threads,
             .ours = rms(ours),
             .other = rms(rounded),
             .unit = "log-odds",
             .target = 1e-3,
             .check = "both against float64 on the same bf16 values"});
}

}  // namespace

void bench_learner_heads(Bench& bench) {
  at::manual_seed(bench.options().seed);
  at::set_num_threads(bench.options().threads);
  for (const Shape& shape : kShapes) {
    if (bench.wants("4")) bench_accuracy(bench, shape);
    if (bench.wants("3")) bench_memory(bench, shape);
    if (bench.wants("1") || bench.wants("1b")) bench_time(bench, shape);
  }
}

}  // namespace routeopd::app
