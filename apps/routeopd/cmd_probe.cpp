// routeopd probe: a frozen bank of states, and the paper's interventions on it.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/output_place.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/model/model_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/kept_rows.h"
#include "routeopd/probe/run_probe.h"
#include "routeopd/probe/summary.h"
#include "routeopd/table/text_table.h"
#include "routeopd/text/compatibility.h"
#include "routeopd/text/prompts.h"
#include "routeopd/train/recipe.h"

namespace routeopd::app {
namespace {

struct MakeBankArguments {
  std::string student, teacher, prompts;
  OutArgument out;
  std::string prompt_template = "chat";
  std::int64_t most_prompts = 128;
  probe::BankOptions options;
  Json objective;
  OutputFlags output;
};

struct RunArguments {
  std::string bank, student, teacher, out, moments, dump;
  std::vector<std::string> arms = {"routeopd"};
  std::vector<std::string> interventions;
  double lr = 1e-6;
  std::string rms = "routeopd";
  table::TableFormat format = table::TableFormat::kText;
  OutputFlags output;
};

std::string percent_of(const Json& value) {
  return value.is_number() ? fmt::format("{:.1f}", 100 * value.get<double>()) : "–";
}

std::string plain(const Json& value, int digits) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "–";
}

std::string with_interval(const Json& spread) {
  return spread["mean"].is_number() ? fmt::format("{} [{}, {}]", percent_of(spread["mean"]),
                                                  percent_of(spread["low"]), percent_of(spread["high"]))
                                    : "–";
}

std::string table_of(const Json& result, table::TableFormat format) {
  std::vector<std::vector<std::string>> rows;
  const auto share = [](const Json& row, const std::string& name) {
    const Json& interval = row[name + "_interval"];
    return row[name].is_number() ? fmt::format("{} [{}, {}]", percent_of(row[name]), percent_of(interval[0]),
                                               percent_of(interval[1]))
                                 : "–";
  };
  for (const Json& row : result["rows"])
    rows.push_back({row["name"].get<std::string>(), row["intervention"].get<std::string>(),
                    with_interval(row["fidelity"]), percent_of(row["fidelity"]["p10"]),
                    percent_of(row["fidelity"]["median"]), with_interval(row["leakage"]),
                    percent_of(row["leakage"]["median"]), plain(row["target_mae"], 4),
                    share(row, "completion"), share(row, "overshoot"), plain(row["rms"], 4)});
  return table::table_of({"arm", "intervention", "fidelity % [95 %]", "P10", "median", "leakage % [95 %]",
                          "median", "target MAE", "completion % [95 %]", "overshoot % [95 %]", "RMS"},
                         rows, format);
}

// To which size updates were scaled.
std::string size_text(const Json& result) {
  const auto matched = result["matched"].get<std::string>();
  if (matched == "none") return "updates are as they are at the learning rate";
  return fmt::format("updates are scaled to {}{}",
                     matched == "routeopd"  ? "the RMS log-odds change of RouteOPD's fresh-AdamW update, "
                     : matched == "targets" ? "the RMS of the bank's targets, "
                                            : "an RMS log-odds change of ",
                     plain(result["rms"], 4));
}

void run_make_bank(MakeBankArguments& arguments) {
  const OutputPlace place(arguments.out.path, arguments.out.overwrite);
  place.refuse_rows();
  arguments.options.objective = routing::objective_from(arguments.objective);
  const std::string difference =
      text::check_compatibility(arguments.student, arguments.teacher).first_difference();
  if (!difference.empty())
    throw UserError("--teacher: the pair is not compatible ({}); `routeopd check` shows every check",
                    difference);
  const tokenizer::Tokenizer tokenizer(arguments.student);
  std::vector<Prompt> prompts = text::read_prompts(
      arguments.prompts, text::PromptTemplate(arguments.prompt_template, arguments.student), &tokenizer);
  if (prompts.empty()) throw UserError("--prompts: {} has no prompts", arguments.prompts);
  prompts.resize(std::min(prompts.size(), static_cast<std::size_t>(arguments.most_prompts)));
  Progress progress("probe make", -1, arguments.output.quiet);
  const model::Model student = model::load_model(arguments.student),
                     teacher = model::load_model(arguments.teacher);
  for (const model::Model* const model : {&student, &teacher})
    arguments.options.max_new_tokens =
        engine::longest_response(*model, prompts, 0, arguments.options.max_new_tokens);
  progress.update(0, fmt::format("{} prompts are answered and read", prompts.size()));
  Rollout visited;
  {
    engine::LocalEngine writer(
        student, tokenizer.real_ids());  // its copy of the weights goes before the states are read
    visited = probe::visit_states(writer, prompts, arguments.options);
  }
  probe::Bank bank = probe::make_bank(visited, student, teacher, tokenizer.real_ids(), arguments.options);
  bank.student = {arguments.student, formats::weights_sha256(arguments.student)};
  bank.teacher = {arguments.teacher, formats::weights_sha256(arguments.teacher)};
  probe::write_bank(bank, place.path());
  Json result = probe::bank_statistics(bank, bank.frozen);
  result["bank"] = arguments.out.path;
  result["sha256"] = bank.sha256;
  if (arguments.output.json) {
    std::cout << result.dump() << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << fmt::format(
        "{} states of {} responses in {} ({:.12}): {} % routed, mass {}, concentration {}, the support holds "
        "{} % of "
        "the student and {} % of the teacher\n",
        bank.states(), bank.rollout.responses_B.size(), arguments.out.path, bank.sha256,
        percent_of(result["routed_share"]), plain(result["mass"], 3), plain(result["concentration"], 2),
        percent_of(result["student_mass"]), percent_of(result["teacher_mass"]));
  }
}

void run_run(const RunArguments& arguments) {
  probe::ProbeRequest request{.bank = arguments.bank,
                              .student = arguments.student,
                              .teacher = arguments.teacher,
                              .moments = arguments.moments,
                              .arms = {},
                              .interventions = {},
                              .optimizer = {},
                              .size = probe::matched_size_of(arguments.rms),
                              .out = arguments.out,
                              .dump = arguments.dump};
  if (!arguments.moments.empty()) {
    // The moments belong to the run's own decay rates: RUN/recipe.toml lies two levels above them.
    const std::filesystem::path recipe =
        std::filesystem::absolute(arguments.moments).lexically_normal() / ".." / ".." / "recipe.toml";
    if (!std::filesystem::exists(recipe))
      throw UserError(
          "--moments: {} is no checkpoint of a run: expected RUN/checkpoints/step_N beside RUN/recipe.toml",
          arguments.moments);
    request.optimizer = train::read_recipe(recipe.lexically_normal().string()).optimizer;
  }
  request.optimizer.lr = arguments.lr;
  const routing::ObjectiveOptions frozen = probe::read_bank(arguments.bank).objective;
  for (const std::string& words : arguments.arms) request.arms.push_back(probe::arm_of(words, frozen));
  for (const std::string& name : arguments.interventions) {
    request.interventions.push_back(probe::intervention_of(name));
    if (request.interventions.back() == probe::Intervention::kSavedAdamW && arguments.moments.empty())
      throw UserError("--intervention: saved_adamw needs --moments RUN/checkpoints/step_N");
  }
  if (arguments.interventions.empty())
    request.interventions.assign(probe::kInterventions.begin(), probe::kInterventions.end());
  Json result;
  try {
    std::optional<Progress> progress;  // the number of rows is known once the models are loaded
    result = probe::run_probe(request, [&](std::int64_t done, std::int64_t total, const std::string& what) {
      if (!progress) progress.emplace("probe", total, arguments.output.quiet);
      progress->update(done, fmt::format("{} of {}: {}", done + 1, total, what));
    });
  } catch (const Interrupted&) {
    const std::string kept = probe::kept_rows_path(arguments.out).string();
    if (!arguments.output.quiet && std::filesystem::exists(kept))
      std::cerr << fmt::format("the rows that are finished are in {}; the same command goes on\n", kept);
    throw;
  }
  if (arguments.output.json) {
    std::cout << result.dump() << '\n';
    return;
  }
  std::cout << table_of(result, arguments.format);
  const bool own = result["student"]["frozen"].get<bool>();
  const auto states = result["bank"]["states"].get<std::int64_t>();
  std::cout << table::note(fmt::format("{} states; {}; {}; "
                                       "intervals: bootstrap over {} responses; {}/probe.json",
                                       states, size_text(result),
                                       own ? "the student is the bank's own"
                                           : "supports and routes were made anew for this student",
                                       result["bank"]["sequences"].get<std::int64_t>(), arguments.out),
                           arguments.format);
}

void add_make_bank(CLI::App& app) {
  const auto arguments = std::make_shared<MakeBankArguments>();
  app.add_option("--student", arguments->student, "Hugging Face directory")->required();
  app.add_option("--teacher", arguments->teacher, "Hugging Face directory")->required();
  app.add_option("--prompts", arguments->prompts, "Prompts, JSONL: each is answered once, at temperature 1")
      ->required();
  add_out_option(app, arguments->out, "The bank, a safetensors file")->required();
  app.add_option("--states", arguments->options.states, "States to freeze")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--most-prompts", arguments->most_prompts, "The first of the file, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-new", arguments->options.max_new_tokens, "Longest response, tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--template", arguments->prompt_template,
                 "How a problem is asked: chat, raw, or a text with {problem}")
      ->capture_default_str();
  app.add_option("--seed", arguments->options.seed, "Of responses, the choice of states and pairs")
      ->capture_default_str();
  add_fields(app, routing::objective_fields(), arguments->objective);
  add_output_flags(app, arguments->output);
  app.footer(
      "Example:\n  routeopd probe make --student lab/base --teacher lab/teacher --prompts lab/heldout.jsonl "
      "\\\n"
      "    --template $'Problem: {problem}\\nSolution:' --max-new 80 --k 16 --out bank.safetensors");
  app.callback([arguments] { run_make_bank(*arguments); });
}

