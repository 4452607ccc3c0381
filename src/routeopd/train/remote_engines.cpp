// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/remote_engines.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "routeopd/engine/remote/remote_engine.h"
#include "routeopd/model/model_files.h"
#include "routeopd/net/url.h"
#include "routeopd/train/route_rollout.h"

namespace routeopd::train {
namespace {

namespace fs = std::filesystem;

std::string key_of(const ServersSection& servers, const std::string& section) {
  if (servers.api_key_env.empty()) return {};
  const char* const key = std::getenv(servers.api_key_env.c_str());
  if (key == nullptr || *key == '\0')
    throw UserError("[{}] api_key_env: the environment has no {}; set it to the servers' key", section,
                    servers.api_key_env);
  const std::string text = key;
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x21 || c > 0x7e; }))
    throw UserError("[{}] api_key_env: the key in {} has characters that a header cannot carry", section,
                    servers.api_key_env);
  return text;
}

std::vector<net::Endpoint> endpoints_of(const ServersSection& servers, const std::string& section) {
  if (servers.urls.empty())
    throw UserError(
        "[{}] urls: missing; expected the addresses of its servers, such as "
        "[\"http://127.0.0.1:8000\"]",
        section);
  std::vector<net::Endpoint> endpoints;
  std::set<std::string> seen;
  for (const std::string& url : servers.urls) {
    try {
      endpoints.push_back(net::read_endpoint(url));
    } catch (const UserError& error) {
      throw UserError("[{}] urls: {}", section, error.what());
    }
    net::Endpoint& endpoint = endpoints.back();
    if (endpoint.url.ends_with("/v1"))
      endpoint.url.resize(endpoint.url.size() - 3);  // as OpenAI's clients say it
    if (!seen.insert(endpoint.url).second)
      throw UserError("[{}] urls: {} stands there twice", section, endpoint.url);
    if (!servers.api_key_env.empty() && !endpoint.encrypted && !endpoint.loopback)
      throw UserError(
          "[{}] urls: the key would cross the network unencrypted to {}; use https or a tunnel to 127.0.0.1",
          section, endpoint.url);
  }
  return endpoints;
}

std::unique_ptr<engine::ServerApi> api_of(EngineKind kind, std::int32_t real_ids) {
  switch (kind) {
    case EngineKind::kServe:
      return engine::make_serve_api();
    case EngineKind::kVllm:
      return engine::make_vllm_api(real_ids);
    case EngineKind::kSglang:
      return engine::make_sglang_api(real_ids);
    case EngineKind::kLocal:
      break;
  }
  ROUTEOPD_INVARIANT(false);
  return nullptr;
}

