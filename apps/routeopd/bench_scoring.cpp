// Ratios 5, 6 and 6b: the row kernel against torch.topk + torch.logsumexp, the streaming head against the
// fastest bare GEMM, and prepacked weights against plain ones.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench.h"
#include "routeopd/base/system.h"
#include "routeopd/kernels/row_topk.h"
#include "routeopd/model/heads/streaming_head.h"
#include "routeopd/model/inference/packed_matrix.h"

namespace routeopd::app {
namespace {

constexpr std::int64_t kTopK = 32;
constexpr std::int64_t kScoredTokens = 256;
constexpr std::int64_t kTileRows = 4096;

// Whether our kernels compute with AVX-512 here, for which targets are tighter.
bool wide_vectors() {
  const std::string target = kernel_target();  // AVX3, AVX3_DL, AVX3_ZEN4, AVX3_SPR, AVX10_2
  return target.starts_with("AVX3") || target.starts_with("AVX10");
}

// The rival of our packed products: a linear layer whose weight oneDNN has laid out once. It is reached
// through torch's dispatcher, the one way to it that the wheel exports, by the two operators that
// torch.compile uses for frozen weights.
class OneDnnLinear {
 public:
  explicit OneDnnLinear(const at::Tensor& weight_NK) : weight_(weight_NK) {
    using Signature = at::Tensor(const at::Tensor&, std::optional<std::int64_t>);
    const auto reorder = find("mkldnn::_reorder_linear_weight");
    if (!reorder || !find("mkldnn::_linear_pointwise")) return;
    // No batch size as a hint: a hint of 1 gives a layout that is 1.2x faster there and 1.5x slower at 4
    // rows.
    weight_ = reorder->typed<Signature>().call(weight_NK, std::nullopt);
    is_packed_ = true;
  }

  at::Tensor apply(const at::Tensor& x_MK) const {
    using Signature =
        at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                   c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
    if (!is_packed_) return at::linear(x_MK, weight_);
    static const auto linear = find("mkldnn::_linear_pointwise")->typed<Signature>();
    return linear.call(x_MK, weight_, std::nullopt, "none", c10::List<std::optional<at::Scalar>>(), "");
  }

  // Without oneDNN in torch, at::linear takes its place.
  std::string name() const { return is_packed_ ? "oneDNN, packed" : "at::linear"; }

 private:
  static std::optional<c10::OperatorHandle> find(const char* name) {
    return c10::Dispatcher::singleton().findSchema({name, ""});
  }

  at::Tensor weight_;  // packed and opaque, or [N, K]
  bool is_packed_ = false;
};

// Rows in an order that a top-k could stumble over.
at::Tensor row_kind(const std::string& kind, std::int64_t rows, std::int64_t columns) {
  const at::Tensor ramp = at::linspace(-8, 8, columns).expand({rows, columns}).contiguous();
  if (kind == "ascending") return ramp;
  if (kind == "descending") return ramp.flip(1).contiguous();
  if (kind == "equal") return at::full({rows, columns}, 1.5);
  if (kind == "sawtooth")
    return at::arange(columns).remainder(1000).to(at::kFloat).mul_(0.01).expand({rows, columns}).contiguous();
  return at::randn({rows, columns}).mul_(2);
}

void bench_rows(Bench& bench) {
  at::set_num_threads(1);
  for (const Shape& shape : kShapes) {
    for (const std::string kind : {"random", "ascending", "descending", "equal", "sawtooth"}) {
      constexpr std::int64_t kRows = 16;
      const at::Tensor logits = row_kind(kind, kRows, shape.vocabulary);
      at::Tensor values = at::empty({kRows, kTopK}), lse = at::empty({kRows});
      at::Tensor ids = at::empty({kRows, kTopK}, at::kInt);
      const auto ours = [&] {
        kernels::topk_logsumexp(logits.data_ptr<float>(), kRows, shape.vocabulary, shape.vocabulary,
                                static_cast<std::int32_t>(kTopK), values.data_ptr<float>(),
                                ids.data_ptr<std::int32_t>(), lse.data_ptr<float>());
      };
      at::Tensor torch_values, torch_lse;
      const auto torch = [&] {
        torch_values = std::get<0>(at::topk(logits, kTopK));
        torch_lse = at::logsumexp(logits, 1);
      };
      ours();
      torch();
      std::string check = agreed("top-32 values", (values - torch_values).abs().max().item<double>(), 0);
      check += "; " + agreed("log-sum-exp", (lse - torch_lse).abs().max().item<double>(), 1e-5);
      const auto medians = interleaved_medians(std::max(bench.options().rounds, 7), {ours, torch});
      bench.add({.id = "5",
                 .what = "top-32 + LSE / torch topk + logsumexp, " + kind,
                 .shape = shape.name(),
                 .threads = 1,
                 .ours = medians[0] / kRows * 1e6,
                 .other = medians[1] / kRows * 1e6,
                 .unit = "us/row",
                 .target = kind == "ascending" ? 0.10 : (wide_vectors() ? 0.13 : 0.20),
                 .check = check});
    }
  }
}

void bench_streaming(Bench& bench, const Shape& shape) {
  const at::Tensor weight = at::randn({shape.vocabulary, shape.hidden}).mul_(0.05);
  const at::Tensor hidden = at::randn({kScoredTokens, shape.hidden});
  const at::Tensor gather = at::randint(shape.vocabulary, {kScoredTokens, kTopK}, at::kInt);
  const model::StreamingHead head(weight, shape.vocabulary);
  const OneDnnLinear whole(weight);
  std::vector<OneDnnLinear> tiles;
  for (std::int64_t row = 0; row < shape.vocabulary; row += kTileRows) {
    tiles.emplace_back(weight.slice(0, row, std::min(row + kTileRows, shape.vocabulary)).contiguous());
  }
  model::HeadScores scores;
  at::Tensor out = at::empty({kScoredTokens, shape.vocabulary});
  const std::function<void()> ours = [&] { scores = head.score(hidden, kTopK, gather); };
  const std::function<void()> with_entropy = [&] {
    scores = head.score(hidden, kTopK, gather, /*entropy=*/true);
  };
  const std::function<void()> plain = [&] { at::mm_out(out, hidden, weight.t()); };
  const std::function<void()> packed = [&] { whole.apply(hidden); };
  const std::function<void()> in_tiles = [&] {  // dealt to threads, as the streaming head deals them
    at::parallel_for(0, static_cast<std::int64_t>(tiles.size()), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t tile = begin; tile < end; ++tile)
                         tiles[static_cast<std::size_t>(tile)].apply(hidden);
                     });
  };
  for (const int threads : {1, bench.options().threads}) {
    if (threads == 1 && bench.options().threads == 1) continue;
    at::set_num_threads(threads);
    bench.say(fmt::format("6: streaming head, {}, {} thread(s)", shape.name(), threads));
    with_entropy();
    plain();
    std::string check =
        agreed("top-32 logits",
               (scores.top_logits_TK - std::get<0>(at::topk(out, kTopK))).abs().max().item<double>(), 2e-4);
    check += "; " + agreed("log-sum-exp",
                           (scores.logsumexp_T - at::logsumexp(out, 1)).abs().max().item<double>(), 2e-5);
    check +=
        "; " + agreed("gathered",
                      (scores.gathered_TG - out.gather(1, gather.to(at::kLong))).abs().max().item<double>(),
                      2e-4);
    const at::Tensor log_p = at::log_softmax(out, 1);
    check +=
        "; " +
        agreed("entropy", (scores.entropy_T + (log_p.exp() * log_p).sum(1)).abs().max().item<double>(), 2e-5);
    const auto medians = interleaved_medians(std::max(bench.options().rounds, 9),
                                             {ours, with_entropy, plain, packed, in_tiles});
    const auto add = [&](const std::string& what, double seconds) {
      bench.add({.id = "6",
                 .what = what,
                 .shape = shape.name() + fmt::format(" T={}", kScoredTokens),
                 .threads = threads,
                 .ours = seconds,
                 .other = *std::min_element(medians.begin() + 2, medians.end()),
                 .target = wide_vectors() ? 1.05 : 1.10,
                 .check = check});
    };
    add("head + top-32 + LSE + gather / fastest bare GEMM", medians[0]);
    add("the same with entropy / fastest bare GEMM", medians[1]);
  }
}

