// SPDX-License-Identifier: Apache-2.0
#include "routeopd/eval/evaluate.h"

#include <map>
#include <utility>

#include "routeopd/base/hashes.h"
#include "routeopd/eval/eval_directory.h"
#include "routeopd/grade/answer.h"
#include "routeopd/text/prompts.h"

namespace routeopd::eval {
namespace {

engine::Sampling sampling_of(const Protocol& protocol) {
  return {.n = protocol.n,
          .decoding = {protocol.temperature, protocol.top_p},
          .max_new_tokens = protocol.max_new_tokens,
          .seed = protocol.seed,
          .discard = true};
}

void set_grade(grade::EvalResponse& response, const Prompt& prompt, bool in_thought) {
  const grade::Grade grade = grade::grade_response(response.response, prompt.answer, in_thought);
  response.extracted = grade.extracted;
  response.correct = grade.correct;
  response.format_ok = grade.format_ok;
}

bool opens_thought(const Prompt& prompt, const tokenizer::Tokenizer& tokenizer) {
  return grade::opens_thought(prompt.text.empty() ? tokenizer.decode(prompt.ids) : prompt.text);
}

// The response of a rollout that has one, to `prompt`.
grade::EvalResponse graded(const Rollout& rollout, const Suite& suite, const Prompt& prompt,
                           const tokenizer::Tokenizer& tokenizer) {
  const Response& written = rollout.responses_B.front();
  grade::EvalResponse response;
  response.suite = suite.name;
  response.problem = prompt.id;
  response.sample = written.sample;
  response.response = tokenizer.decode(rollout.id_N, /*skip_special=*/true);
  // Where </think> is a special token, it is not in the response's text.
  if (opens_thought(prompt, tokenizer))
    response.in_thought = tokenizer.decode(rollout.id_N).find("</think>") == std::string::npos;
  set_grade(response, prompt, response.in_thought.value_or(false));
  response.clipped = written.finish == Finish::kLength;
  response.tokens = written.length;
  return response;
}

// Lets the model write the missing responses of one suite.
void fill_suite(EvalDirectory& directory, std::size_t number, engine::Engine& engine, const Suite& suite,
                const Protocol& protocol, const tokenizer::Tokenizer& tokenizer, const EvalWatch& watch) {
  std::vector<Prompt> prompts;
  std::vector<std::size_t> rows;  // of the prompts in the suite
  engine::Sampling sampling = sampling_of(protocol);
  for (std::size_t p = 0; p < suite.prompts.size(); ++p) {
    std::vector<std::int32_t> samples = directory.missing(number, p);
    if (samples.empty()) continue;
    prompts.push_back(suite.prompts[p]);
    rows.push_back(p);
    sampling.samples_P.push_back(std::move(samples));
  }
  const auto tell = [&] {
    if (watch)
      watch({suite.name, directory.total() - directory.missing(), directory.total(), directory.found()});
  };
  tell();
  if (prompts.empty()) return;
  engine.generate(prompts, sampling, {}, [&](std::int64_t, std::int64_t, const Rollout& one) {
    const auto place = static_cast<std::size_t>(one.responses_B.front().prompt);
    directory.add(number, rows[place], graded(one, suite, prompts[place], tokenizer));
    tell();
  });
}

}  // namespace

Suite read_suite(const std::string& name, const std::string& path, const Protocol& protocol,
                 const std::filesystem::path& directory, const tokenizer::Tokenizer& tokenizer) {
  Suite suite{.name = name,
              .file = std::filesystem::absolute(path).string(),
              .sha256 = sha256_of_file(path),
              .prompts = {}};
  suite.prompts =
      text::read_prompts(path, text::PromptTemplate(protocol.prompt_template, directory), &tokenizer);
  for (const Prompt& prompt : suite.prompts) {
    if (prompt.answer.empty()) throw UserError("{}: problem {} has no answer to grade by", path, prompt.id);
  }
  return suite;
}

std::vector<grade::EvalResponse> evaluate(engine::Engine& engine, const Suite& suite,
                                          const Protocol& protocol, const tokenizer::Tokenizer& tokenizer) {
  std::vector<grade::EvalResponse> responses(suite.prompts.size() * static_cast<std::size_t>(protocol.n));
  engine.generate(
      suite.prompts, sampling_of(protocol), {}, [&](std::int64_t, std::int64_t, const Rollout& one) {
        const Response& written = one.responses_B.front();
        const auto prompt = static_cast<std::size_t>(written.prompt);
        responses[prompt * static_cast<std::size_t>(protocol.n) + static_cast<std::size_t>(written.sample)] =
            graded(one, suite, suite.prompts[prompt], tokenizer);
      });
  return responses;
}

Json protocol_json(const Json& model, const Protocol& protocol, const std::vector<Suite>& suites) {
  Json files = Json::object();
  for (const Suite& suite : suites) files[suite.name] = {{"file", suite.file}, {"sha256", suite.sha256}};
  return {{"model", model},
          {"decoding",
           {{"n", protocol.n},
            {"temperature", protocol.temperature},
            {"top_p", protocol.top_p},
            {"max_new_tokens", protocol.max_new_tokens}}},
          {"seed", protocol.seed},
          {"template", protocol.prompt_template},
          {"extractor", grade::kExtractor},
          {"suites", files}};
}

bool grade_again(const std::filesystem::path& directory, const std::vector<Suite>& suites,
                 const Protocol& protocol, const tokenizer::Tokenizer& tokenizer, const Json& model) {
  std::map<std::pair<std::string, std::string>, const Prompt*> prompts;  // by suite and problem
  for (const Suite& suite : suites)
    for (const Prompt& prompt : suite.prompts) prompts[{suite.name, prompt.id}] = &prompt;
  return grade_again(directory, protocol_json(model, protocol, suites), [&](grade::EvalResponse& response) {
    const auto found = prompts.find({response.suite, response.problem});
    if (found == prompts.end()) return;  // opening the directory says what is wrong with it
    // Lines of older builds do not say it.
    const bool in_thought = response.in_thought.value_or(opens_thought(*found->second, tokenizer));
    set_grade(response, *found->second, in_thought);
  });
}

Evaluation evaluate_into(const std::filesystem::path& directory, engine::Engine& engine,
                         const std::vector<Suite>& suites, const Protocol& protocol,
                         const tokenizer::Tokenizer& tokenizer, const Json& model, const EvalWatch& watch) {
  std::vector<SuiteProblems> problems;
  for (const Suite& suite : suites) {
    SuiteProblems& one = problems.emplace_back(SuiteProblems{suite.name, {}});
    for (const Prompt& prompt : suite.prompts) one.ids.push_back(prompt.id);
  }
  grade_again(directory, suites, protocol, tokenizer, model);
  EvalDirectory files(directory, protocol_json(model, protocol, suites), std::move(problems), protocol.n);
  for (std::size_t s = 0; s < suites.size(); ++s)
    fill_suite(files, s, engine, suites[s], protocol, tokenizer, watch);
  Evaluation evaluation{.summary = files.finish(), .responses = {}};
  evaluation.responses = files.responses();
  return evaluation;
}

}  // namespace routeopd::eval
