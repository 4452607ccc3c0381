// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/prober.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "routeopd/base/error.h"
#include "routeopd/model/heads/pair_head.h"
#include "routeopd/probe/vocabulary_rows.h"
#include "routeopd/routing/route_states.h"
#include "routeopd/train/loss_gradients.h"
#include "routeopd/train/route_rollout.h"
#include "routeopd/types/state_batch.h"

namespace routeopd::probe {
namespace {

namespace reference = routing::reference;

constexpr std::array<std::string_view, 6> kNames = {"pair_isolated", "potential_wide", "potential_matched",
                                                    "fresh_adamw",   "saved_adamw",    "sgd"};
constexpr std::array<std::string_view, 4> kSizeNames = {"routeopd", "targets", "given", "none"};
constexpr double kRmsTolerance = 5e-4;  // relative
constexpr int kLengthTrials = 40;
// Ids of whole-vocabulary supports that objectives over the union may hold at once, some 60 bytes each.
constexpr std::int64_t kMostFullEntries = 1 << 23;

at::Tensor ids_SM(const std::vector<std::int32_t>& ids, std::int64_t pairs) {
  return at::tensor(at::ArrayRef<std::int32_t>(ids), at::kInt).reshape({-1, pairs});
}

bool draws_pairs(const routing::ObjectiveOptions& objective) {
  return objective.loss == routing::Loss::kRouted && objective.pairs == routing::Pairs::kSample &&
         objective.side == routing::Side::kPair;
}

bool has_potential(const routing::ObjectiveOptions& objective) {
  return objective.loss == routing::Loss::kRouted && objective.side == routing::Side::kPair &&
         objective.target == routing::Target::kShared &&
         objective.destination == routing::Destination::kTeacherDeficit;
}

// Of the same destinations as in a run's metrics: those used, whatever was drawn first.
std::optional<double> mean_coverage(const Routes& routes) {
  double sum = 0, routed = 0;
  for (std::size_t s = 0; s < routes.routed_N.size(); ++s) {
    if (routes.routed_N[s] == 0) continue;
    sum += static_cast<double>(routes.coverage_N[s]);
    ++routed;
  }
  return routes.pairs == 0 || routed == 0 ? std::nullopt : std::optional(sum / routed);
}

}  // namespace

std::string_view name_of(Intervention intervention) {
  return kNames[static_cast<std::size_t>(intervention)];
}

Intervention intervention_of(const std::string& name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end())
    throw UsageError("--intervention: expected one of {}, got {}", fmt::join(kNames, ", "), name);
  return static_cast<Intervention>(at - kNames.begin());
}

std::string_view name_of(MatchedSize::Kind kind) {
  return kSizeNames[static_cast<std::size_t>(kind)];
}

MatchedSize matched_size_of(const std::string& word) {
  using Kind = MatchedSize::Kind;
  for (const Kind kind : {Kind::kRouteOpd, Kind::kTargets, Kind::kNone})
    if (word == name_of(kind)) return {.kind = kind};
  const Json value = value_of_word(word);
  if (!value.is_number() || !(value.get<double>() > 0))
    throw UsageError("--rms: expected a number over 0 (log-odds), routeopd, targets or none, got {}", word);
  return {.kind = Kind::kGiven, .rms = value.get<double>()};
}

// An arm's scores and routes at the bank's states.
struct Prober::ArmData {
  ProbeArm arm;
  StateScores scored;
  Routes routes;  // S rows
};

Prober::Prober(const Bank& bank, const model::Model& student, const at::Tensor& teacher_head_UX,
               const train::OptimizerSection& optimizer, bool banks_own, const SavedMoments* saved,
               const MatchedSize& size)
    : bank_(bank),
      student_(student),
      teacher_head_UX_(teacher_head_UX.detach()),
      optimizer_(optimizer),
      saved_(saved),
      size_(size),
      before_SH_(hidden_at(student, bank.rollout, bank.states_S)),
      heads_(std::make_unique<ScoringHeads>(student.head_VH, teacher_head_UX, bank.real_ids)),
      frozen_(&bank.frozen) {
  if (!banks_own) {
    refrozen_ = freeze(bank, before_SH_, *heads_, student.head_VH, teacher_head_UX);
    frozen_ = &*refrozen_;
  }
  source_SM_ = ids_SM(frozen_->source_SM, frozen_->pairs);
  destination_SM_ = ids_SM(frozen_->destination_SM, frozen_->pairs);
  odds_before_SM_ = model::pair_log_odds(before_SH_, student.head_VH.detach(), source_SM_, destination_SM_);
}

