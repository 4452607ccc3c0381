// Evaluation: n sampled responses to every problem of a suite, graded by their final answers. Random numbers are
// addressed by (problem, sample, position), so that two models answer under the same numbers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/text/tokenizer.h"
#include "routeopd/types/prompt.h"

namespace routeopd::eval {

struct Suite {
  std::string name;
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

// Names the way answers are read: two runs compare only when it is the same.
inline constexpr const char* kExtractor = "final-answer-1";

// Problems of a JSONL file; each needs an answer. `directory` is the model's, whose chat template may be asked for.
Suite read_suite(const std::string& name, const std::string& path, const Protocol& protocol,
                 const std::filesystem::path& directory, const text::Tokenizer& tokenizer);

// Every response of the suite, graded, problems in the file's order.
std::vector<grade::EvalResponse> evaluate(engine::Engine& engine, const Suite& suite,
                                          const Protocol& protocol, const text::Tokenizer& tokenizer,
                                          const engine::Watch& watch = {});

// All suites, kept as an eval directory: responses.jsonl and summary.json in `directory`, which must not hold anything.
// `model` is what the summary says of the model; `watch` is asked for once a suite.
struct Evaluation {
  Json summary;
  std::vector<std::vector<grade::EvalResponse>> responses;  // one list a suite
};
Evaluation evaluate_into(const std::filesystem::path& directory, engine::Engine& engine,
                         const std::vector<Suite>& suites, const Protocol& protocol,
                         const text::Tokenizer& tokenizer, const Json& model,
                         const std::function<engine::Watch(const Suite&)>& watch = {});

// Right and wrong alone, for contrasts in memory.
grade::Correctness correctness_of(const std::vector<grade::EvalResponse>& responses, std::int64_t samples);

}  // namespace routeopd::eval
