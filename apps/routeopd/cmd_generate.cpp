// routeopd generate: batched sampling. Prompts in, responses out, JSONL.
//
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "line_output.h"
#include "progress.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/text/prompts.h"

namespace routeopd::app {
namespace {

struct GenerateArguments {
  std::string model, in = "-", out = "-";
  std::string prompt_template = "raw";
  std::int32_t n = 1, top_k = 0, k = 0;
  double temperature = 1, top_p = 1;
  std::int64_t max_new = 0;
  std::uint64_t seed = 42;
  bool show = false;
  OutputFlags output;
};

Json line_of(const Rollout& rollout, const Response& response, const Prompt& prompt,
             const text::Tokenizer* tokenizer) {
  const auto first = static_cast<std::size_t>(response.first_state),
             count = static_cast<std::size_t>(response.length);
  const std::span ids = std::span(rollout.id_N).subspan(first, count);
  Json line = {{"id", prompt.id},
               {"sample", response.sample},
               {"prompt_ids", prompt.ids},
               {"ids", ids},
               {"logprobs", std::span(rollout.logprob_N).subspan(first, count)}};
  if (tokenizer != nullptr) line["text"] = tokenizer->decode(ids, /*skip_special=*/true);
  line["finish"] = response.finish == Finish::kStop ? "stop" : "length";
  if (rollout.columns == 0) return line;
  Json top_ids = Json::array(), top_logprobs = Json::array();
  const auto k = static_cast<std::size_t>(rollout.columns);
  for (std::size_t n = first; n < first + count; ++n) {
    top_ids.push_back(std::span(rollout.top_ids_NK).subspan(n * k, k));
    Json& row = top_logprobs.emplace_back(Json::array());
    for (std::size_t i = 0; i < k; ++i)
      row.push_back(rollout.top_logits_NK[n * k + i] - rollout.logsumexp_N[n]);
  }
  line["top"] = {{"ids", top_ids}, {"logprobs", top_logprobs}};
  return line;
}

void run_generate(const GenerateArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out);
  const model::Model model = model::load_model(arguments.model);
  std::optional<text::Tokenizer> tokenizer;
  if (std::filesystem::exists(std::filesystem::path(arguments.model) / "tokenizer.json"))
    tokenizer.emplace(arguments.model);
  const text::Tokenizer* words = tokenizer ? &*tokenizer : nullptr;
  const std::vector<Prompt> prompts = text::read_prompts(
      arguments.in, text::PromptTemplate(arguments.prompt_template, arguments.model), words);
  engine::LocalEngine engine(
      model, words != nullptr ? words->real_ids() : static_cast<std::int32_t>(model.config.vocab_size));
  const engine::Sampling sampling{
      .n = arguments.n,
      .decoding = {arguments.temperature, arguments.top_p, arguments.top_k},
      .max_new_tokens = engine::longest_response(model, prompts, arguments.max_new, 256),
      .seed = arguments.seed};
  LineOutput output(arguments.out);
  Rollout rollout;
  {
    Progress progress("generate", std::ssize(prompts) * arguments.n, arguments.output.quiet);
    rollout = engine.generate(prompts, sampling, {.k = arguments.k},
                              [&](std::int64_t done, std::int64_t) { progress.update(done, "responses"); });
  }
  for (const Response& response : rollout.responses_B) {
    const Prompt& prompt = prompts[static_cast<std::size_t>(response.prompt)];
    const Json line = line_of(rollout, response, prompt, words);
    if (!output.to_file() && arguments.show && words != nullptr) {
      std::cout << prompt.text << line["text"].get<std::string>() << "\n\n";
    } else {
      output.write(line);
    }
  }
  output.commit();
}

}  // namespace

void add_generate(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateArguments>();
  app.add_option("--model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--in", arguments->in, "Prompts, JSONL; - is standard input")->capture_default_str();
  app.add_option("--out", arguments->out, "Responses, JSONL; - is standard output")->capture_default_str();
  app.add_option("--template", arguments->prompt_template,
                 "How a problem is asked: chat, raw, or a text with {problem}")
      ->capture_default_str();
  app.add_option("--n", arguments->n, "Responses a prompt")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--temperature", arguments->temperature, "0 is greedy")
      ->check(between(0, 100))
      ->capture_default_str();
  app.add_option("--top-p", arguments->top_p, "Share of the most likely ids that is sampled from")
      ->check(between(1e-6, 1))
      ->capture_default_str();
  app.add_option("--top-k", arguments->top_k, "Most likely ids that are sampled from; 0: all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--max-new", arguments->max_new,
                 "Longest response, in tokens; 0: 256, or what the model's positions leave")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--seed", arguments->seed, "Seed of the addressed random numbers")->capture_default_str();
  app.add_option("--k", arguments->k, "Keep the k most likely ids of every token, at temperature 1")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_flag("--show", arguments->show, "Print prompts and responses as text");
  add_output_flags(app, arguments->output);
  app.footer(
      "Example:\n"
      "  routeopd generate --model lab/teacher --in lab/heldout.jsonl --out responses.jsonl \\\n"
      "    --template $'Problem: {problem}\\nSolution:' --n 4 --temperature 0.7 --top-p 0.95 --max-new 80");
  app.callback([arguments] { run_generate(*arguments); });
}

}  // namespace routeopd::app
