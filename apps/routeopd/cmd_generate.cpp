// routeopd generate: batched sampling. Prompts in, responses out, JSONL.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <memory>

#include "command.h"
#include "line_output.h"
#include "loaded_model.h"
#include "progress.h"
#include "routeopd/base/display.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/sequence.h"
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
  std::vector<std::string> stop;
  std::uint64_t kv_memory = 0;
  std::string weights = "exact";
  bool ignore_eos = false;
  bool show = false;
  OutputFlags output;
};

Json line_of(const Rollout& rollout, const Prompt& prompt, const tokenizer::Tokenizer* tokenizer,
             const std::vector<std::string>& stop) {
  const Response& response = rollout.responses_B.front();
  const auto first = static_cast<std::size_t>(response.first_state),
             count = static_cast<std::size_t>(response.length);
  const std::span ids = std::span(rollout.id_N).subspan(first, count);
  Json line = {{"id", prompt.id_json.empty() ? Json(prompt.id) : Json::parse(prompt.id_json)},
               {"sample", response.sample},
               {"prompt_ids", prompt.ids},
               {"ids", ids},
               {"logprobs", std::span(rollout.logprob_N).subspan(first, count)}};
  if (tokenizer != nullptr) {
    std::string text = tokenizer->decode(ids, /*skip_special=*/true);
    if (response.finish == Finish::kStop) text.resize(engine::find_stop(text, stop));  // as servers cut it
    line["text"] = std::move(text);
  }
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

void print_summary(const engine::GenerationStats& stats, std::int64_t responses, std::int64_t tokens,
                   double seconds, const GenerateArguments& arguments) {
  const std::int64_t peak = stats.peak_blocks * stats.kv.block_bytes;
  if (arguments.output.json) {
    std::cout << Json{{"responses", responses},
                      {"tokens", tokens},
                      {"tokens_read", stats.tokens_read},
                      {"steps", stats.steps},
                      {"evictions", stats.evictions},
                      {"kv_limit_bytes", stats.kv.bytes()},
                      {"kv_peak_bytes", peak},
                      {"seconds", seconds}}
                     .dump()
              << '\n';
  } else {
    fmt::print(
        "{} responses, {} tokens in {:.1f} s ({:.0f} tokens/s), at most {} of {} of keys and values in use; "
        "written to {}\n",
        responses, tokens, seconds, static_cast<double>(tokens) / seconds, byte_text(peak),
        byte_text(stats.kv.bytes()), arguments.out);
  }
}

void run_generate(const GenerateArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out);
  const LoadedModel loaded(arguments.model);
  const tokenizer::Tokenizer* const words = loaded.words();
  const std::vector<Prompt> prompts = text::read_prompts(
      arguments.in, text::PromptTemplate(arguments.prompt_template, arguments.model), words);
  engine::LocalEngine engine(loaded.model, loaded.real_ids(),
                             {.kv_bytes = static_cast<std::int64_t>(arguments.kv_memory),
                              .storage = kStorages.at(arguments.weights),
                              .tokenizer = words});
  const engine::Sampling sampling{
      .n = arguments.n,
      .decoding = {arguments.temperature, arguments.top_p, arguments.top_k},
      .max_new_tokens = engine::longest_response(loaded.model, prompts, arguments.max_new, 256),
      .seed = arguments.seed,
      .stop = arguments.stop,
      .ignore_eos = arguments.ignore_eos,
      .discard = true};
  engine.take_over_weights();  // before the clock that tokens are counted by
  LineOutput output(arguments.out);
  std::vector<std::size_t> places(prompts.size() *
                                  static_cast<std::size_t>(arguments.n));  // of the lines, in order
  std::int64_t tokens = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  {
    Progress progress("generate", std::ssize(places), arguments.output.quiet);
    engine.generate(
        prompts, sampling, {.k = arguments.k},
        [&](std::int64_t done, std::int64_t total, const Rollout& one) {
          const Response& response = one.responses_B.front();
          const auto prompt = static_cast<std::size_t>(response.prompt);
          const Json line = line_of(one, prompts[prompt], words, arguments.stop);
          if (!output.to_file() && arguments.show && words != nullptr) {
            std::cout << prompts[prompt].text << line["text"].get<std::string>() << "\n\n" << std::flush;
          } else {
            output.write(line);
          }
          places[prompt * static_cast<std::size_t>(arguments.n) + static_cast<std::size_t>(response.sample)] =
              static_cast<std::size_t>(done - 1);
          tokens += response.length;
          progress.update(done, fmt::format("{} of {} responses, {:.0f} tokens/s", done, total,
                                            static_cast<double>(tokens) / seconds()));
        });
  }
  output.finish(places);
  if (output.to_file() && (arguments.output.json || !arguments.output.quiet))
    print_summary(engine.last_generation(), std::ssize(places), tokens, seconds(), arguments);
}

}  // namespace

void add_generate(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateArguments>();
  app.add_option("--model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--in", arguments->in, "Prompts, JSONL; - is standard input")->capture_default_str();
  app.add_option("--out", arguments->out, "Responses, JSONL; - is standard output")->capture_default_str();
  add_decoding_options(app, arguments->prompt_template, arguments->temperature, arguments->top_p);
  app.add_option("--n", arguments->n, "Responses per prompt")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--top-k", arguments->top_k, "Number of most likely ids to sample from; 0: all")
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
  app.add_option(
         "--stop", arguments->stop,
         "A text that ends a response, cut off its `text`; may be given several times. Special tokens are "
         "not part of the text")
      ->check([](const std::string& word) { return word.empty() ? "expected some text" : std::string(); })
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", arguments->ignore_eos, "Continue to --max-new after an end of sequence");
  add_engine_memory_options(app, arguments->kv_memory, arguments->weights);
  app.add_flag("--show", arguments->show, "Print prompts and responses as text")->excludes("--out");
  add_output_flags(app, arguments->output);
  app.footer(
      "Responses are written as they end, each line whole; a file is put in the order of the prompts when "
      "all are there.\n\n"
      "Example:\n"
      "  routeopd generate --model lab/teacher --in lab/heldout.jsonl --out responses.jsonl \\\n"
      "    --template $'Problem: {problem}\\nSolution:' --n 4 --temperature 0.7 --top-p 0.95 --max-new 80");
  app.callback([arguments] { run_generate(*arguments); });
}

}  // namespace routeopd::app