bool Prober::applies(const ProbeArm& arm, Intervention intervention) const {
  switch (intervention) {
    case Intervention::kPairIsolated:
      return draws_pairs(arm.objective);
    case Intervention::kPotentialWide:
      return has_potential(arm.objective);
    case Intervention::kPotentialMatched:
      return has_potential(arm.objective) && size_.kind != MatchedSize::Kind::kNone;
    case Intervention::kSavedAdamW:
      return saved_ != nullptr && arm.objective.loss != routing::Loss::kSft;
    default:
      return arm.objective.loss != routing::Loss::kSft;
  }
}

std::optional<double> Prober::matched_rms() {
  if (size_.kind == MatchedSize::Kind::kGiven) return size_.rms;
  if (size_.kind == MatchedSize::Kind::kTargets && !matched_rms_) {
    double squares = 0, pairs = 0;
    for (std::size_t i = 0; i < frozen_->target_SM.size(); ++i) {
      if (frozen_->source_SM[i] < 0) continue;
      squares += std::pow(static_cast<double>(frozen_->target_SM[i]), 2);
      ++pairs;
    }
    if (pairs == 0) throw UserError("--rms targets: no state of the bank has a route, and so no target");
    matched_rms_ = std::sqrt(squares / pairs);
  }
  if (size_.kind == MatchedSize::Kind::kRouteOpd && !matched_rms_) {
    const ProbeArm reference{.name = "routeopd",
                             .objective = routing::objective_from({{"arm", "routeopd"}}, bank_.objective)};
    matched_rms_ = run_update(reference, StepRule::kFreshAdamW, std::nullopt, {}).rms;
  }
  return matched_rms_;
}

ProbeRow Prober::run(const ProbeArm& arm, Intervention intervention, const AfterRow& after) {
  ROUTEOPD_INVARIANT(applies(arm, intervention));
  ProbeRow row;
  switch (intervention) {
    case Intervention::kFreshAdamW:
      row = run_update(arm, StepRule::kFreshAdamW, matched_rms(), after);
      break;
    case Intervention::kSavedAdamW:
      row = run_update(arm, StepRule::kSavedAdamW, matched_rms(), after);
      break;
    case Intervention::kSgd:
      row = run_update(arm, StepRule::kSgd, matched_rms(), after);
      break;
    default:
      row = run_direct(arm, intervention, after);
  }
  row.name = arm.name;
  row.intervention = intervention;
  skip_unrouted(*frozen_, {&row.changes.fidelity_S, &row.changes.leakage_S, &row.changes.mass_after_S});
  return row;
}

Prober::ArmData Prober::data_of(const ProbeArm& arm) const {
  const auto entries = static_cast<std::int64_t>(bank_.states()) * bank_.real_ids;
  if (arm.objective.k == routing::kFullSupport && routing::needs_support(arm.objective) &&
      entries > kMostFullEntries)
    throw UserError(
        "{}: with k = full it keeps all {} ids of all {} states; probe a bank of fewer states, or give k a "
        "number",
        arm.name, bank_.real_ids, bank_.states());
  ArmData data{.arm = arm, .scored = score_states(bank_, before_SH_, *heads_, arm.objective), .routes = {}};
  if (arm.objective.k == routing::kFullSupport) {
    const train::Heads heads{student_.head_VH.detach(), teacher_head_UX_, bank_.real_ids};
    data.routes =
        train::route_rollout(data.scored.rollout, data.scored.scores, arm.objective, bank_.seed, heads);
  } else {
    const StateBatch batch = state_batch_of(data.scored.rollout, data.scored.scores, bank_.real_ids);
    data.routes = routing::route_states(batch, arm.objective, bank_.seed, at::get_num_threads(),
                                        /*with_support=*/true);
  }
  return data;
}

// The arm's problem at a state, on its own support and in double precision.
reference::Transport Prober::problem_of(const ArmData& data, std::size_t s, std::span<const float> before_R,
                                        std::span<const float> teacher_R) const {
  const Support& support = data.routes.support;
  reference::Ids ids;
  if (data.arm.objective.k == routing::kFullSupport) {
    ids.resize(static_cast<std::size_t>(bank_.real_ids));
    std::iota(ids.begin(), ids.end(), 0);
  } else {
    ids.assign(support.ids_L.begin() + support.offsets_N1[s],
               support.ids_L.begin() + support.offsets_N1[s + 1]);
  }
  reference::Values z_student, z_teacher;
  for (const std::int32_t id : ids) {
    z_student.push_back(static_cast<double>(before_R[static_cast<std::size_t>(id)]));
    z_teacher.push_back(static_cast<double>(teacher_R[static_cast<std::size_t>(id)]));
  }
  return reference::transport(ids, z_student, z_teacher, data.arm.objective);
}