void bench_packed(Bench& bench) {
  constexpr std::int64_t kIn = 1536, kOut = 8192;
  const at::Tensor weight = at::randn({kOut, kIn}).mul_(0.05);
  std::vector<model::PanelSource> source(1);
  source[0].add_rows(weight, {});
  const model::PackedMatrices panels(source, model::WeightStorage::kFloat32);
  const OneDnnLinear onednn(weight);
  for (const int threads : {1, 2}) {
    if (threads > bench.options().threads) continue;
    at::set_num_threads(threads);
    for (const std::int64_t rows : {256, 32, 4, 1}) {
      const at::Tensor input = at::randn({rows, kIn});
      const int repeat = static_cast<int>(std::max<std::int64_t>(1, 256 / rows));
      at::Tensor ours = at::empty({rows, kOut}), plain, other;
      model::multiply(panels[0], input, ours);
      const auto check =
          agreed("output", (ours - at::linear(input, weight)).abs().max().item<double>(), 2e-4);
      const auto repeated = [&](const auto& work) {
        return [&, work] {
          for (int i = 0; i < repeat; ++i) work();
        };
      };
      const auto medians = interleaved_medians(std::max(bench.options().rounds, 15),
                                               {repeated([&] { model::multiply(panels[0], input, ours); }),
                                                repeated([&] { plain = at::linear(input, weight); }),
                                                repeated([&] { other = onednn.apply(input); })});
      const double flop = 2.0 * static_cast<double>(rows * kIn * kOut) * repeat / 1e9;
      const auto add = [&](const std::string& what, double seconds, double target) {
        bench.add({.id = "6b",
                   .what = fmt::format("our panels / {}, M={}", what, rows),
                   .shape = "1536 x 8192",
                   .threads = threads,
                   .ours = flop / medians[0],
                   .other = flop / seconds,
                   .unit = "GF/s",
                   .target = target,
                   .at_least = true,
                   .check = check});
      };
      add("plain linear", medians[1], threads == 1 ? 1.1 : 1.2);
      add(onednn.name(), medians[2], 1);
    }
  }
}

}  // namespace

void bench_scoring(Bench& bench) {
  const c10::NoGradGuard no_grad;
  at::manual_seed(bench.options().seed);
  if (bench.wants("5")) {
    bench.say("5: top-32 and log-sum-exp of rows");
    bench_rows(bench);
  }
  if (bench.wants("6b")) {
    bench.say("6b: prepacked weights");
    bench_packed(bench);
  }
  if (bench.wants("6")) {
    for (const Shape& shape : kShapes) bench_streaming(bench, shape);
  }
  at::set_num_threads(bench.options().threads);
}

}  // namespace routeopd::app
