// The ladder of interventions on a state bank, from logits set by hand down to an optimizer's update of the
// shared weights, each followed by an exact full-vocabulary rescoring. The student itself is never touched:
// updates are tried on a copy. States that the bank has no route for are measured in no row.
//
//   pair_isolated       each drawn pair by itself: z_b + t/2, z_a - t/2; a state has the mean over its pairs
//   potential_wide      z_v + phi(v) at every v of U: all pair targets of the state at once
//   potential_matched   the same shift, scaled to the matched RMS, where there is one
//   fresh_adamw, saved_adamw, sgd   one update on the gradient over all states of the bank
//
// Updates are scaled by their length to one matched RMS over all frozen pairs of the bank, so that arms
// differ in where probability goes and not in how far. It is that of RouteOPD's fresh-AdamW update at the
// learning rate, unless MatchedSize says otherwise.
//
// Shapes: S states of the bank, V rows of the student's LM head and H its hidden size, U and X the teacher's,
// R real ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/model/model.h"
#include "routeopd/probe/arm_statistics.h"
#include "routeopd/probe/bank.h"
#include "routeopd/probe/changes.h"
#include "routeopd/probe/measure.h"
#include "routeopd/probe/parameter_step.h"
#include "routeopd/probe/state_scores.h"
#include "routeopd/train/recipe.h"

namespace routeopd::probe {

enum class Intervention {
  kPairIsolated,
  kPotentialWide,
  kPotentialMatched,
  kFreshAdamW,
  kSavedAdamW,
  kSgd,
};
inline constexpr std::array kInterventions = {Intervention::kPairIsolated,     Intervention::kPotentialWide,
                                              Intervention::kPotentialMatched, Intervention::kFreshAdamW,
                                              Intervention::kSavedAdamW,       Intervention::kSgd};
std::string_view name_of(Intervention intervention);
// Throws UserError with the names there are.
Intervention intervention_of(const std::string& name);

// An objective under a name: "routeopd-k64".
struct ProbeArm {
  std::string name;
  routing::ObjectiveOptions objective;
};

// The RMS change of log-odds over the frozen pairs to which updates are scaled.
struct MatchedSize {
  enum class Kind {
    kRouteOpd,  // of RouteOPD's fresh-AdamW update at the learning rate
    kTargets,   // of the frozen pairs' targets: a step of the size of its targets
    kGiven,     // `rms`
    kNone       // updates stay as they are at the learning rate
  };
  Kind kind = Kind::kRouteOpd;
  double rms = 0;  // log-odds, for kGiven
};
// "routeopd", "targets", "given", "none".
std::string_view name_of(MatchedSize::Kind kind);
// Of --rms: one of these words but "given", or a number over 0. Throws UserError for anything else.
MatchedSize matched_size_of(const std::string& word);

struct ProbeRow {
  std::string name;
  Intervention intervention = Intervention::kFreshAdamW;
  double scale = 1;  // of the shift or the update
  double rms = 0;    // of the log-odds change over the bank's frozen pairs; over its own for pair_isolated
  Changes changes;   // pairs: the arm's own where it draws pairs, else the bank's
};

class Prober {
 public:
  // `optimizer` gives learning rate, clip and AdamW's settings. `saved` may be null, and must outlive the
  // prober. With `banks_own` the student is the one that wrote the bank, and the bank's frozen values serve;
  // otherwise they are made anew for it on the same states.
  Prober(const Bank& bank, const model::Model& student, const at::Tensor& teacher_head_UX,
         const train::OptimizerSection& optimizer, bool banks_own, const SavedMoments* saved = nullptr,
         const MatchedSize& size = {});

  const Frozen& frozen() const { return *frozen_; }
  Endpoint before() const { return {before_SH_, student_.head_VH}; }

  // Whether the arm has what the intervention needs: pairs, a shared potential, saved moments, a size to
  // match.
  bool applies(const ProbeArm& arm, Intervention intervention) const;

  // What the arm asks for at the bank's states, before any step.
  ArmStatistics statistics(const ProbeArm& arm) const;

  std::optional<double> matched_rms();  // none: MatchedSize::Kind::kNone
  ProbeRow run(const ProbeArm& arm, Intervention intervention, const AfterRow& after = {});

  // One unscaled fresh-AdamW update of the arm at each learning rate. The gradient is formed once: the update
  // is the rate times a direction that does not depend on it, weight decay included. Of the changes the pairs
  // alone are measured, from the rows of the head that they name.
  struct UpdateAtRate {
    double lr = 0;
    double rms = 0;  // over the bank's frozen pairs
    Changes changes;
  };
  std::vector<UpdateAtRate> updates_at(const ProbeArm& arm, std::span<const double> rates);

  const Bank& bank() const { return bank_; }

 private:
  struct ArmData;
  ArmData data_of(const ProbeArm& arm) const;
  routing::reference::Transport problem_of(const ArmData& data, std::size_t s,
                                           std::span<const float> before_R,
                                           std::span<const float> teacher_R) const;
  void own_pairs(const ArmData& data, Changes& changes) const;
  ProbeRow run_direct(const ProbeArm& arm, Intervention intervention, const AfterRow& after);
  ProbeRow run_update(const ProbeArm& arm, StepRule rule, std::optional<double> rms, const AfterRow& after);
  // Calls `use` with the change of every parameter that one update on the arm's gradient would make.
  void with_step(const ArmData& data, StepRule rule, const train::OptimizerSection& optimizer,
                 const std::function<void(const std::vector<at::Tensor>& step)>& use);
  void shift_logits(const ArmData& data, double scale, ProbeRow& row, const AfterRow& seen) const;
  void isolate_pairs(ProbeRow& row, const AfterRow& seen) const;
  void move_weights(const std::vector<at::Tensor>& step, double scale);
  double rms_of(const at::Tensor& hidden_SH, const at::Tensor& head_VH) const;
  double length_for(const std::vector<at::Tensor>& step, double rms, const std::string& name);

  const Bank& bank_;
  const model::Model& student_;
  at::Tensor teacher_head_UX_;
  train::OptimizerSection optimizer_;
  const SavedMoments* saved_;
  MatchedSize size_;
  at::Tensor before_SH_;
  std::unique_ptr<ScoringHeads> heads_;
  std::optional<Frozen> refrozen_;
  const Frozen* frozen_;
  at::Tensor source_SM_, destination_SM_, odds_before_SM_;  // the frozen pairs
  std::optional<model::Model> working_;                     // where updates are tried
  std::optional<double> matched_rms_;
};

}  // namespace routeopd::probe