ArmStatistics Prober::statistics(const ProbeArm& arm) const {
  if (arm.objective.loss != routing::Loss::kRouted) return {};
  const ArmData data = data_of(arm);
  std::vector<StateDemand> demand_S(bank_.states());
  walk_rows(before_SH_, student_.head_VH, bank_.teacher_hidden_SX, teacher_head_UX_, bank_.real_ids,
            [&](std::size_t s, std::span<const float> before, std::span<const float> teacher) {
              demand_S[s] = demand_of(problem_of(data, s, before, teacher), arm.objective, bank_.seed,
                                      bank_.rollout.address_N[bank_.states_S[s]]);
            });
  ArmStatistics statistics = arm_statistics(demand_S, arm.objective);
  const auto mean = [](const std::vector<float>& values_S) {
    return std::accumulate(values_S.begin(), values_S.end(), 0.0) / static_cast<double>(values_S.size());
  };
  statistics.coverage = mean_coverage(data.routes);
  statistics.student_mass = mean(data.routes.student_mass_N);
  statistics.teacher_mass = mean(data.routes.teacher_mass_N);
  return statistics;
}

// Targets are judged on the pairs the arm drew; arms that draw none, by the bank's.
void Prober::own_pairs(const ArmData& data, Changes& changes) const {
  const bool own = draws_pairs(data.arm.objective);
  changes.pairs = own ? data.routes.pairs : frozen_->pairs;
  changes.source_SM = own ? data.routes.source_NM : frozen_->source_SM;
  changes.destination_SM = own ? data.routes.destination_NM : frozen_->destination_SM;
  const std::vector<float>& targets = own ? data.routes.target_NM : frozen_->target_SM;
  changes.target_SM.assign(targets.begin(), targets.end());
  changes.achieved_SM.assign(targets.size(), 0.0);
  for (auto* values : {&changes.fidelity_S, &changes.leakage_S, &changes.mass_after_S})
    values->assign(bank_.states(), 0.0);
  if (data.arm.objective.loss == routing::Loss::kRouted)
    changes.budget_S.assign(data.routes.budget_N.begin(), data.routes.budget_N.end());
}

ProbeRow Prober::run_direct(const ProbeArm& arm, Intervention intervention, const AfterRow& after) {
  const ArmData data = data_of(arm);
  ProbeRow row;
  own_pairs(data, row.changes);
  if (intervention == Intervention::kPairIsolated) {
    isolate_pairs(row, after);
    return row;
  }
  if (intervention == Intervention::kPotentialMatched) {
    ProbeRow whole;  // its RMS tells how far the shift goes at scale 1
    own_pairs(data, whole.changes);
    shift_logits(data, 1, whole, {});
    if (whole.rms == 0) throw UserError("{}: no state of the bank has a route to match", arm.name);
    row.scale = *matched_rms() / whole.rms;
  }
  shift_logits(data, row.scale, row, after);
  return row;
}

void Prober::isolate_pairs(ProbeRow& row, const AfterRow& seen) const {
  Changes& changes = row.changes;
  const auto width = static_cast<std::size_t>(changes.pairs);
  walk_rows(before_SH_, student_.head_VH, bank_.teacher_hidden_SX, teacher_head_UX_, bank_.real_ids,
            [&](std::size_t s, std::span<const float> before, std::span<const float> teacher) {
              StateRows rows;
              rows.set_before(teacher, before);
              std::vector<double> after(before.begin(), before.end());
              double fidelity = 0, judged = 0, count = 0;
              for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
                if (changes.source_SM[i] < 0) continue;
                const auto a = static_cast<std::size_t>(changes.source_SM[i]),
                           b = static_cast<std::size_t>(changes.destination_SM[i]);
                after[a] -= changes.target_SM[i] / 2;
                after[b] += changes.target_SM[i] / 2;
                rows.set_after(before, after);
                const StateChange change =
                    change_of(frozen_->transport_S[s], rows, bank_.objective.delta_diag);
                if (!std::isnan(change.fidelity)) {
                  fidelity += change.fidelity;
                  ++judged;
                }
                changes.leakage_S[s] += change.leakage;
                changes.mass_after_S[s] += change.mass_after;
                changes.achieved_SM[i] =
                    log_odds_change(after, before, changes.source_SM[i], changes.destination_SM[i]);
                if (seen) seen(s, static_cast<std::int32_t>(i - s * width), after);
                after[a] = static_cast<double>(before[a]);
                after[b] = static_cast<double>(before[b]);
                ++count;
              }
              changes.fidelity_S[s] = judged > 0 ? fidelity / judged : std::nan("");
              if (count > 0) {
                changes.leakage_S[s] /= count;
                changes.mass_after_S[s] /= count;
              } else {
                changes.mass_after_S[s] = frozen_->transport_S[s].mass;  // nothing was moved
              }
            });
  row.rms = rms_achieved(changes);
}

