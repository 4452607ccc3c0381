// routeopd convert: a model directory written again, with another type or other shards.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "command.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/model/model_files.h"

namespace routeopd::app {
namespace {

struct ConvertArguments {
  std::string model, out;
  std::string dtype = "float32";
  double shard_gb = 50;
  OutputFlags output;
};

void run_convert(const ConvertArguments& arguments) {
  model::SaveOptions options;
  options.dtype = choice_of<at::ScalarType>(
      Json(arguments.dtype), {{"float32", at::kFloat}, {"bfloat16", at::kBFloat16}, {"float16", at::kHalf}});
  options.shard_bytes = static_cast<std::int64_t>(arguments.shard_gb * 1e9);
  const model::Model model = model::load_model(arguments.model);
  check_interrupt();
  model::save_model(model, arguments.out, arguments.model, options);
  const model::StoredWeights stored = model::describe_weights(arguments.out);
  if (arguments.output.json) {
    std::cout << Json{{"parameters", stored.parameters},
                      {"bytes", stored.bytes},
                      {"files", stored.files.size()}}
                     .dump()
              << '\n';
  } else if (!arguments.output.quiet) {
    fmt::print("{}: {} parameters as {}, {} bytes in {} file{}\n", arguments.out, stored.parameters,
               arguments.dtype, stored.bytes, stored.files.size(), stored.files.size() == 1 ? "" : "s");
  }
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto arguments = std::make_shared<ConvertArguments>();
  app.add_option("model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("out", arguments->out, "Directory to write; must not exist")->required();
  app.add_option("--dtype", arguments->dtype,
                 "float32 | bfloat16 | float16; values are rounded to the nearest")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--shard-gb", arguments->shard_gb, "Largest weight file, in 10^9 bytes")
      ->check(between(1e-6, 1e6))
      ->capture_default_str();
  add_output_flags(app, arguments->output);
  app.footer(
      "Tokenizer files and templates are carried along byte for byte; a checkpoint of `train` is float32.\n\n"
      "Example:\n"
      "  routeopd convert runs/demo/checkpoints/step_100 student-bf16 --dtype bfloat16 --shard-gb 5");
  app.callback([arguments] { run_convert(*arguments); });
}

}  // namespace routeopd::app
