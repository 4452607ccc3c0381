// An engine on servers: `routeopd serve`, vLLM or SGLang, one or several. What is asked is cut into requests
// (remote/fleet.h spreads and repeats them), each answer is checked for the weights that computed it, and
// all are laid out in the order of the rollout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "routeopd/engine/remote/fleet.h"

namespace routeopd::engine {

struct RemoteOptions {
  std::string section;  // of the recipe, for messages: "rollout", "teacher"
  FleetOptions fleet;
  ServerNeeds needs;

  // For a model that learns: where its weights go, seen by the servers under the same name, and who writes
  // them into a directory that does not exist yet (`own_head`: a tied LM head under its own name, too).
  // Without the latter the servers' weights are taken as they are.
  std::filesystem::path weights_root;
  bool own_root = false;  // nobody else uses it: removed at the end
  std::string run;        // its name; what a killed process of the same run left under it is removed
  std::function<void(const std::filesystem::path& directory, bool own_head)> write_weights;
};

class RemoteEngine : public Engine {
 public:
  // Asks the servers what they are. Throws UserError where one cannot be reached or used.
  RemoteEngine(std::unique_ptr<ServerApi> api, std::int32_t real_ids, RemoteOptions options);
  ~RemoteEngine() override;  // removes the weights that it wrote

  // Writes the weights and lets the servers read them, under a version that no other weights ever had.
  void refresh() override;

  std::int32_t real_ids() const override { return real_ids_; }
  Capabilities capabilities() const override { return api_->capabilities(); }
  std::string name() const override { return api_->name(); }
  std::map<std::string, std::int64_t> take_counts() override;
  void tell_to(std::function<void(const std::string&)> log) override { fleet_.tell_to(std::move(log)); }

 protected:
  Rollout write_responses(std::span<const Prompt> prompts, const Sampling& sampling, const Capture& capture,
                          const Watch& watch) override;
  Answer read_responses(const Rollout& rollout, const ScoreRequest& request) override;

  // From hidden states where the servers gave them, else by reading again.
  Answer gather_values(const Rollout& rollout, std::span<const std::int32_t> ids_NG,
                       std::int64_t columns) override;

 private:
  std::string weights_prefix() const;  // of the names of this run's directories
  void check_version(const Connection& server, std::optional<std::int64_t> version);
  void add_counts(const Counts& counts);
  std::int64_t most_bytes(std::int64_t rows, std::int64_t k, std::int64_t columns) const;

  std::unique_ptr<ServerApi> api_;
  std::int32_t real_ids_;
  RemoteOptions options_;
  Fleet fleet_;
  std::int64_t next_version_;
  std::optional<ServedWeights> weights_;      // that the servers must have
  std::mutex mutex_;                          // of what follows
  std::optional<std::int64_t> seen_version_;  // where the weights are the servers' own
  Counts counts_;
};

}  // namespace routeopd::engine