void add_run(CLI::App& app) {
  const auto arguments = std::make_shared<RunArguments>();
  app.add_option("--bank", arguments->bank, "A file of `probe make`")->required();
  app.add_option("--student", arguments->student,
                 "The student to probe: the bank's own, or a checkpoint of it")
      ->required();
  app.add_option("--teacher", arguments->teacher, "The bank's teacher")->required();
  app.add_option("--out", arguments->out, "A directory for probe.json and its lines; must not exist")
      ->required();
  app.add_option(
         "--arm", arguments->arms,
         "An arm, with settings where it needs some: routeopd, routeopd:k=64, exact=routeopd:pairs=exact")
      ->capture_default_str();
  app.add_option(
      "--intervention", arguments->interventions,
      "pair_isolated, potential_wide, potential_matched, fresh_adamw, saved_adamw, sgd; all where none is "
      "named, each for the arms it applies to");
  app.add_option("--moments", arguments->moments,
                 "RUN/checkpoints/step_N, whose AdamW moments and settings saved_adamw takes");
  app.add_option(
         "--lr", arguments->lr,
         "Learning rate of the update that the others are matched to; with --rms none, of all updates")
      ->check(between(1e-12, 1))
      ->capture_default_str();
  app.add_option(
         "--rms", arguments->rms,
         "Size to which updates are scaled, RMS change of log-odds over the frozen pairs: a number, "
         "routeopd (that of its fresh-AdamW update at --lr), targets (that of the bank's targets), or "
         "none: each update at --lr as it is")
      ->capture_default_str();
  app.add_option("--dump", arguments->dump, "Also every distribution, as a safetensors file of logits");
  add_table_flags(app, arguments->format);
  add_output_flags(app, arguments->output);
  app.footer(
      "Example:\n  routeopd probe run --bank bank.safetensors --student lab/base --teacher lab/teacher --lr "
      "5e-5 \\\n"
      "    --arm routeopd --arm sampled_rkl --arm rank_matched --out probe");
  app.callback([arguments] { run_run(*arguments); });
}

}  // namespace

void add_probe(CLI::App& app) {
  app.require_subcommand(1);
  add_make_bank(
      *app.add_subcommand("make", "A bank: states frozen with both models' scores, supports and routes"));
  add_run(*app.add_subcommand("run", "Interventions on a bank: fidelity, leakage, realization, strata"));
  app.footer(
      "Example:\n  routeopd probe make --student lab/base --teacher lab/teacher --prompts lab/heldout.jsonl "
      "\\\n"
      "    --template $'Problem: {problem}\\nSolution:' --max-new 80 --out bank.safetensors\n"
      "  routeopd probe run --bank bank.safetensors --student lab/base --teacher lab/teacher --out probe");
}

}  // namespace routeopd::app
