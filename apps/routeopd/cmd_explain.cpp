// routeopd explain: one response, and what would be moved where at each of its tokens.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include "command.h"
#include "progress.h"
#include "routeopd/base/output_place.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_rollout.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/model/model_files.h"
#include "routeopd/probe/explain.h"
#include "routeopd/report/explanation.h"
#include "routeopd/report/explanation_page.h"
#include "routeopd/text/compatibility.h"
#include "routeopd/text/prompts.h"

namespace routeopd::app {
namespace {

// Tokens that are written where --max-new is not given.
constexpr std::int64_t kUsualLength = 128;

struct ExplainArguments {
  std::string student, teacher, prompt;
  std::optional<std::string> teacher_prompt;
  std::string prompt_template = "raw";
  std::optional<std::string> response;
  double temperature = 1, top_p = 1;
  std::int64_t max_new = 0;
  std::uint64_t seed = 42;
  std::optional<std::int64_t> token;
  std::string html;
  bool overwrite = false;
  Json objective;
  OutputFlags output;
};

// Colours on a terminal, unless NO_COLOR is set (no-color.org).
bool wants_colors() {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

Rollout written(engine::Engine& student, const Prompt& prompt, const ExplainArguments& arguments,
                std::int64_t max_new, std::int32_t columns) {
  const engine::Sampling sampling{.n = 1,
                                  .decoding = {arguments.temperature, arguments.top_p},
                                  .max_new_tokens = max_new,
                                  .seed = arguments.seed};
  return student.generate(std::span(&prompt, 1), sampling,
                          {.k = columns, .hidden = student.capabilities().hidden_states});
}

// Through the teacher's chat template where the template is chat and it has one, else as the student's.
void read_teacher_prompt(const ExplainArguments& arguments, const text::PromptTemplate& words,
                         const tokenizer::Tokenizer& tokenizer, Prompt& prompt) {
  formats::naming("--teacher-prompt", [&] {
    const bool own =
        arguments.prompt_template == "chat" && text::PromptTemplate("raw", arguments.teacher).has_chat();
    const text::PromptTemplate& chosen =
        own ? text::PromptTemplate(arguments.prompt_template, arguments.teacher) : words;
    Prompt other = text::make_prompt("1", 0, chosen.apply(*arguments.teacher_prompt), tokenizer);
    if (other.ids.empty()) throw UserError("has no tokens; expected some text");
    if (other.ids == prompt.ids) return;  // nothing to tell apart
    prompt.teacher_ids = std::move(other.ids);
    prompt.teacher_text = std::move(other.text);
  });
}

Json settings_of(const routing::ObjectiveOptions& options) {
  Json settings = Json::object();
  for (const auto& field : routing::objective_fields()) settings[field.name] = field.get(options);
  return settings;
}

Explanation explain(const ExplainArguments& arguments) {
  const routing::ObjectiveOptions options = routing::objective_from(arguments.objective);
  probe::check_explainable(options);
  const std::string difference =
      text::check_compatibility(arguments.student, arguments.teacher).first_difference();
  if (!difference.empty())
    throw UserError("--teacher: the pair is not compatible ({}); `routeopd check` shows every check",
                    difference);
  const tokenizer::Tokenizer tokenizer(arguments.student);
  const text::PromptTemplate words(arguments.prompt_template, arguments.student);
  Prompt prompt = formats::naming(
      "--prompt", [&] { return text::make_prompt("1", 0, words.apply(arguments.prompt), tokenizer); });
  if (prompt.ids.empty()) throw UserError("--prompt: has no tokens; expected some text");
  if (arguments.teacher_prompt) read_teacher_prompt(arguments, words, tokenizer, prompt);
  std::vector<std::int32_t> response_ids;
  if (arguments.response)
    response_ids = formats::naming("--response", [&] { return tokenizer.encode(*arguments.response); });
  if (arguments.response && response_ids.empty())
    throw UserError(
        "--response: has no tokens; expected some text, or no --response for one that is written");

  Progress progress("explain", -1, arguments.output.quiet);
  const model::Model student_model = model::load_model(arguments.student),
                     teacher_model = model::load_model(arguments.teacher);
  engine::LocalEngine student(student_model, tokenizer.real_ids()),
      teacher(teacher_model, tokenizer.real_ids());
  const std::int32_t columns = probe::explained_columns(options, student.real_ids());
  const std::span prompts(&prompt, 1);
  Prompt read_by_teacher = prompt;
  if (!prompt.teacher_ids.empty()) read_by_teacher.ids = prompt.teacher_ids;
  const std::int64_t max_new =
      std::min(engine::longest_response(student_model, prompts, arguments.max_new, kUsualLength),
               engine::longest_response(teacher_model, std::span(&read_by_teacher, 1), arguments.max_new,
                                        kUsualLength));
  progress.update(0, "models read");
  Rollout rollout = arguments.response ? probe::given_rollout(prompt.ids, response_ids)
                                       : written(student, prompt, arguments, max_new, columns);
  engine::add_teachers(rollout, prompts);
  progress.update(0, fmt::format("{} tokens", rollout.states()));

  Explanation explanation;
  explanation.student = arguments.student;
  explanation.teacher = arguments.teacher;
  explanation.prompt = prompt.text;
  explanation.prompt_ids = prompt.ids;
  explanation.teacher_prompt = prompt.teacher_text;
  explanation.teacher_prompt_ids = prompt.teacher_ids;
  explanation.response = tokenizer.decode(rollout.id_N);
  explanation.finish = arguments.response                                    ? "given"
                       : rollout.responses_B.front().finish == Finish::kStop ? "stop"
                                                                             : "length";
  explanation.seed = arguments.seed;
  explanation.objective = settings_of(options);
  if (!arguments.response)
    explanation.decoding = {
        {"temperature", arguments.temperature}, {"top_p", arguments.top_p}, {"max_new", max_new}};
  explanation.tokens = probe::explain_rollout(student, teacher, rollout, options, arguments.seed);
  for (const std::int32_t id : report::mentioned_ids(explanation.tokens))
    explanation.texts[id] = tokenizer.bytes_of(id);
  explanation.chosen = report::heaviest(explanation.tokens);
  if (arguments.token) {
    if (*arguments.token >= std::ssize(explanation.tokens))
      throw UserError("--token: expected 0 to {}, as the response has {} tokens, got {}",
                      explanation.tokens.size() - 1, explanation.tokens.size(), *arguments.token);
    explanation.chosen = static_cast<std::size_t>(*arguments.token);
  }
  return explanation;
}

void run_explain(const ExplainArguments& arguments) {
  std::optional<OutputFile> page;  // a place that cannot be written is told before the work
  if (!arguments.html.empty()) page.emplace(arguments.html, arguments.overwrite);
  const Explanation explanation = explain(arguments);
  if (page) {
    page->write(report::explanation_html(explanation));
    page->commit();
  }
  if (arguments.output.json) {
    std::cout << report::explanation_json(explanation).dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else if (!page && !arguments.output.quiet) {
    std::cout << report::explanation_text(explanation, wants_colors());
  }
  if (page && !arguments.output.quiet)
    std::cerr << fmt::format("{}: {} tokens\n", arguments.html, explanation.tokens.size());
  if (!std::cout.flush()) throw UserError("standard output: cannot be written");
}

}  // namespace

void add_explain(CLI::App& app) {
  const auto arguments = std::make_shared<ExplainArguments>();
  app.add_option("--student", arguments->student, "Hugging Face model directory")->required();
  app.add_option("--teacher", arguments->teacher, "The same")->required();
  app.add_option("--prompt", arguments->prompt, "What the student is asked")->required();
  app.add_option(
      "--teacher-prompt", arguments->teacher_prompt,
      "What the teacher is asked in its place, such as the prompt with a hint; then both are shown");
  add_decoding_options(app, arguments->prompt_template, arguments->temperature, arguments->top_p);
  app.add_option("--response", arguments->response,
                 "Explain this response in place of one that the student writes");
  app.add_option("--token", arguments->token,
                 "The response token whose tables are shown, from 0; without it the one with the most mass")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  app.add_option("--max-new", arguments->max_new,
                 "Longest response, in tokens; 0: 128, or what the models' positions leave")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--seed", arguments->seed, "Seed of the response and of the pairs")->capture_default_str();
  app.add_option(
      "--html", arguments->html,
      "Write a page with a picture of the flow and the tables of every token to this file, in place of "
      "text on standard output");
  add_overwrite_flag(app, arguments->overwrite);
  add_output_flags(app, arguments->output);
  add_fields(app, routing::objective_fields(), arguments->objective);
  app.footer(
      "Colours on a terminal, unless NO_COLOR is set; plain tables elsewhere; see docs/explain.md.\n\n"
      "Example:\n"
      "  routeopd explain --student lab/base --teacher lab/teacher --template $'Problem: "
      "{problem}\\nSolution:' \\\n"
      "    --prompt 'Sofia has 14 boxes. Then Sofia finds 7, loses 9 and collects 5. How many boxes are "
      "left?'\n"
      "  routeopd explain --student A --teacher B --template chat --prompt 'What is 2 + 2?' --html "
      "page.html");
  app.callback([arguments] { run_explain(*arguments); });
}

}  // namespace routeopd::app