void Prober::shift_logits(const ArmData& data, double scale, ProbeRow& row, const AfterRow& seen) const {
  std::vector<double> squares_S(bank_.states());
  const bool own = draws_pairs(data.arm.objective);
  walk_rows(before_SH_, student_.head_VH, bank_.teacher_hidden_SX, teacher_head_UX_, bank_.real_ids,
            [&](std::size_t s, std::span<const float> before, std::span<const float> teacher) {
              StateRows rows;
              rows.set_before(teacher, before);
              const reference::Transport state = problem_of(data, s, before, teacher);
              Changes& changes = row.changes;
              const auto width = static_cast<std::size_t>(own ? changes.pairs : 0);
              for (std::size_t i = s * width; i < (s + 1) * width; ++i) {
                // In double precision, as the shift: where M is near float32's rounding, the kernel's are not
                // exact.
                if (changes.source_SM[i] >= 0)
                  changes.target_SM[i] = reference::pair_target(
                      state, changes.source_SM[i], changes.destination_SM[i], data.arm.objective);
              }
              std::vector<double> after(before.begin(), before.end());
              for (std::size_t i = 0; state.routed && i < state.ids.size(); ++i)
                after[static_cast<std::size_t>(state.ids[i])] += scale * state.bounded[i];
              measure_row(s, rows, before, after, *frozen_, bank_.objective.delta_diag, row.changes,
                          squares_S);
              if (seen) seen(s, -1, after);
            });
  row.rms = rms_over_pairs(squares_S, *frozen_);
}

void Prober::with_step(const ArmData& data, StepRule rule, const train::OptimizerSection& optimizer,
                       const std::function<void(const std::vector<at::Tensor>& step)>& use) {
  const ProbeArm& arm = data.arm;
  Rollout rollout = bank_.rollout;
  rollout.logprob_N = spread(data.scored.rollout.logprob_N, bank_, 0.0F);
  Scores scores;
  scores.teacher_logprob_N = spread(data.scored.scores.teacher_logprob_N, bank_, 0.0F);
  if (train::needs_teacher_hidden(arm.objective)) {
    scores.hidden_size = data.scored.scores.hidden_size;
    scores.hidden_NX = spread(data.scored.scores.hidden_NX, bank_, 0.0F);
  }
  const Routes routes = spread(data.routes, bank_);

  if (!working_) working_ = model::clone_model(student_);
  // Few tokens at a time, and no activations kept over a block, so that a probe fits beside the models.
  train::LossGradients loss_gradients(
      *working_, teacher_head_UX_, bank_.real_ids,
      {.objective = arm.objective, .micro_tokens = kForwardTokens, .recompute = true});
  loss_gradients.accumulate({.rollout = &rollout, .scores = &scores, .routes = &routes}, 0,
                            rollout.responses_B.size());
  std::vector<at::Tensor> step = loss_gradients.gradients();
  make_step(step, model::parameters(student_), rule, optimizer,
            rule == StepRule::kSavedAdamW ? saved_ : nullptr);
  use(step);
  loss_gradients.clear();
}

ProbeRow Prober::run_update(const ProbeArm& arm, StepRule rule, std::optional<double> rms,
                            const AfterRow& after) {
  const ArmData data = data_of(arm);
  ProbeRow row;
  with_step(data, rule, optimizer_, [&](const std::vector<at::Tensor>& step) {
    if (rms) row.scale = length_for(step, *rms, arm.name);
    move_weights(step, row.scale);
  });
  own_pairs(data, row.changes);
  row.rms = rescore_rows(bank_, *frozen_, before(),
                         {hidden_at(*working_, bank_.rollout, bank_.states_S), working_->head_VH},
                         teacher_head_UX_, row.changes, after);
  model::copy_weights(student_, *working_);
  return row;
}

