// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/reload.h"

#include <algorithm>
#include <chrono>

#include "routeopd/base/fields.h"
#include "routeopd/base/run_apart.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/model/model_files.h"
#include "routeopd/serve/errors.h"

namespace routeopd::serve {
namespace {

// What is computed with the weights must not change either.
void check_same_shape(const model::Model& now, const model::Model& wanted) {
  const formats::ModelConfig& config = wanted.config;
  if (config.model_type != now.config.model_type || config.rope != now.config.rope ||
      config.rms_norm_eps != now.config.rms_norm_eps || config.eos_token_ids != now.config.eos_token_ids ||
      config.num_attention_heads != now.config.num_attention_heads)
    throw UserError(
        "reload: the directory's config.json computes otherwise (architecture, heads, rope, norm or end of "
        "sequence) than the model that is served; start a server on it");
  const std::vector<model::Parameter> old = model::parameters(now), fresh = model::parameters(wanted);
  if (old.size() != fresh.size())
    throw UserError("reload: expected the {} weights of the model that is served, got {}", old.size(),
                    fresh.size());
  for (std::size_t i = 0; i < old.size(); ++i)
    if (old[i].name != fresh[i].name || old[i].tensor.sizes() != fresh[i].tensor.sizes())
      throw UserError("reload: expected {} of the shape that is served, got {} of another", old[i].name,
                      fresh[i].name);
}

}  // namespace

Reloader::Reloader(engine::RequestQueue& queue, model::Model& model, const std::filesystem::path& root)
    : queue_(queue), model_(model) {
  if (!root.empty()) root_ = std::filesystem::canonical(root);
}

// Links and .. are followed before the place is judged.
std::filesystem::path Reloader::checked(const std::string& path) const {
  if (root_.empty())
    throw ApiError(403,
                   "reload: off; start the server with --reload-root DIR to take weights from below DIR");
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::canonical(root_ / path, failed);
  const auto [rest, beyond] = std::mismatch(root_.begin(), root_.end(), place.begin(), place.end());
  if (failed || rest != root_.end())
    throw ApiError(403, "path: expected a directory below --reload-root", "path");
  return place;
}

void Reloader::reload(const std::string& path, std::int64_t version) {
  const std::filesystem::path directory = checked(path);
  const std::unique_lock lock(one_at_a_time_, std::try_to_lock);
  if (!lock) throw ApiError(409, "reload: another one is under way");
  const model::Model fresh = run_apart([&] { return model::load_model(directory); });
  check_same_shape(model_, fresh);
  queue_.between_requests(
      [&](engine::LocalEngine& engine) {
        model::copy_weights(fresh, model_);
        engine.refresh();
      },
      version);
}

void answer_reload(Service& service, const Call& call, Reloader& reloader) {
  const Json body = Json::parse(call.request.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) throw UserError("expected a JSON object with path and version");
  for (const auto& [name, value] : body.items())
    if (name != "path" && name != "version") throw ApiError(400, name + ": not known here", name);
  const Json& path = formats::value_or_null(body, "path");
  const Json& version = formats::value_or_null(body, "version");
  if (!path.is_string() || path.get<std::string>().find('\0') != std::string::npos)
    throw ApiError(400, "path: expected a text", "path");
  if (!version.is_number_integer() || version.get<double>() < 0 || version.get<double>() > 9e18)
    throw ApiError(400, "version: expected a whole number that is not negative", "version");
  const auto start = std::chrono::steady_clock::now();
  const auto number = version.get<std::int64_t>();
  reloader.reload(path.get<std::string>(), number);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  service.send_json(call, {{"seconds", seconds}, {"version", number}}, number);
}

}  // namespace routeopd::serve
