// Evaluation: n sampled responses to every problem of a suite, graded by their final answers. Random numbers
// are addressed by (problem, sample, position), so that two models answer under the same numbers, and an
// evaluation that was stopped resumes as if it had not been.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/types/prompt.h"

namespace routeopd::eval {

struct Suite {
  std::string name;
  std::string file;    // absolute path
  std::string sha256;  // of the file
  std::vector<Prompt> prompts;
};

struct Protocol {
  std::int32_t n = 16;
  double temperature = 0.7;
  double top_p = 0.95;
  std::int64_t max_new_tokens = 16384;
  std::uint64_t seed = 42;
  std::string prompt_template = "chat";
};

// Problems of a JSONL file; each needs an answer. `directory` is the model's: its chat template may be
// needed.
Suite read_suite(const std::string& name, const std::string& path, const Protocol& protocol,
                 const std::filesystem::path& directory, const tokenizer::Tokenizer& tokenizer);

// Every response of the suite, graded, problems in the file's order.
std::vector<grade::EvalResponse> evaluate(engine::Engine& engine, const Suite& suite,
                                          const Protocol& protocol, const tokenizer::Tokenizer& tokenizer);

// How far an evaluation is: responses that are there, of how many, and how many of them it found at its
// start.
struct EvalProgress {
  std::string suite;  // that is being answered
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::int64_t found = 0;
};
using EvalWatch = std::function<void(const EvalProgress&)>;

// All suites, kept as an eval directory (eval_directory.h). `directory` must be new, or hold the same
// evaluation, stopped, which then resumes. `model` is what the summary says of the model. The watch is also
// told before the first response.
struct Evaluation {
  Json summary;
  std::vector<std::vector<grade::EvalResponse>> responses;  // by suite, without texts
};
Evaluation evaluate_into(const std::filesystem::path& directory, engine::Engine& engine,
                         const std::vector<Suite>& suites, const Protocol& protocol,
                         const tokenizer::Tokenizer& tokenizer, const Json& model,
                         const EvalWatch& watch = {});

// Where `directory` holds this evaluation, graded by another extractor: grades its responses again
// (eval_directory.h), so that evaluate_into() finishes it without sampling them; says whether it did.
// evaluate_into() calls it itself; whoever asks for finished_evaluation() calls it before.
bool grade_again(const std::filesystem::path& directory, const std::vector<Suite>& suites,
                 const Protocol& protocol, const tokenizer::Tokenizer& tokenizer, const Json& model);

// What summary.json and protocol.json say before there are figures.
Json protocol_json(const Json& model, const Protocol& protocol, const std::vector<Suite>& suites);

}  // namespace routeopd::eval
