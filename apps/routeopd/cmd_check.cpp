// routeopd check: the compatibility gate, each check with its verdict.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "command.h"
#include "routeopd/table/text_table.h"
#include "routeopd/text/compatibility.h"

namespace routeopd::app {
namespace {

struct CheckArguments {
  std::string student, teacher;
  OutputFlags output;
};

void run_check(const CheckArguments& arguments) {
  const text::Compatibility pair = text::check_compatibility(arguments.student, arguments.teacher);
  if (arguments.output.json) {
    Json checks = Json::array();
    for (const text::CompatibilityCheck& check : pair.checks)
      checks.push_back({{"check", check.name}, {"passed", check.passed}, {"detail", check.detail}});
    std::cout << Json{{"compatible", pair.passed()}, {"checks", checks}}.dump(-1, ' ', false,
                                                                              Json::error_handler_t::replace)
              << std::endl;
  } else if (!arguments.output.quiet) {
    table::TextTable table(
        {{"check", table::Align::kLeft}, {"", table::Align::kLeft}, {"", table::Align::kLeft}});
    for (const text::CompatibilityCheck& check : pair.checks)
      table.add({check.name, check.passed ? "pass" : "FAIL", check.detail});
    std::cout << table.text() << std::flush;
  }
  if (!pair.passed()) throw UserError("the pair is not compatible: {}", pair.first_difference());
}

}  // namespace

void add_check(CLI::App& app) {
  const auto arguments = std::make_shared<CheckArguments>();
  app.add_option("--student", arguments->student, "Hugging Face directory; tokenizer files are enough")
      ->required();
  app.add_option("--teacher", arguments->teacher, "The same")->required();
  add_output_flags(app, arguments->output);
  app.footer(
      "Compares the ordered map from ids to tokens, added tokens with their flags, special and eos ids, "
      "chat\n"
      "templates, and the ids of a fixed suite of chats. Padded widths may differ. Exit code 1 when a check\n"
      "fails; `train` runs the same gate before its first step.\n\n"
      "Example:\n"
      "  routeopd check --student lab/base --teacher lab/teacher");
  app.callback([arguments] { run_check(*arguments); });
}

}  // namespace routeopd::app
