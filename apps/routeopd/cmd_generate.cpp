// routeopd generate: batched sampling. Prompts in, responses out, JSONL.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "command.h"
#include "line_output.h"
#include "loaded_model.h"
#include "progress.h"
#include "routeopd/base/display.h"
#include "routeopd/base/hashes.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/sequence.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/table/visible_text.h"
#include "routeopd/text/prompts.h"

namespace routeopd::app {
namespace {

struct GenerateArguments {
  std::string model, in = "-";
  OutArgument out{"-"};
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

Json id_of(const Prompt& prompt) {
  return prompt.id_json.empty() ? Json(prompt.id) : Json::parse(prompt.id_json);
}

Json line_of(const Rollout& rollout, const Prompt& prompt, const tokenizer::Tokenizer* tokenizer,
             const std::vector<std::string>& stop) {
  const Response& response = rollout.responses_B.front();
  const auto first = static_cast<std::size_t>(response.first_state),
             count = static_cast<std::size_t>(response.length);
  const std::span ids = std::span(rollout.id_N).subspan(first, count);
  Json line = {{"id", id_of(prompt)},
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

// Lines that act on no terminal but by their ends.
std::string seen(std::string_view text) {
  std::string out;
  for (std::size_t feed = text.find('\n'); feed != text.npos; feed = text.find('\n')) {
    out += table::visible(text.substr(0, feed)) + '\n';
    text.remove_prefix(feed + 1);
  }
  return out + table::visible(text);
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
        byte_text(stats.kv.bytes()), arguments.out.path);
  }
}

// All that decides the responses.
Json command_of(const GenerateArguments& arguments, const std::vector<Prompt>& prompts,
                const engine::Sampling& sampling) {
  std::string asked;
  for (const Prompt& prompt : prompts) asked = sha256(asked + Json{prompt.id_json, prompt.ids}.dump());
  return {{"command", "generate"},
          {"version", ROUTEOPD_VERSION},
          {"model", contents_of(arguments.model)},
          {"prompts", {{"count", prompts.size()}, {"sha256", asked}}},
          {"n", sampling.n},
          {"temperature", sampling.decoding.temperature},
          {"top_p", sampling.decoding.top_p},
          {"top_k", sampling.decoding.top_k},
          {"max_new", sampling.max_new_tokens},
          {"seed", sampling.seed},
          {"stop", sampling.stop},
          {"ignore_eos", sampling.ignore_eos},
          {"k", arguments.k},
          {"weights", arguments.weights}};
}

// The responses that are not there, of which some may be.
struct Wanted {
  std::vector<Prompt> prompts;
  std::vector<std::size_t> rows;                   // of `prompts` among all
  std::vector<std::vector<std::int32_t>> samples;  // of each
};

// places[i]: the number of the line that holds response i; filled in for the lines that are there.
Wanted missing_responses(const LineOutput& output, const std::vector<Prompt>& prompts, std::int32_t n,
                         std::vector<std::size_t>& places) {
  std::vector<bool> found(places.size());
  if (output.lines() > 0) {
    std::map<std::string, std::size_t> rows;  // by id, which each prompt has of its own
    for (std::size_t p = 0; p < prompts.size(); ++p) rows[id_of(prompts[p]).dump()] = p;
    formats::JsonLines lines(output.kept());
    while (const std::optional<Json> line = lines.next()) {
      const auto row = rows.find(formats::value_or_null(*line, "id").dump());
      const Json& sample = formats::value_or_null(*line, "sample");
      const bool known = row != rows.end() && sample.is_number_unsigned() && sample < n;
      const std::size_t at =
          known ? row->second * static_cast<std::size_t>(n) + sample.get<std::size_t>() : 0;
      if (!known || found[at])
        throw UserError("{}: is no response that is asked for, or one that is there already; remove the file",
                        lines.where());
      found[at] = true;
      places[at] = static_cast<std::size_t>(lines.line() - 1);
    }
  }
  Wanted wanted;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    std::vector<std::int32_t> samples;
    for (std::int32_t sample = 0; sample < n; ++sample)
      if (!found[p * static_cast<std::size_t>(n) + static_cast<std::size_t>(sample)])
        samples.push_back(sample);
    if (samples.empty()) continue;
    wanted.prompts.push_back(prompts[p]);
    wanted.rows.push_back(p);
    wanted.samples.push_back(std::move(samples));
  }
  return wanted;
}

void run_generate(const GenerateArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out.path);
  LineOutput output(arguments.out);
  const LoadedModel loaded(arguments.model);
  const tokenizer::Tokenizer* const words = loaded.words();
  const std::vector<Prompt> prompts = text::read_prompts(
      arguments.in, text::PromptTemplate(arguments.prompt_template, arguments.model), words);
  engine::LocalEngine engine(loaded.model, loaded.real_ids(),
                             {.kv_bytes = static_cast<std::int64_t>(arguments.kv_memory),
                              .storage = kStorages.at(arguments.weights),
                              .tokenizer = words});
  engine::Sampling sampling{
      .n = arguments.n,
      .decoding = {arguments.temperature, arguments.top_p, arguments.top_k},
      .max_new_tokens = engine::longest_response(loaded.model, prompts, arguments.max_new, 256),
      .seed = arguments.seed,
      .stop = arguments.stop,
      .ignore_eos = arguments.ignore_eos,
      .discard = true};
  engine.take_over_weights();  // before the clock that tokens are counted by
  std::vector<std::size_t> places(prompts.size() *
                                  static_cast<std::size_t>(arguments.n));  // of the lines, in order
  const std::int64_t found = output.keep_lines([&] { return command_of(arguments, prompts, sampling); });
  Wanted wanted = missing_responses(output, prompts, arguments.n, places);
  sampling.samples_P = std::move(wanted.samples);
  if (found > 0 && !arguments.output.quiet)
    std::cerr << fmt::format("{}: {} of {} responses are there already\n", output.kept(), found,
                             places.size());
  std::int64_t tokens = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto begin_line = static_cast<std::size_t>(found);
  try {
    Progress progress("generate", std::ssize(places) - found, arguments.output.quiet);
    if (!wanted.prompts.empty())
      engine.generate(wanted.prompts, sampling, {.k = arguments.k},
                      [&](std::int64_t done, std::int64_t total, const Rollout& one) {
                        const Response& response = one.responses_B.front();
                        const std::size_t prompt = wanted.rows[static_cast<std::size_t>(response.prompt)];
                        const Json line = line_of(one, prompts[prompt], words, arguments.stop);
                        if (!output.to_file() && arguments.show && words != nullptr) {
                          std::cout << seen(prompts[prompt].text + line["text"].get<std::string>()) << "\n\n"
                                    << std::flush;
                        } else {
                          output.write(line);
                        }
                        places[prompt * static_cast<std::size_t>(arguments.n) +
                               static_cast<std::size_t>(response.sample)] =
                            begin_line + static_cast<std::size_t>(done - 1);
                        tokens += response.length;
                        progress.update(done, fmt::format("{} of {} responses, {:.0f} tokens/s", done, total,
                                                          static_cast<double>(tokens) / seconds()));
                      });
  } catch (...) {
    output.tell_kept(arguments.output);
    throw;
  }
  output.finish(places);
  if (output.to_file() && (arguments.output.json || !arguments.output.quiet))
    print_summary(engine.last_generation(), std::ssize(places) - found, tokens, seconds(), arguments);
}

}  // namespace

void add_generate(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateArguments>();
  app.add_option("--model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--in", arguments->in, "Prompts, JSONL; - is standard input")->capture_default_str();
  CLI::Option* const out = add_out_option(app, arguments->out, "Responses, JSONL; - is standard output");
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
  app.add_flag("--show", arguments->show,
               "Print prompts and responses as text, with what a terminal would obey written out: \\x1b")
      ->excludes(out);
  add_output_flags(app, arguments->output);
  app.footer(
      "Responses are written as they end, each line whole, to OUT.partial; a file is put in the order of the "
      "prompts, and\n"
      "gets its name, when all are there. Stopped, the same command goes on where it was.\n\n"
      "Example:\n"
      "  routeopd generate --model lab/teacher --in lab/heldout.jsonl --out responses.jsonl \\\n"
      "    --template $'Problem: {problem}\\nSolution:' --n 4 --temperature 0.7 --top-p 0.95 --max-new 80");
  app.callback([arguments] { run_generate(*arguments); });
}

}  // namespace routeopd::app
