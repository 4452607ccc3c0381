// routeopd tokenize: text to ids, ids to text, chats to both. JSONL in, JSONL out.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "line_output.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/ordered_json.h"
#include "routeopd/text/chat_template_files.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::app {
namespace {

struct TokenizeArguments {
  std::string directory, in = "-";
  OutArgument out{"-"};
  bool decode = false, chat = false;
  OutputFlags output;
};

std::string line_text(const Json& line, const char* key) {
  const Json& text = formats::value_or_null(line, key);
  if (!text.is_string()) throw UserError("{}: expected a text, got {}", key, shown(text));
  return text.get<std::string>();
}

// Does what the command was asked for, line by line.
class Converter {
 public:
  explicit Converter(const TokenizeArguments& arguments)
      : arguments_(arguments), tokenizer_(arguments.directory) {
    if (!arguments.chat) return;
    templates_ = text::read_chat_templates(arguments.directory);
    if (!templates_)
      throw UserError(
          "{}: no chat template there; expected chat_template.jinja, or chat_template in "
          "tokenizer_config.json",
          arguments.directory);
  }

  Json answer(const Json& line, const std::string& raw_line) const {
    if (arguments_.decode) {
      const std::vector<std::int32_t> ids = formats::naming(
          "ids", [&] { return formats::ids_in(formats::value_or_null(line, "ids"), (1 << 24) - 1); });
      return {{"ids", ids}, {"text", tokenizer_.decode(ids, formats::flag_or(line, "skip_special", false))}};
    }
    std::string text;
    bool add_special = false;  // a chat template writes its own
    if (arguments_.chat) {
      text = text::render_chat(*templates_, formats::parse_ordered_json(raw_line, "line"),
                               OrderedJson::object());
    } else {
      text = line_text(line, "text");
      add_special = formats::flag_or(line, "special", false);
    }
    return {{"ids", tokenizer_.encode(text, add_special)}, {"text", text}};
  }

 private:
  const TokenizeArguments& arguments_;
  tokenizer::Tokenizer tokenizer_;
  std::optional<text::ChatTemplates> templates_;
};

void run_tokenize(const TokenizeArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out.path);
  LineOutput output(arguments.out);
  const Converter converter(arguments);
  formats::JsonLines lines(arguments.in);
  std::int64_t done = 0, tokens = 0, failed = 0;
  std::string first_failure;
  {
    Progress progress("tokenize", lines.bytes_total(), arguments.output.quiet);
    for (bool more = true; more;) {
      check_interrupt();
      Json answer;
      try {
        const std::optional<Json> line = lines.next();
        more = line.has_value();
        if (!more) break;
        answer = formats::naming(lines.where(), [&] { return converter.answer(*line, lines.text()); });
        tokens += std::ssize(answer["ids"]);
      } catch (const UserError& error) {
        if (lines.broken()) throw;
        answer = {{"error", error.what()}};
        if (failed++ == 0) first_failure = error.what();
      }
      ++done;
      output.write(answer);
      progress.update(lines.bytes_read(), "bytes");
    }
  }
  output.finish();
  if (output.to_file() && arguments.output.json) {
    std::cout << Json{{"lines", done}, {"tokens", tokens}, {"failed", failed}}.dump() << std::endl;
  } else if (output.to_file() && !arguments.output.quiet) {
    fmt::print("{} lines, {} tokens; written to {}\n", done, tokens, arguments.out.path);
    std::fflush(stdout);
  }
  if (failed > 0)
    throw UserError("{} of {} lines could not be done, the first: {}", failed, done, first_failure);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  app.add_option("directory", arguments->directory, "Model directory, or one with tokenizer files only")
      ->required();
  const auto decode =
      app.add_flag("--decode", arguments->decode, "Ids to text: {\"ids\", \"skip_special\"?}");
  app.add_flag("--chat", arguments->chat, "Chats to text and ids: {\"messages\", \"tools\"?, \"template\"?}")
      ->excludes(decode);
  app.add_option("--in", arguments->in, "Lines, JSONL; - is standard input")->capture_default_str();
  add_out_option(app, arguments->out, "Answers {\"ids\", \"text\"}, JSONL; - is standard output");
  add_output_flags(app, arguments->output);
  app.footer(
      "A line that fails is answered by {\"error\"}, the other lines are still done, and the exit code is "
      "1.\n"
      "\"special\": true adds what the tokenizer's post-processor adds; \"template\" holds options such as\n"
      "{\"add_generation_prompt\": true}.\n\n"
      "Examples:\n"
      "  echo '{\"text\":\"Hello, world\"}' | routeopd tokenize lab/base\n"
      "  echo '{\"ids\":[1, 2, 3]}' | routeopd tokenize lab/base --decode\n"
      "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"2 + "
      "2?\"}],\"template\":{\"add_generation_prompt\":true}}' \\\n"
      "    | routeopd tokenize DIR --chat");
  app.callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace routeopd::app
