// SPDX-License-Identifier: Apache-2.0
#include "routeopd/routing/token_losses.h"

#include <limits>

namespace routeopd::routing {
namespace {

using Token = CouplingScratch::Token;

// Normalises q to sum to one; returns the mean of u.
double normalise(std::vector<Token>& tokens, double total) {
  double mean = 0;
  for (Token& token : tokens) {
    token.q /= total;
    mean += token.q * token.u;
  }
  return mean;
}

double variance(const std::vector<Token>& tokens, double mean) {
  double sum = 0;
  for (const Token& token : tokens) sum += token.q * (token.u - mean) * (token.u - mean);
  return sum;
}

// For each token of `side`, the expectations of h_kappa(r) and h_kappa'(r), r = u - u', over the u' of
// `other`. Both sides are sorted by u. In a window u - kappa <= u' <= u + kappa the loss is quadratic, left
// of it linear with slope kappa, right of it with slope -kappa; the windows move right as u grows. Returns
// the expected loss over both sides; `visit(token, slope)` receives the expected derivative.
template <class Visit>
double expect_huber(const std::vector<Token>& side, const std::vector<Token>& other, double kappa,
                    CouplingScratch& scratch, const Visit& visit) {
  const std::size_t n = other.size();
  for (auto* sums : {&scratch.sum_q, &scratch.sum_qu, &scratch.sum_quu}) sums->assign(n + 1, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    scratch.sum_q[i + 1] = scratch.sum_q[i] + other[i].q;
    scratch.sum_qu[i + 1] = scratch.sum_qu[i] + other[i].q * other[i].u;
    scratch.sum_quu[i + 1] = scratch.sum_quu[i] + other[i].q * other[i].u * other[i].u;
  }
  std::size_t low = 0;
  std::size_t high = 0;
  double loss = 0;
  for (const Token& token : side) {
    const double u = token.u;
    while (low < n && other[low].u < u - kappa) ++low;
    while (high < n && other[high].u <= u + kappa) ++high;
    const double q_left = scratch.sum_q[low];
    const double qu_left = scratch.sum_qu[low];
    const double q_inside = scratch.sum_q[high] - q_left;
    const double qu_inside = scratch.sum_qu[high] - qu_left;
    const double quu_inside = scratch.sum_quu[high] - scratch.sum_quu[low];
    const double q_right = scratch.sum_q[n] - scratch.sum_q[high];
    const double qu_right = scratch.sum_qu[n] - scratch.sum_qu[high];
    loss += token.q * ((q_inside * u * u - 2 * u * qu_inside + quu_inside) / 2 +
                       kappa * ((u * q_left - qu_left) - kappa / 2 * q_left) +
                       kappa * ((qu_right - u * q_right) - kappa / 2 * q_right));
    visit(token, (q_inside * u - qu_inside) + kappa * (q_left - q_right));
  }
  return loss;
}

void sort_by_u(std::vector<Token>& tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const Token& left, const Token& right) { return left.u < right.u; });
}

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += static_cast<double>(std::exp(logit - largest));
  return static_cast<double>(largest) + std::log(total);
}

}  // namespace

double exact_coupling_loss(const CouplingView& state, std::span<const float> current_logits,
                           std::span<float> grad, CouplingScratch& scratch) {
  auto& [sources, destinations, sum_q, sum_qu, sum_quu] = scratch;
  sources.clear();
  destinations.clear();
  double excess = 0;
  double deficit = 0;
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    const double surplus = static_cast<double>(state.p_student[i]) - static_cast<double>(state.p_teacher[i]);
    const double u = static_cast<double>(current_logits[i]) - static_cast<double>(state.old_logits[i]) -
                     static_cast<double>(state.bounded[i]);
    if (surplus > 0) {
      sources.push_back({u, surplus, i});
      excess += surplus;
    } else if (surplus < 0) {
      destinations.push_back({u, -surplus, i});
      deficit -= surplus;
    }
  }
  std::fill(grad.begin(), grad.end(), 0.0F);
  if (sources.empty() || destinations.empty()) return 0;
  const double mean_minus = normalise(sources, excess);
  const double mean_plus = normalise(destinations, deficit);

  const auto by_u = [](const Token& left, const Token& right) { return left.u < right.u; };
  const auto [source_low, source_high] = std::minmax_element(sources.begin(), sources.end(), by_u);
  const auto [destination_low, destination_high] =
      std::minmax_element(destinations.begin(), destinations.end(), by_u);
  const double largest = std::max(destination_high->u - source_low->u, source_high->u - destination_low->u);

  if (largest <= state.kappa) {  // every residual is quadratic
    for (const Token& b : destinations)
      grad[b.at] = static_cast<float>(state.weight * b.q * (b.u - mean_minus));
    for (const Token& a : sources) grad[a.at] = static_cast<float>(state.weight * a.q * (a.u - mean_plus));
    const double gap = mean_plus - mean_minus;
    return state.weight / 2 * (variance(destinations, mean_plus) + variance(sources, mean_minus) + gap * gap);
  }
  sort_by_u(sources);
  sort_by_u(destinations);
  const auto write = [&](const Token& token, double slope) {
    grad[token.at] = static_cast<float>(state.weight * token.q * slope);
  };
  // r = u_b - u_a; the loss is even, so a source sees r' = u_a - u_b with the same expectation.
  expect_huber(sources, destinations, state.kappa, scratch, write);
  return state.weight * expect_huber(destinations, sources, state.kappa, scratch, write);
}

double union_reverse_kl(std::span<const float> log_p_teacher, std::span<const float> current_logits,
                        float log_delta_p, double scale, std::span<float> grad) {
  if (current_logits.empty()) return 0;
  const double lse = log_sum_exp(current_logits);
  const auto log_ratio = [&](std::size_t i, double log_p) {
    return log_p - static_cast<double>(log_p_teacher[i] == kMinusInfinity ? log_delta_p : log_p_teacher[i]);
  };
  double divergence = 0;
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    if (current_logits[i] == kMinusInfinity) continue;
    const double log_p = static_cast<double>(current_logits[i]) - lse;
    divergence += std::exp(log_p) * log_ratio(i, log_p);
  }
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    const double log_p = static_cast<double>(current_logits[i]) - lse;
    const bool takes_part = current_logits[i] != kMinusInfinity;
    grad[i] =
        takes_part ? static_cast<float>(scale * std::exp(log_p) * (log_ratio(i, log_p) - divergence)) : 0.0F;
  }
  return scale * divergence;
}

double union_forward_kl(std::span<const float> log_p_teacher, std::span<const float> p_teacher,
                        std::span<const float> current_logits, double scale, std::span<float> grad) {
  if (current_logits.empty()) return 0;
  const double lse = log_sum_exp(current_logits);
  double divergence = 0;
  double teacher_mass = 0;  // on the ids that take part
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    if (current_logits[i] == kMinusInfinity || p_teacher[i] <= 0) continue;
    const auto p = static_cast<double>(p_teacher[i]);
    teacher_mass += p;
    divergence +=
        p * (static_cast<double>(log_p_teacher[i]) - (static_cast<double>(current_logits[i]) - lse));
  }
  for (std::size_t i = 0; i < current_logits.size(); ++i) {
    const bool takes_part = current_logits[i] != kMinusInfinity;
    const double p_current = std::exp(static_cast<double>(current_logits[i]) - lse);
    const double pull = teacher_mass * p_current - static_cast<double>(p_teacher[i]);
    grad[i] = takes_part ? static_cast<float>(scale * pull) : 0.0F;
  }
  return scale * divergence;
}

}  // namespace routeopd::routing
