// routeopd plan: a run on paper, before anybody pays for it.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "plan_beside.h"
#include "routeopd/base/output_place.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/run/measured_cpu.h"
#include "routeopd/run/workload.h"
#include "routeopd/scale/growth_figure.h"
#include "routeopd/scale/prediction.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/inputs.h"

namespace routeopd::app {
namespace {

namespace fs = std::filesystem;

// Tokens of a prompt where none can be read: the mean of DAPO-Math-17K in Qwen3's chat template.
constexpr double kUsualPrompt = 116;

constexpr std::int64_t kMostGpus = 1'000'000;
constexpr std::int64_t kMostConfigBytes = 16 << 20;

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> settings, assumptions;
  std::string gpu;
  std::int64_t gpus = 1;
  bool shard = false;
  std::string student_config, teacher_config;
  std::string beside, figure;
  bool overwrite = false;
  bool beside_paper = false;
  OutputFlags output;
};

// A model's configuration from the file that was named, else from its directory. Weights are not looked for.
formats::ModelConfig config_of(const std::string& section, const std::string& directory,
                               const std::string& option, const std::string& named) {
  if (!named.empty()) {
    const fs::path file = fs::is_directory(named) ? fs::path(named) / "config.json" : fs::path(named);
    const Json config = formats::read_json_object(file, kMostConfigBytes);
    return formats::naming(file.string(), [&] { return formats::model_config_of(config); });
  }
  std::error_code ignored;
  if (!fs::exists(fs::path(directory) / "config.json", ignored))
    throw UserError("[{}] path {}: has no config.json here; {} FILE names one, no weights are needed",
                    section, directory, option);
  return formats::read_model_config(directory);
}

// The prompts as the run would read them; none where they or the tokenizer are not here.
std::optional<std::vector<Prompt>> prompts_of(const train::Recipe& recipe,
                                              const formats::ModelConfig& student,
                                              const std::vector<formats::ModelConfig>& teachers) {
  std::error_code ignored;
  if (!fs::exists(fs::path(recipe.student.path) / "tokenizer.json", ignored) ||
      !fs::exists(recipe.data.prompts, ignored))
    return std::nullopt;
  const tokenizer::Tokenizer tokenizer(recipe.student.path);
  std::int64_t too_long = 0;
  return train::read_prompts(recipe, tokenizer, student, teachers, too_long);
}

// What stays the same while GPUs and arms change.
class Planner {
 public:
  explicit Planner(const PlanArguments& arguments)
      : arguments_(arguments),
        device_(arguments.gpu == scale::kThisCpu ? run::measured_cpu() : scale::find_device(arguments.gpu)) {}

  scale::Prediction predict(std::int64_t gpus, const std::vector<std::string>& more = {}) {
    const train::Recipe recipe = read(more);
    scale::Assumptions assumptions = scale::assumptions_for(device_);
    if (!arguments_.beside.empty()) {
      const MeasuredRun run = read_measured(arguments_.beside, recipe.rollout.prompts_per_step);
      assumptions.response_tokens = run.response_tokens;
      assumptions.prompt_tokens = run.prompt_tokens;
    }
    for (const std::string& word : arguments_.assumptions) scale::assume(assumptions, word);
    const scale::Workload workload = workload_of(recipe, assumptions);
    return scale::predict(workload, assumptions, device_, {.gpus = gpus, .sharded = arguments_.shard});
  }

 private:
  train::Recipe read(const std::vector<std::string>& more) const {
    std::vector<std::string> settings = arguments_.settings;
    settings.insert(settings.end(), more.begin(), more.end());
    train::Recipe recipe = train::resolved(train::read_recipe(arguments_.recipe, settings));
    if (recipe.out.empty()) recipe.out = "runs/unnamed";
    train::check_recipe(recipe);
    return recipe;
  }

