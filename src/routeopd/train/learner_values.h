// The learner's own values at the states of a rollout, by the forward that its gradients come from: in its
// type, packed as its minibatches are. It answers as an engine that scores, so that the scoring stage can ask
// it in place of the engine that wrote.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "routeopd/engine/engine.h"
#include "routeopd/model/model.h"
#include "routeopd/train/minibatches.h"

namespace routeopd::train {

struct LearnerValuesOptions {
  std::int64_t micro_tokens = 16384;
  std::int32_t minibatches = 1;  // forwards never cross one, and so round as the learner's do
  StepSize step{};
};

class LearnerValues : public engine::Engine {
 public:
  // `working` is read as it is at each call; it must outlive this.
  LearnerValues(const model::Model& working, std::int32_t real_ids, LearnerValuesOptions options)
      : working_(working), real_ids_(real_ids), options_(options) {}

  void refresh() override {}
  std::int32_t real_ids() const override { return real_ids_; }
  engine::Capabilities capabilities() const override { return {.hidden_states = true}; }
  std::string name() const override { return "learner"; }

 protected:
  // It does not write.
  Rollout write_responses(std::span<const Prompt> prompts, const engine::Sampling& sampling,
                          const engine::Capture& capture, const engine::Watch& watch) override;
  engine::Answer read_responses(const Rollout& rollout, const engine::ScoreRequest& request) override;

  // From the hidden states that were kept when the rollout was scored.
  engine::Answer gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                               std::int64_t columns) override;

 private:
  const model::Model& working_;
  std::int32_t real_ids_;
  LearnerValuesOptions options_;
};

}  // namespace routeopd::train
