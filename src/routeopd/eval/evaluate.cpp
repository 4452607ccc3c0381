//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/eval/evaluate.h"

#include "routeopd/base/atomic_directory.h"
#include "routeopd/base/atomic_file.h"
#include "routeopd/base/sha256.h"
#include "routeopd/grade/answer.h"
#include "routeopd/text/prompts.h"

namespace routeopd::eval {
namespace {

// summary.json: the model, the protocol and each suite's figures.
Json summary_of(const Json& model, const Protocol& protocol, const std::vector<Suite>& suites,
                const std::vector<std::vector<grade::EvalResponse>>& responses) {
  Json summary = {{"model", model},
                  {"decoding",
                   {{"n", protocol.n},
                    {"temperature", protocol.temperature},
                    {"top_p", protocol.top_p},
                    {"max_new_tokens", protocol.max_new_tokens}}},
                  {"seed", protocol.seed},
                  {"template", protocol.prompt_template},
                  {"extractor", kExtractor},
                  {"suites", Json::object()}};
  double total = 0;
  for (std::size_t i = 0; i < suites.size(); ++i) {
    Json suite = grade::suite_summary(responses[i], grade::Bootstrap{});
    suite["sha256"] = suites[i].sha256;
    total += suite["avg"].get<double>();
    summary["suites"][suites[i].name] = std::move(suite);
  }
  summary["avg"] = total / static_cast<double>(suites.size());
  return summary;
}

}  // namespace

Suite read_suite(const std::string& name, const std::string& path, const Protocol& protocol,
                 const std::filesystem::path& directory, const text::Tokenizer& tokenizer) {
  Suite suite{.name = name, .sha256 = sha256_of_file(path), .prompts = {}};
  suite.prompts =
      text::read_prompts(path, text::PromptTemplate(protocol.prompt_template, directory), &tokenizer);
  for (const Prompt& prompt : suite.prompts) {
    if (prompt.answer.empty()) throw UserError("{}: problem {} has no answer to grade by", path, prompt.id);
  }
  return suite;
}

std::vector<grade::EvalResponse> evaluate(engine::Engine& engine, const Suite& suite,
                                          const Protocol& protocol, const text::Tokenizer& tokenizer,
                                          const engine::Watch& watch) {
  const engine::Sampling sampling{.n = protocol.n,
                                  .decoding = {protocol.temperature, protocol.top_p},
                                  .max_new_tokens = protocol.max_new_tokens,
                                  .seed = protocol.seed};
  const Rollout rollout = engine.generate(suite.prompts, sampling, {}, watch);
  std::vector<grade::EvalResponse> graded;
  for (const Response& response : rollout.responses_B) {
    const Prompt& prompt = suite.prompts[static_cast<std::size_t>(response.prompt)];
    const std::span ids(rollout.id_N.data() + response.first_state,
                        static_cast<std::size_t>(response.length));
    grade::EvalResponse one;
    one.suite = suite.name;
    one.problem = prompt.id;
    one.sample = response.sample;
    one.response = tokenizer.decode(ids, /*skip_special=*/true);
    const grade::Grade grade = grade::grade_response(one.response, prompt.answer);
    one.extracted = grade.extracted;
    one.correct = grade.correct;
    one.format_ok = grade.format_ok;
    one.clipped = response.finish == Finish::kLength;
    one.tokens = response.length;
    graded.push_back(std::move(one));
  }
  return graded;
}

Evaluation evaluate_into(const std::filesystem::path& directory, engine::Engine& engine,
                         const std::vector<Suite>& suites, const Protocol& protocol,
                         const text::Tokenizer& tokenizer, const Json& model,
                         const std::function<engine::Watch(const Suite&)>& watch) {
  make_result_directory(directory);
  Evaluation all;
  for (const Suite& suite : suites) {
    all.responses.push_back(
        evaluate(engine, suite, protocol, tokenizer, watch ? watch(suite) : engine::Watch()));
  }
  AtomicFile lines(directory / "responses.jsonl");
  for (const auto& suite : all.responses) {
    for (const grade::EvalResponse& response : suite) lines.write(grade::line_of(response));
  }
  lines.commit();
  all.summary = summary_of(model, protocol, suites, all.responses);
  write_file(directory / "summary.json", all.summary.dump(2) + "\n");
  return all;
}

grade::Correctness correctness_of(const std::vector<grade::EvalResponse>& responses, std::int64_t samples) {
  grade::Correctness all{.problems = std::ssize(responses) / samples, .samples = samples, .correct_PS = {}};
  for (const grade::EvalResponse& response : responses) all.correct_PS.push_back(response.correct ? 1 : 0);
  return all;
}

}  // namespace routeopd::eval
