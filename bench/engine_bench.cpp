// The engine as a process that answers: one JSON object per line on standard input, one on standard output.
// For tests/peers/engine_speed.py, which runs it in turns with other engines.
//
//   engine_bench MODEL_DIR [--threads N] [--storage float32|exact]
//   {"do":"generate","prompts":[[ids]…],"n":1,"new":64,"k":0,"temperature":0} → {"seconds","ids","logprobs"}
//   {"do":"score","sequences":[[ids]…],"k":32} → {"seconds","logprobs","top_ids"}
//   {"do":"stage","prompts":[[ids]…],"n":4,"new":128,"k":32,"rescore":false} → {"seconds","states"}
//   {"do":"info"} → {"cpu","target","threads","weights",…}
//
// Ends of sequence are ignored: every response has `new` tokens. Seconds are of the work alone, without
// reading and writing the lines.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "routeopd/base/error.h"
#include "routeopd/base/system.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/engine/score_sequences.h"
#include "routeopd/model/model_files.h"

namespace {

using routeopd::Json;
using routeopd::Prompt;
using routeopd::Rollout;
using namespace routeopd::engine;

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Prompt> prompts_of(const Json& request) {
  std::vector<Prompt> prompts;
  for (const Json& ids : request.at("prompts")) {
    Prompt& prompt = prompts.emplace_back();
    prompt.number = static_cast<std::uint32_t>(prompts.size() - 1);
    prompt.id = std::to_string(prompt.number);
    prompt.ids = ids.get<std::vector<std::int32_t>>();
  }
  return prompts;
}

Sampling sampling_of(const Json& request) {
  Sampling sampling;
  sampling.n = request.value("n", 1);
  sampling.decoding.temperature = request.value("temperature", 0.0);
  sampling.max_new_tokens = request.value("new", 64);
  sampling.ignore_eos = true;
  return sampling;
}

Json generate(LocalEngine& engine, const Json& request) {
  Rollout rollout;
  const std::vector<Prompt> prompts = prompts_of(request);
  const int k = request.value("k", 0);
  const double seconds = seconds_of([&] {
    rollout =
        engine.generate(prompts, sampling_of(request), {.k = k, .hidden = request.value("hidden", false)});
  });
  Json ids = Json::array(), logprobs = Json::array();
  for (const routeopd::Response& response : rollout.responses_B) {
    const auto first = static_cast<std::size_t>(response.first_state),
               count = static_cast<std::size_t>(response.length);
    ids.push_back(std::span(rollout.id_N).subspan(first, count));
    logprobs.push_back(std::span(rollout.logprob_N).subspan(first, count));
  }
  const GenerationStats& stats = engine.last_generation();
  return {{"seconds", seconds},
          {"ids", ids},
          {"logprobs", logprobs},
          {"steps", stats.steps},
          {"tokens_read", stats.tokens_read},
          {"decode_steps", stats.decode_steps},
          {"decode_seconds", stats.decode_seconds},
          {"kv_bytes", stats.kv.bytes()},
          {"kv_peak_bytes", stats.peak_blocks * stats.kv.block_bytes},
          {"evictions", stats.evictions},
          {"rss_bytes", routeopd::resident_bytes()}};
}

Json score(LocalEngine& engine, const Json& request) {
  std::vector<GivenSequence> sequences;
  for (const Json& ids : request.at("sequences"))
    sequences.emplace_back().ids_L = ids.get<std::vector<std::int32_t>>();
  std::vector<SequenceScores> scores;
  const double seconds =
      seconds_of([&] { scores = score_sequences(engine, sequences, request.value("k", 32)); });
  Json logprobs = Json::array(), top_ids = Json::array();
  for (const SequenceScores& one : scores) {
    logprobs.push_back(one.logprob_R);
    Json& rows = top_ids.emplace_back(Json::array());
    const auto k = static_cast<std::size_t>(one.columns);
    for (std::size_t r = 0; r < one.logprob_R.size(); ++r)
      rows.push_back(std::span(one.top_ids_RK).subspan(r * k, k));
  }
  return {{"seconds", seconds}, {"logprobs", logprobs}, {"top_ids", top_ids}};
}

Json stage(LocalEngine& student, LocalEngine& teacher, const Json& request) {
  const int k = request.value("k", 32);
  Rollout rollout = student.generate(prompts_of(request), sampling_of(request), {.k = k, .hidden = true});
  ScoreOptions options;
  options.k = k;
  options.rescore = request.value("rescore", false);
  const double seconds = seconds_of([&] { score_rollout(student, teacher, rollout, options); });
  return {{"seconds", seconds}, {"states", rollout.states()}};
}

int serve(const std::string& directory, const std::string& storage) {
  const routeopd::model::Model model = routeopd::model::load_model(directory);
  LocalOptions options;
  if (storage == "float32") options.storage = routeopd::model::WeightStorage::kFloat32;
  const auto real_ids = static_cast<std::int32_t>(model.config.vocab_size);
  LocalEngine student(model, real_ids, options), teacher(model, real_ids, options);
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json request = Json::parse(line);
      const std::string what = request.at("do");
      if (what == "generate") {
        answer = generate(student, request);
      } else if (what == "score") {
        answer = score(teacher, request);
      } else if (what == "stage") {
        answer = stage(student, teacher, request);
      } else if (what == "info") {
        answer = {{"cpu", routeopd::cpu_model()},
                  {"target", routeopd::kernel_target()},
                  {"threads", at::get_num_threads()},
                  {"weights", storage}};
      } else {
        throw routeopd::UserError("do: expected generate, score, stage or info, got {}", what);
      }
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The engine, one JSON line in, one out");
  std::string directory, storage = "float32";
  int threads = 0;
  app.add_option("model", directory, "Hugging Face model directory")->required();
  app.add_option("--threads", threads);
  app.add_option("--storage", storage)->check(CLI::IsMember({"float32", "exact"}));
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) at::set_num_threads(threads);
  try {
    return serve(directory, storage);
  } catch (const std::exception& error) {
    std::cerr << "engine_bench: " << error.what() << '\n';
    return 1;
  }
}
