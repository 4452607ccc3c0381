// New weights of the same shape, taken over between requests: POST /v1/reload {"path", "version"}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "routeopd/engine/request_queue.h"
#include "routeopd/serve/service.h"

namespace routeopd::serve {

class Reloader {
 public:
  // `root`: directories are taken from below it alone; empty: never. `model` has the engine's own weights.
  Reloader(engine::RequestQueue& queue, model::Model& model, const std::filesystem::path& root);

  // Reads the weights of a model directory beside those in use, then puts them in their place: requests that
  // came before end with the old ones, those after it begin with the new. Throws ApiError, and UserError
  // naming the file; the weights are then as they were.
  void reload(const std::string& path, std::int64_t version);

 private:
  std::filesystem::path checked(const std::string& path) const;

  engine::RequestQueue& queue_;
  model::Model& model_;
  std::filesystem::path root_;  // canonical
  std::mutex one_at_a_time_;
};

void answer_reload(Service& service, const Call& call, Reloader& reloader);

}  // namespace routeopd::serve