  scale::Workload workload_of(const train::Recipe& recipe, scale::Assumptions& assumptions) {
    const formats::ModelConfig student =
        config_of("student", recipe.student.path, "--student-config", arguments_.student_config);
    std::vector<formats::ModelConfig> teachers;
    for (const train::RunTeacher& teacher : recipe.run_teachers())
      teachers.push_back(config_of(teacher.section_name(), teacher.section->path, "--teacher-config",
                                   arguments_.teacher_config));
    scale::Workload workload = run::workload_of(recipe, student, teachers);
    if (!prompts_) prompts_ = prompts_of(recipe, student, teachers).value_or(std::vector<Prompt>());
    run::count_prompts(*prompts_, workload, assumptions);
    if (recipe.sft() && assumptions.response_tokens == 0)
      throw UserError(
          "[data] prompts {}: gives no responses here, from which the sft arm learns; --assume "
          "response_tokens=N says their mean length",
          recipe.data.prompts);
    if (assumptions.prompt_tokens == 0) assumptions.prompt_tokens = kUsualPrompt;
    return workload;
  }

  const PlanArguments& arguments_;
  scale::Device device_;
  std::optional<std::vector<Prompt>> prompts_;  // read once
};

void run_plan(const PlanArguments& arguments) {
  if (!arguments.figure.empty()) scale::check_figure_name(arguments.figure);
  std::optional<OutputPlace> figure;
  if (!arguments.figure.empty()) figure.emplace(arguments.figure, arguments.overwrite).refuse_rows();
  Planner planner(arguments);
  const scale::Prediction prediction = planner.predict(arguments.gpus);
  std::vector<BesideRow> beside;
  if (!arguments.beside.empty())
    beside = beside_run(prediction, read_measured(arguments.beside, prediction.workload.prompts));
  if (arguments.beside_paper)
    beside = beside_paper([&](const auto& settings) { return planner.predict(arguments.gpus, settings); });
  if (!arguments.figure.empty()) {
    std::vector<scale::Prediction> all;
    for (const std::int64_t count : scale::drawn_counts(arguments.gpus))
      all.push_back(planner.predict(count));
    scale::write_growth_figure(scale::growth_figure(all), figure->path());
  }
  if (arguments.output.json) {
    Json answer = scale::prediction_json(prediction);
    answer["recipe"] = arguments.recipe;
    if (!beside.empty()) answer["beside"] = beside_json(beside);
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << scale::prediction_text(prediction);
    if (!beside.empty())
      std::cout << '\n' << beside_text(beside, arguments.beside_paper ? "the paper" : "measured");
  }
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto arguments = std::make_shared<PlanArguments>();
  std::string names;
  for (const scale::Device& device : scale::devices()) names += device.name + ", ";
  app.add_option("recipe", arguments->recipe, "The run's recipe, TOML")->required();
  app.add_option("--set", arguments->settings,
                 "section.key=value, over what the recipe says; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--gpu", arguments->gpu,
                 fmt::format("Device: {}or {}, which is measured", names, scale::kThisCpu))
      ->required();
  app.add_option("--gpus", arguments->gpus, "How many of them")
      ->check(CLI::Range(std::int64_t{1}, kMostGpus))
      ->capture_default_str();
  app.add_flag("--shard", arguments->shard,
               "Weights, gradients and moments of the learner are spread over the devices, as FSDP does");
  app.add_option("--assume", arguments->assumptions,
                 "NAME=VALUE, an assumption of those that the plan prints; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--student-config", arguments->student_config,
                 "config.json of the student, where its directory is not here");
  app.add_option("--teacher-config", arguments->teacher_config,
                 "config.json of the teachers, where their directories are not here");
  app.add_option("--figure", arguments->figure,
                 "Time and memory over 1 to 1,024 devices, as FILE.json (Vega-Lite), .svg, .png or .html");
  add_overwrite_flag(app, arguments->overwrite);
  auto* const beside = app.add_option("--beside", arguments->beside,
                                      "Run directory: its measured seconds beside the predicted ones");
  app.add_flag("--beside-paper", arguments->beside_paper, "The paper's table of costs beside the prediction")
      ->excludes(beside);
  add_output_flags(app, arguments->output);
  app.footer(
      "Reads the recipe and the models' config.json; no weights. Times are rooflines of published peaks "
      "times "
      "the efficiencies\n"
      "that are printed; docs/plan.md says how far they are from what was measured.\n\n"
      "Examples:\n"
      "  routeopd plan recipes/lab.toml --gpu H100 --gpus 8\n"
      "  routeopd plan recipes/lab.toml --gpu this-cpu --figure growth.json");
  app.callback([arguments] { run_plan(*arguments); });
}

}  // namespace routeopd::app
