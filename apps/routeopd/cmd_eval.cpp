// routeopd eval: sample, grade, summarise.
//
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>

#include "command.h"
#include "progress.h"
#include "routeopd/base/sha256.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/eval/evaluate.h"
#include "routeopd/report/text_table.h"

namespace routeopd::app {
namespace {

constexpr std::int64_t kMostNew = 16384;

struct EvalArguments {
  std::string model, out;
  std::vector<std::string> suites;
  eval::Protocol protocol;
  OutputFlags output;
};

// NAME=FILE, or FILE alone under its stem.
std::pair<std::string, std::string> suite_argument(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return {std::filesystem::path(word).stem().string(), word};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// What summary.json says of the model: where it lies, what its weights are, and the step of a run's checkpoint.
Json model_json(const std::filesystem::path& directory) {
  Json model = {{"path", directory.string()}, {"weights", sha256_of_file(directory / "model.safetensors")}};
  const std::string name = std::filesystem::path(directory / "").parent_path().filename().string();
  if (name.starts_with("step_")) model["step"] = value_of_word(name.substr(5));
  return model;
}

void print_summary(const Json& summary) {
  using report::Align;
  report::TextTable table({{"suite", Align::kLeft},
                           {"problems", Align::kRight},
                           {"samples", Align::kRight},
                           {"Avg %", Align::kRight},
                           {"95 %", Align::kRight},
                           {"tokens", Align::kRight},
                           {"clipped %", Align::kRight},
                           {"format %", Align::kRight}});
  for (const auto& [name, suite] : summary["suites"].items()) {
    const auto percent = [&](const Json& share) { return fmt::format("{:.2f}", 100 * share.get<double>()); };
    table.add({name, suite["n"].dump(), suite["samples"].dump(), percent(suite["avg"]),
               fmt::format("[{}, {}]", percent(suite["avg_interval"][0]), percent(suite["avg_interval"][1])),
               fmt::format("{:.1f}", suite["length"]["mean"].get<double>()), percent(suite["clip_rate"]),
               percent(suite["format_rate"])});
  }
  std::cout << table.text();
}

void run_eval(const EvalArguments& arguments) {
  const text::Tokenizer tokenizer(arguments.model);
  std::vector<eval::Suite> suites;
  for (const std::string& word : arguments.suites) {
    const auto [name, path] = suite_argument(word);
    if (name.empty() || path.empty()) throw UserError("--suite {}: expected NAME=FILE", word);
    for (const eval::Suite& other : suites) {
      if (other.name == name)
        throw UserError("--suite: {} is named twice; give NAME=FILE with different names", name);
    }
    suites.push_back(eval::read_suite(name, path, arguments.protocol, arguments.model, tokenizer));
  }
  const model::Model model = model::load_model(arguments.model);
  eval::Protocol protocol = arguments.protocol;
  protocol.max_new_tokens = kMostNew;  // what every suite's longest prompt leaves
  for (const eval::Suite& suite : suites) {
    const std::int64_t most = protocol.max_new_tokens;
    protocol.max_new_tokens =
        engine::longest_response(model, suite.prompts, arguments.protocol.max_new_tokens, most);
  }
  engine::LocalEngine engine(model, tokenizer.real_ids());
  std::unique_ptr<Progress> progress;
  const auto watch = [&](const eval::Suite& suite) -> engine::Watch {
    progress.reset();  // the line of the suite before
    progress = std::make_unique<Progress>("eval " + suite.name, std::ssize(suite.prompts) * protocol.n,
                                          arguments.output.quiet);
    return [&](std::int64_t done, std::int64_t, const Rollout&) { progress->update(done, "responses"); };
  };
  const Json summary = eval::evaluate_into(arguments.out, engine, suites, protocol, tokenizer,
                                           model_json(arguments.model), watch)
                           .summary;
  progress.reset();
  if (arguments.output.json) {
    std::cout << summary.dump() << '\n';
  } else if (!arguments.output.quiet) {
    print_summary(summary);
  }
}

}  // namespace

void add_eval(CLI::App& app) {
  const auto arguments = std::make_shared<EvalArguments>();
  eval::Protocol& protocol = arguments->protocol;
  protocol.max_new_tokens = 0;
  app.add_option("--model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--suite", arguments->suites, "NAME=FILE: problems with answers, JSONL; may be repeated")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--out", arguments->out, "Eval directory; must not exist")->required();
  add_decoding_options(app, protocol.prompt_template, protocol.temperature, protocol.top_p);
  app.add_option("--n", protocol.n, "Samples a problem")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--max-new", protocol.max_new_tokens,
                 "Longest response, in tokens; 0: 16384, or what the model's positions leave")
      ->check(CLI::Range(0, 1 << 24))
      ->default_str("0");
  app.add_option("--seed", protocol.seed, "Seed of the addressed random numbers")->capture_default_str();
  add_output_flags(app, arguments->output);
  app.footer(
      "Writes responses.jsonl and summary.json. `routeopd compare A B` contrasts two such directories.\n\n"
      "Example:\n"
      "  routeopd eval --model lab/teacher --suite heldout=lab/heldout.jsonl --out runs/eval-teacher \\\n"
      "    --template $'Problem: {problem}\\nSolution:' --max-new 80");
  app.callback([arguments] { run_eval(*arguments); });
}

}  // namespace routeopd::app
