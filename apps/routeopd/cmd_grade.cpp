// routeopd grade: given responses against their answers. JSONL in, JSONL out.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/grade/answer.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "line_output.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::app {
namespace {

struct GradeArguments {
  std::string in = "-";
  OutArgument out{"-"};
  OutputFlags output;
};

std::string text_field(const Json& line, const char* key) {
  const Json& text = formats::value_or_null(line, key);
  if (!text.is_string()) throw UserError("{}: expected a text, got {}", key, shown(text));
  return text.get<std::string>();
}

// 42 is as good as "42".
std::string answer_of(const Json& line) {
  const Json& answer = formats::value_or_null(line, "answer");
  return answer.is_number() ? answer.dump() : text_field(line, "answer");
}

// Whether the prompt left a <think> open.
bool in_thought(const Json& line) {
  const Json& value = formats::value_or_null(line, "in_thought");
  if (!value.is_null() && !value.is_boolean())
    throw UserError("in_thought: expected true or false, got {}", shown(value));
  return value.is_boolean() && value.get<bool>();
}

void run_grade(const GradeArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out.path);
  formats::JsonLines lines(arguments.in);
  LineOutput output(arguments.out);
  std::int64_t graded = 0, correct = 0, format = 0, failed = 0;
  std::string first_failure;
  {
    Progress progress("grade", lines.bytes_total(), arguments.output.quiet);
    for (bool more = true; more;) {
      check_interrupt();
      Json answer;
      try {
        std::optional<Json> line = lines.next();
        more = line.has_value();
        if (!more) break;
        const grade::Grade grade = formats::naming(lines.where(), [&] {
          formats::id_of(*line, 0);
          return grade::grade_response(text_field(*line, "response"), answer_of(*line), in_thought(*line));
        });
        answer = std::move(*line);
        answer["extracted"] = grade.extracted;
        answer["correct"] = grade.correct;
        answer["format_ok"] = grade.format_ok;
        ++graded;
        correct += grade.correct ? 1 : 0;
        format += grade.format_ok ? 0 : 1;
      } catch (const UserError& error) {
        if (lines.broken()) throw;
        answer = {{"error", error.what()}};
        if (failed++ == 0) first_failure = error.what();
      }
      output.write(answer);
      progress.update(lines.bytes_read(), "bytes");
    }
  }
  output.finish();
  if (output.to_file() && arguments.output.json) {
    std::cout << Json{{"n", graded}, {"correct", correct}, {"format", format}, {"failed", failed}}.dump()
              << std::endl;
  } else if (output.to_file() && !arguments.output.quiet) {
    fmt::print("{} responses: {} correct, {} without an answer that can be read; written to {}\n", graded,
               correct, format, arguments.out.path);
    std::fflush(stdout);
  }
  if (failed > 0)
    throw UserError("{} of {} lines could not be graded, the first: {}", failed, graded + failed,
                    first_failure);
}

}  // namespace

void add_grade(CLI::App& app) {
  const auto arguments = std::make_shared<GradeArguments>();
  app.add_option("--in", arguments->in,
                 "Responses {\"id\", \"response\", \"answer\", \"in_thought\"?}, JSONL; - is standard input")
      ->capture_default_str();
  add_out_option(app, arguments->out,
                 "The same lines with \"extracted\", \"correct\", \"format_ok\"; - is standard output");
  add_output_flags(app, arguments->output);
  app.footer(
      "docs/grading.md says how answers are found and compared. \"in_thought\": true says that the prompt\n"
      "ended with <think>, as some chat templates do. For a line that cannot be graded {\"error\"} is "
      "written,\n"
      "the others are graded all the same, and the exit code is 1.\n\n"
      "Example:\n"
      "  printf '%s\\n' '{\"id\":1,\"response\":\"So it is \\\\boxed{\\\\frac{1}{2}}.\",\"answer\":\"0.5\"}'"
      " | routeopd grade");
  app.callback([arguments] { run_grade(*arguments); });
}

}  // namespace routeopd::app
