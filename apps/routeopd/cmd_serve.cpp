// routeopd serve: an OpenAI-compatible server on the local engine, with exact scoring for distillation.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>

#include "command.h"
#include "loaded_model.h"
#include "routeopd/base/display.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/run_apart.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/request_queue.h"
#include "routeopd/net/http_server.h"
#include "routeopd/serve/binary.h"
#include "routeopd/serve/service.h"
#include "routeopd/table/visible_text.h"
#include "routeopd/text/chat_template_files.h"

namespace routeopd::app {
namespace {

using std::chrono::milliseconds;

struct ServeArguments {
  std::string model, host = "127.0.0.1", name, weights = "exact", key_variable, reload_root;
  std::uint16_t port = 8000;
  std::uint64_t kv_memory = 0, most_body = 64'000'000;
  std::int64_t weights_version = 0, most_requests = 256, most_connections = 4096;
  serve::Limits limits;
  double read_seconds = 30, drain = 30;
  bool access_log = false, log_prompts = false, quiet = false;
};

// Lines from several threads, whole.
void log_line(std::string_view line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::fprintf(stderr, "%s %s\n", text.data(), table::visible(line).c_str());
}

std::string key_of(const std::string& variable) {
  if (variable.empty()) return {};
  const char* const key = std::getenv(variable.c_str());
  if (key == nullptr || *key == '\0')
    throw UserError("--api-key-env: the environment has no variable {}, or it is empty", variable);
  return key;
}

std::string default_name(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

milliseconds milliseconds_of(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void run_serve(const ServeArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that goes away takes nothing with it
  const std::string key = key_of(arguments.key_variable);
  if (!arguments.reload_root.empty() && !std::filesystem::is_directory(arguments.reload_root))
    throw UserError("--reload-root: {} is not a directory", arguments.reload_root);
  LoadedModel loaded = run_apart([&] { return LoadedModel(arguments.model); });
  const std::optional<text::ChatTemplates> templates = text::read_chat_templates(arguments.model);
  engine::LocalEngine engine(loaded.model, loaded.real_ids(),
                             {.kv_bytes = static_cast<std::int64_t>(arguments.kv_memory),
                              .storage = kStorages.at(arguments.weights),
                              .tokenizer = loaded.words()});
  engine::RequestQueue queue(
      engine, {.most_requests = arguments.most_requests, .weights_version = arguments.weights_version});
  const std::string name = arguments.name.empty() ? default_name(arguments.model) : arguments.name;
  serve::Service service({.model = {.name = name,
                                    .root = name,
                                    .tokenizer = loaded.words(),
                                    .templates = templates ? &*templates : nullptr,
                                    .real_ids = loaded.real_ids(),
                                    .hidden_size = loaded.model.config.hidden_size,
                                    .positions = loaded.model.config.max_position_embeddings,
                                    .eos_ids = loaded.model.config.eos_token_ids,
                                    .defaults = serve::read_generation_defaults(arguments.model)},
                          .limits = arguments.limits,
                          .version = ROUTEOPD_VERSION,
                          .key = key,
                          .log = arguments.access_log ? log_line : std::function<void(std::string_view)>(),
                          .faults = log_line,
                          .log_prompts = arguments.log_prompts},
                         serve::backend_of(queue));
  serve::add_binary_routes(service,
                           {.queue = queue, .model = loaded.model, .reload_root = arguments.reload_root});
  for (const std::string& setting : service.model().defaults.ignored)
    if (!arguments.quiet)
      log_line("routeopd: generation_config.json: " + setting + " is not supported and ignored");
  net::HttpServer server(
      {.host = arguments.host,
       .port = arguments.port,
       .most_connections = arguments.most_connections,
       .most_body_bytes = static_cast<std::int64_t>(arguments.most_body),
       .most_bytes_of_all_bodies = std::max(net::ServerOptions().most_bytes_of_all_bodies,
                                            static_cast<std::int64_t>(arguments.most_body)),
       .read_time = milliseconds_of(arguments.read_seconds),
       .error_body = serve::Service::server_error_body,
       .own_answer = [&](int status, std::string_view client) { return service.own_answer(status, client); },
       .log = log_line},
      service.handler());

  const bool is_ip6 = arguments.host.find(':') != std::string::npos;
  const engine::KvPlan& kv = queue.kv();
  if (!arguments.quiet) {
    fmt::print("serving {} at http://{}:{}: {} parameters, {} reserved for keys and values ({} tokens)\n",
               name, is_ip6 ? "[" + arguments.host + "]" : arguments.host, server.port(),
               grouped(loaded.model.parameter_count()), byte_text(kv.bytes()),
               grouped(kv.blocks * kernels::kBlockPositions));
    std::fflush(stdout);
  }
  try {
    while (true) {
      check_interrupt();
      std::this_thread::sleep_for(milliseconds(50));
    }
  } catch (const Interrupted&) {
    // A second signal ends the process at once.
  }
  const std::int64_t left = queue.stats().running + queue.stats().waiting;
  if (!arguments.quiet && left > 0)
    log_line(
        fmt::format("routeopd: finishing what is under way ({}) within {:g} s; a second signal ends at once",
                    left, arguments.drain));
  server.stop_accepting();
  queue.stop(milliseconds_of(arguments.drain));
  server.stop(std::chrono::seconds(5));  // for the last answers to go out
}

void add_limits(CLI::App& app, ServeArguments& arguments) {
  serve::Limits& limits = arguments.limits;
  app.add_option("--max-body", arguments.most_body, "Largest body of a request, such as 64MB; else 413")
      ->transform(size_in_bytes())
      ->check(CLI::Range(1e3, 1e12))
      ->capture_default_str();
  app.add_option("--max-prompt", limits.most_prompt_tokens, "Longest prompt, in tokens; else 400")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--max-tokens", limits.most_new_tokens, "Longest response, in tokens; else 400")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--max-n", limits.most_n, "Most responses per prompt; else 400")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--max-requests", arguments.most_requests,
                 "Most requests that are served or wait at a time; else 429 with Retry-After")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-connections", arguments.most_connections, "Most open connections")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-seconds", limits.seconds, "Longest a request may take from its arrival on; else 504")
      ->check(between(0.001, 1e7))
      ->capture_default_str();
  app.add_option("--read-seconds", arguments.read_seconds, "Longest a request may take to arrive; else 408")
      ->check(between(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--drain", arguments.drain, "Seconds to finish what is under way after SIGTERM or Ctrl-C")
      ->check(between(0, 1e6))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  const auto arguments = std::make_shared<ServeArguments>();
  app.add_option("model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--port", arguments->port, "0: any that is free")->capture_default_str();
  app.add_option("--host", arguments->host, "Address to listen at; 0.0.0.0 and :: let other machines in")
      ->capture_default_str();
  app.add_option("--name", arguments->name, "What clients call the model; the directory's name unless given");
  add_engine_memory_options(app, arguments->kv_memory, arguments->weights);
  app.add_option("--api-key-env", arguments->key_variable,
                 "Environment variable with the key that clients of /v1 must send");
  app.add_option("--reload-root", arguments->reload_root,
                 "POST /v1/reload takes new weights from directories below it; off without it");
  app.add_option("--weights-version", arguments->weights_version,
                 "Number that answers give for these weights")
      ->check(CLI::Range(0.0, 9e15))
      ->capture_default_str();
  add_limits(app, *arguments);
  app.add_flag("--access-log", arguments->access_log,
               "A line per request on standard error, without prompts");
  app.add_flag("--log-prompts", arguments->log_prompts, "Prompts in these lines, too")->needs("--access-log");
  app.add_flag("--quiet", arguments->quiet, "No line when ready");
  app.footer(
      "Speaks /v1/completions, /v1/chat/completions, /v1/models, /tokenize, /detokenize, /health, /version, "
      "/metrics, and for\n"
      "distillation /v1/score, /v1/generate, /v1/gather and /v1/reload; docs/serve.md has each.\n\n"
      "Example:\n"
      "  routeopd serve lab/teacher --port 8000 &\n"
      "  curl -s --retry 9 --retry-connrefused http://127.0.0.1:8000/v1/completions \\\n"
      "    -H 'Content-Type: application/json' \\\n"
      "    -d '{\"prompt\": \"Problem:\", \"max_tokens\": 20, \"seed\": 1}'");
  app.callback([arguments] { run_serve(*arguments); });
}

}  // namespace routeopd::app
