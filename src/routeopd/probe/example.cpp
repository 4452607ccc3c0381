// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/example.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "routeopd/probe/vocabulary_rows.h"
#include "routeopd/routing/token_losses.h"

namespace routeopd::probe {
namespace {

using routing::reference::Transport;
using Values = routing::reference::Values;

struct Route {
  std::size_t source = 0, destination = 0;
  double target = 0;
};

std::vector<Route> routes_at(const Frozen& frozen, std::size_t s) {
  std::vector<Route> routes;
  const auto width = static_cast<std::size_t>(frozen.pairs);
  for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
    if (frozen.source_SM[i] >= 0)
      routes.push_back({static_cast<std::size_t>(frozen.source_SM[i]),
                        static_cast<std::size_t>(frozen.destination_SM[i]),
                        static_cast<double>(frozen.target_SM[i])});
  }
  return routes;
}

// How much of the mismatch mass scalar credit on the sampled token would send to tokens without a deficit:
// what is released goes to the others in proportion to p_S.
double astray(const Transport& state, std::int32_t action) {
  double others = 0, elsewhere = 0;
  for (std::size_t i = 0; i < state.ids.size(); ++i) {
    if (state.ids[i] == action) continue;
    others += state.p_student[i];
    if (state.deficit[i] <= 0) elsewhere += state.p_student[i];
  }
  return others > 0 ? state.mass * elsewhere / others : 0;
}

std::optional<std::size_t> chosen_state(const Bank& bank, const Frozen& frozen) {
  std::optional<std::size_t> best;
  double most = 0;
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const Transport& state = frozen.transport_S[s];
    const std::int32_t action = bank.rollout.id_N[bank.states_S[s]];
    const std::vector<Route> routes = routes_at(frozen, s);
    const bool fits = state.routed && state.n_deficit >= 2 && !routes.empty() &&
                      std::all_of(routes.begin(), routes.end(), [&](const Route& r) {
                        return r.source == static_cast<std::size_t>(action);
                      });
    const double score = fits ? astray(state, action) : 0;
    if (score > most) {
      most = score;
      best = s;
    }
  }
  return best;
}

// The change of every probability when the logits move along `direction`, as far as gives the pairs the RMS
// `rms`.
Values change_along(const Values& logits, const Values& direction, const std::vector<Route>& routes,
                    double rms) {
  double squares = 0;
  for (const Route& route : routes) {
    const double moved = direction[route.destination] - direction[route.source];
    squares += moved * moved / static_cast<double>(routes.size());
  }
  const double scale = squares > 0 ? rms / std::sqrt(squares) : 0;
  Values after = logits;
  for (std::size_t v = 0; v < after.size(); ++v) after[v] += scale * direction[v];
  const Values before = routing::reference::softmax(logits);
  Values change = routing::reference::softmax(after);
  for (std::size_t v = 0; v < change.size(); ++v) change[v] -= before[v];
  return change;
}

std::string prefix_of(const Bank& bank, std::size_t s, const TextOf& text) {
  constexpr std::size_t kShown = 48;  // tokens
  const Response& response = bank.rollout.responses_B[static_cast<std::size_t>(bank.sequence_S[s])];
  std::vector<std::int32_t> ids = bank.rollout.prompt_ids_P[static_cast<std::size_t>(response.prompt)];
  ids.insert(ids.end(), bank.rollout.id_N.begin() + response.first_state,
             bank.rollout.id_N.begin() + static_cast<std::ptrdiff_t>(bank.states_S[s]));
  std::string words = ids.size() > kShown ? "…" : "";
  for (std::size_t i = ids.size() > kShown ? ids.size() - kShown : 0; i < ids.size(); ++i)
    words += text(ids[i]);
  return words;
}

}  // namespace

Json example_state(const Bank& bank, const Prober& prober, const at::Tensor& teacher_head_UX,
                   const TextOf& text) {
  const Frozen& frozen = prober.frozen();
  const std::optional<std::size_t> chosen = chosen_state(bank, frozen);
  if (!chosen) return {};
  const std::size_t s = *chosen;
  const Transport& state = frozen.transport_S[s];
  const std::vector<Route> routes = routes_at(frozen, s);
  const auto row = static_cast<std::int64_t>(s);
  Values before, teacher;
  const Endpoint student = prober.before();
  walk_rows(student.hidden_SH.slice(0, row, row + 1), student.head_VH,
            bank.teacher_hidden_SX.slice(0, row, row + 1), teacher_head_UX, bank.real_ids,
            [&](std::size_t, std::span<const float> of_student, std::span<const float> of_teacher) {
              before.assign(of_student.begin(), of_student.end());
              teacher.assign(of_teacher.begin(), of_teacher.end());
            });
  const auto action = static_cast<std::size_t>(bank.rollout.id_N[bank.states_S[s]]);
  double rms = 0;
  Values routed(before.size()), scalar = routing::reference::softmax(before);
  for (const Route& route : routes) {
    rms += route.target * route.target / static_cast<double>(routes.size());
    const double pull = routing::huber_slope(route.target, bank.objective.kappa);
    routed[route.destination] += pull;
    routed[route.source] -= pull;
  }
  rms = std::sqrt(rms);
  scalar[action] -= 1;
  const Values by_scalar = change_along(before, scalar, routes, rms),
               by_routes = change_along(before, routed, routes, rms);

  std::vector<std::size_t> order(state.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return state.excess[a] + state.deficit[a] > state.excess[b] + state.deficit[b];
  });
  Json ids = Json::array();
  double rest_scalar = std::accumulate(by_scalar.begin(), by_scalar.end(), 0.0),
         rest_routes = std::accumulate(by_routes.begin(), by_routes.end(), 0.0);
  for (const std::size_t i : order) {
    const auto id = static_cast<std::size_t>(state.ids[i]);
    ids.push_back({{"id", state.ids[i]},
                   {"text", text(state.ids[i])},
                   {"p_student", state.p_student[i]},
                   {"p_teacher", state.p_teacher[i]},
                   {"excess", state.excess[i]},
                   {"deficit", state.deficit[i]},
                   {"q_minus", state.q_minus[i]},
                   {"q_plus", state.q_plus[i]},
                   {"potential", state.potential[i]},
                   {"bounded", state.bounded[i]},
                   {"change_sampled_rkl", by_scalar[id]},
                   {"change_routeopd", by_routes[id]}});
    rest_scalar -= by_scalar[id];
    rest_routes -= by_routes[id];
  }
  Json pairs = Json::array();
  for (const Route& route : routes)
    pairs.push_back({{"source", route.source}, {"destination", route.destination}, {"target", route.target}});
  const auto log_prob = [&](const Values& logits) {
    return logits[action] - routing::reference::log_sum_exp(logits);
  };
  const StateAddress& address = bank.rollout.address_N[bank.states_S[s]];
  return {{"state", s},
          {"choice",
           "the one where scalar credit sends most of the mass that should move to tokens without a deficit"},
          {"prompt", address.prompt},
          {"position", address.position},
          {"prefix", prefix_of(bank, s, text)},
          {"action", {{"id", action}, {"text", text(static_cast<std::int32_t>(action))}}},
          {"advantage", log_prob(teacher) - log_prob(before)},
          {"mass", state.mass},
          {"concentration", state.concentration},
          {"budget", state.budget},
          {"rms", rms},
          {"ids", ids},
          {"rest", {{"change_sampled_rkl", rest_scalar}, {"change_routeopd", rest_routes}}},
          {"pairs", pairs}};
}

}  // namespace routeopd::probe