engine::RemoteOptions options_of(const Recipe& recipe, const Inputs& inputs, const ServersSection& servers,
                                 const std::string& section) {
  engine::RemoteOptions options;
  options.section = section;
  options.fleet = {.servers = endpoints_of(servers, section),
                   .key = key_of(servers, section),
                   .patience = servers.patience,
                   .requests = servers.requests,
                   .request_seconds = servers.request_seconds};
  options.needs = {.k = recipe.makes_routes() ? capture_options(recipe.objective).k : 0,
                   .real_ids = inputs.real_ids};
  return options;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Before the run makes anything of its own.
void check_weights_root(const fs::path& root) {
  std::error_code error;
  fs::create_directories(root, error);
  if (!error && access(root.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error)
    throw UserError(
        "[rollout] weights: {} cannot be written to ({}); expected a directory that trainer and servers see "
        "under one name",
        root.string(), error.message());
}

}  // namespace

void check_apart(const ServersSection& rollout, const ServersSection& teacher, const std::string& section) {
  if (rollout.engine == EngineKind::kLocal || teacher.engine == EngineKind::kLocal) return;
  for (const net::Endpoint& one : endpoints_of(rollout, "rollout"))
    for (const net::Endpoint& other : endpoints_of(teacher, section))
      if (one.url == other.url)
        throw UserError(
            "[{}] urls: {} is in [rollout] too, whose weights change after every step; expected a server of "
            "the teacher's own",
            section, other.url);
}

void check_servers(const ServersSection& servers, const std::string& section) {
  if (servers.engine == EngineKind::kLocal) {
    if (!servers.urls.empty())
      throw UserError(
          "[{}] urls: the local engine has no servers; choose engine = \"serve\", \"vllm\" or "
          "\"sglang\"",
          section);
    return;
  }
  endpoints_of(servers, section);
  key_of(servers, section);
}

Recipe with_share_of_servers(Recipe recipe, int rank, int size) {
  const auto first = static_cast<std::size_t>(rank), step = static_cast<std::size_t>(size);
  const auto take = [&](ServersSection& servers) {
    std::vector<std::string> own;
    for (std::size_t i = first; i < servers.urls.size(); i += step) own.push_back(servers.urls[i]);
    if (own.empty() && !servers.urls.empty()) own.push_back(servers.urls[first % servers.urls.size()]);
    servers.urls = std::move(own);
  };
  if (recipe.rollout.engine != EngineKind::kLocal && !recipe.sft() && recipe.rollout.urls.size() < step)
    throw UserError("[rollout] urls: {} servers for {} ranks; expected one at least for each rank",
                    recipe.rollout.urls.size(), size);
  take(recipe.rollout);
  take(recipe.teacher);
  for (auto& [name, teacher] : recipe.teachers) take(teacher);
  return recipe;
}

std::unique_ptr<engine::Engine> make_remote_student(const Recipe& recipe, const Inputs& inputs, int rank) {
  engine::RemoteOptions options = options_of(recipe, inputs, recipe.rollout, "rollout");
  options.needs.writes = options.needs.reloads = true;
  options.needs.tied_head = inputs.student.config.tie_word_embeddings;
  std::int64_t longest = 0;
  for (const Prompt& prompt : inputs.prompts) longest = std::max(longest, std::ssize(prompt.ids));
  options.needs.positions = longest + recipe.rollout.max_new_tokens;
  options.weights_root =
      recipe.rollout.weights.empty() ? fs::path(recipe.out) / "weights" : fs::path(recipe.rollout.weights);
  options.own_root = recipe.rollout.weights.empty();
  // Runs of other machines may have the same name.
  options.run = host_name() + ":" + fs::absolute(recipe.out).lexically_normal().string();
  if (rank > 0) options.run += fmt::format(":{}", rank);
  // As the learner's forward reads them.
  const at::ScalarType dtype = recipe.student.dtype == Dtype::kBfloat16 ? at::kBFloat16 : at::kFloat;
  options.write_weights = [&student = inputs.student, like = model::CarriedFiles(recipe.student.path), dtype](
                              const fs::path& directory, bool own_head) {
    model::save_model(student, directory, like, {.dtype = dtype, .own_head = own_head});
  };
  if (!options.own_root) check_weights_root(options.weights_root);
  return std::make_unique<engine::RemoteEngine>(api_of(recipe.rollout.engine, inputs.real_ids),
                                                inputs.real_ids, std::move(options));
}

std::unique_ptr<engine::Engine> make_remote_teacher(const Recipe& recipe, const Inputs& inputs,
                                                    std::int32_t teacher) {
  const RunTeacher named = recipe.run_teachers().at(static_cast<std::size_t>(teacher));
  engine::RemoteOptions options = options_of(recipe, inputs, *named.section, named.section_name());
  std::int64_t longest = 0;  // of the prompts that it reads
  for (const Prompt& prompt : inputs.prompts)
    if (prompt.teacher == teacher)
      longest = std::max(longest, std::ssize(prompt.teacher_ids.empty() ? prompt.ids : prompt.teacher_ids));
  options.needs.positions = longest + recipe.rollout.max_new_tokens;
  return std::make_unique<engine::RemoteEngine>(api_of(named.section->engine, inputs.real_ids),
                                                inputs.real_ids, std::move(options));
}

}  // namespace routeopd::train