std::vector<Prober::UpdateAtRate> Prober::updates_at(const ProbeArm& arm, std::span<const double> rates) {
  ROUTEOPD_INVARIANT(applies(arm, Intervention::kFreshAdamW));
  const ArmData data = data_of(arm);
  Changes pairs;
  own_pairs(data, pairs);
  const at::Tensor source_SM = ids_SM(pairs.source_SM, pairs.pairs),
                   destination_SM = ids_SM(pairs.destination_SM, pairs.pairs);
  const at::Tensor odds_SM =
      model::pair_log_odds(before_SH_, student_.head_VH.detach(), source_SM, destination_SM);
  train::OptimizerSection unit = optimizer_;
  unit.lr = 1;
  std::vector<UpdateAtRate> updates;
  with_step(data, StepRule::kFreshAdamW, unit, [&](const std::vector<at::Tensor>& step) {
    for (const double lr : rates) {
      move_weights(step, lr);
      const at::Tensor hidden_SH = hidden_at(*working_, bank_.rollout, bank_.states_S);
      UpdateAtRate& update = updates.emplace_back(
          UpdateAtRate{.lr = lr, .rms = rms_of(hidden_SH, working_->head_VH), .changes = pairs});
      const at::Tensor moved_SM =
          (model::pair_log_odds(hidden_SH, working_->head_VH.detach(), source_SM, destination_SM) - odds_SM)
              .to(at::kDouble)
              .contiguous();
      const std::span moved(moved_SM.const_data_ptr<double>(), update.changes.achieved_SM.size());
      for (std::size_t i = 0; i < moved.size(); ++i)
        if (pairs.source_SM[i] >= 0) update.changes.achieved_SM[i] = moved[i];
    }
  });
  model::copy_weights(student_, *working_);
  return updates;
}

void Prober::move_weights(const std::vector<at::Tensor>& step, double scale) {
  const c10::NoGradGuard no_grad;
  const std::vector<model::Parameter> from = model::parameters(student_), to = model::parameters(*working_);
  for (std::size_t i = 0; i < step.size(); ++i) {
    at::Tensor target = to[i].tensor;
    at::add_out(target, from[i].tensor, step[i], scale);
  }
}

double Prober::rms_of(const at::Tensor& hidden_SH, const at::Tensor& head_VH) const {
  const at::Tensor moved_SM =
      model::pair_log_odds(hidden_SH, head_VH.detach(), source_SM_, destination_SM_) - odds_before_SM_;
  const at::Tensor present_SM = source_SM_.ge(0);
  const double pairs = present_SM.sum().item<double>();
  return pairs == 0
             ? 0
             : std::sqrt(moved_SM.to(at::kDouble).square().mul(present_SM).sum().item<double>() / pairs);
}

// The RMS grows with the length, almost in proportion while steps are small: a secant through the last
// trials, kept inside the lengths that are known to be too short and too long, meets it in two or three
// forwards.
double Prober::length_for(const std::vector<at::Tensor>& step, double rms, const std::string& name) {
  const auto rms_at = [&](double length) {
    move_weights(step, length);
    return rms_of(hidden_at(*working_, bank_.rollout, bank_.states_S), working_->head_VH);
  };
  double low = 0, low_rms = 0, high = 0, high_rms = 0;  // high 0: none known
  double length = 1;
  for (int trial = 0; trial < kLengthTrials; ++trial) {
    const double reached = rms_at(length);
    if (!std::isfinite(reached) || (reached == 0 && length > 1e6)) break;
    if (std::abs(reached / rms - 1) <= kRmsTolerance) return length;
    (reached < rms ? low : high) = length;
    (reached < rms ? low_rms : high_rms) = reached;
    if (high == 0) {
      length = reached > 0 ? length * std::min(rms / reached, 64.0) : length * 64;
    } else {
      const double share = (rms - low_rms) / (high_rms - low_rms);
      length = low + (high - low) * std::clamp(share, 0.02, 0.98);
    }
  }
  throw UserError(
      "{}: no length of its update moves the bank's pairs by an RMS of {:.4g}; has it a gradient?", name,
      rms);
}

}  // namespace routeopd::probe
