// routeopd judge: the error taxonomy of eval directories.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "command.h"
#include "progress.h"
#include "routeopd/base/files.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/judge/judge_files.h"
#include "routeopd/report/judgement.h"

namespace routeopd::app {
namespace {

struct JudgeArguments {
  std::vector<std::string> directories, suites;
  std::string endpoint, out, cache, extra;
  std::string key_name = "OPENAI_API_KEY";
  CLI::Option* key_option = nullptr;
  double timeout = 600;
  double connect_timeout = 5;
  net::RetryRule retry;
  judge::JudgeSettings settings;
  table::TableFormat format = table::TableFormat::kText;
  OutputFlags output;
};

// What --suite says: NAME is judged, and no suite that is not named so; NAME=FILE tells where problems are.
struct Suites {
  std::set<std::string> only;
  std::map<std::string, std::string> files;
};

Suites suites_of(const std::vector<std::string>& words) {
  Suites suites;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || word.empty() || equals + 1 == word.size())
      throw UsageError("--suite {}: expected NAME or NAME=FILE", word);
    const bool fresh = equals == std::string::npos
                           ? suites.only.insert(word).second
                           : suites.files.emplace(word.substr(0, equals), word.substr(equals + 1)).second;
    if (!fresh) throw UsageError("--suite: {} is named twice", word.substr(0, equals));
  }
  return suites;
}

// The key's value goes from the environment to the client and nowhere else.
std::string key_of(const JudgeArguments& arguments) {
  if (arguments.key_name.empty()) return "";
  const char* value = std::getenv(arguments.key_name.c_str());
  if (value == nullptr && arguments.key_option->count() > 0)
    throw UserError(
        "--key-env {}: no such environment variable; set it, or give --key-env \"\" to send no key",
        arguments.key_name);
  return value == nullptr ? "" : value;
}

judge::ChatSettings chat_settings(const JudgeArguments& arguments) {
  using Milliseconds = std::chrono::milliseconds;
  judge::ChatSettings chat{net::read_endpoint(arguments.endpoint), key_of(arguments), {}, arguments.retry};
  chat.limits.connect = Milliseconds(static_cast<std::int64_t>(1000 * arguments.connect_timeout));
  chat.limits.total = Milliseconds(static_cast<std::int64_t>(1000 * arguments.timeout));
  return chat;
}

void run_judge(const JudgeArguments& arguments) {
  namespace fs = std::filesystem;
  judge::JudgeSettings settings = arguments.settings;
  if (!arguments.extra.empty()) settings.extra = formats::parse_json_object(arguments.extra, "--extra");
  judge::check_extra(settings.extra);
  const judge::ChatSettings chat = chat_settings(arguments);
  judge::check_key(chat);
  const Suites suites = suites_of(arguments.suites);
  const judge::JudgeInput input = judge::read_judge_input(arguments.directories, suites.files, suites.only);

  const fs::path out(arguments.out);
  judge::open_judge_directory(out, settings.model);
  const DirectoryLock lock(out);
  remove_abandoned(out);
  for (const char* written : {"labels.jsonl", "summary.json"}) {
    if (!arguments.cache.empty() &&
        fs::weakly_canonical(arguments.cache) == fs::weakly_canonical(out / written))
      throw UserError("--cache: {} is written by judge itself; choose another name", arguments.cache);
  }
  judge::AnswerCache cache(arguments.cache.empty() ? out / "cache.jsonl" : fs::path(arguments.cache));
  judge::Asker asker(chat, settings, cache);
  std::unique_ptr<Progress> progress;
  const auto watch = [&](const char* stage, std::int64_t questions) {
    progress.reset();  // ends the line of the stage before
    progress = std::make_unique<Progress>(fmt::format("judge {}", stage), questions, arguments.output.quiet);
    return [&progress, questions](std::int64_t done) {
      progress->update(done, fmt::format("{} of {} questions", done, questions));
    };
  };
  const auto judgements = judge::judgements_of(input, judge::judge_cases(input.cases, asker, watch));
  progress.reset();
  const judge::JudgeTally tally = judge::tally_of(input, judgements);
  const Json summary = judge::summary_of(input, tally, asker);
  judge::write_labels(out / "labels.jsonl", input, judgements);
  write_file(out / "summary.json", summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");

  if (arguments.output.json) {
    std::cout << summary.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << report::judgement_tables(input, tally, arguments.format);
  }
  std::cout.flush();
  std::string why = asker.stopped(), no_label;
  bool labelled = false;  // by the judge, once at least
  for (const auto& run : judgements) {
    for (const judge::Judgement& judgement : run) {
      if (why.empty() && !judgement.answered) why = judgement.reason;
      if (judgement.label == judge::Label::kUnjudged) no_label = judgement.reason;
      labelled = labelled || judgement.pass1 || judgement.pass2;
    }
  }
  if (tally.unanswered == 0 && !labelled && tally.unjudged > 0)
    throw UserError(
        "the judge labelled none of {} responses ({}); its answers are in {}, another --seed or --max-tokens "
        "asks anew",
        tally.unjudged, no_label, arguments.cache.empty() ? arguments.out : arguments.cache);
  if (tally.unanswered == 0) return;
  throw UserError(
      "{} of {} responses are unjudged, since no answer came ({}); all others are in {}, and the same "
      "command "
      "asks for the rest",
      tally.unanswered, summary["responses"].get<std::int64_t>(), why, arguments.out);
}

}  // namespace

void add_judge(CLI::App& app) {
  const auto arguments = std::make_shared<JudgeArguments>();
  judge::JudgeSettings& settings = arguments->settings;
  app.add_option("directories", arguments->directories,
                 "Eval directories of one protocol; transitions are from the first to each other")
      ->required()
      ->expected(1, 1000);
  app.add_option("--endpoint", arguments->endpoint,
                 "OpenAI-compatible address, such as http://127.0.0.1:8000/v1")
      ->required();
  app.add_option("--model", settings.model, "The judge's name at that address")->required();
  app.add_option("--out", arguments->out, "Judge directory: a new one, or one to resume")->required();
  app.add_option("--suite", arguments->suites,
                 "NAME: judge the responses of this suite, and of others only where they are named too; "
                 "NAME=FILE: where a suite's problems are, if not where summary.json says; may be repeated")
      ->allow_extra_args(false);
  arguments->key_option =
      app.add_option("--key-env", arguments->key_name, "Environment variable with the key; \"\" sends none")
          ->capture_default_str();
  app.add_option("--temperature", settings.temperature,
                 "Of the judge; at 0 the second pass would repeat the first")
      ->check(between(0, 100))
      ->capture_default_str();
  app.add_option("--max-tokens", settings.max_tokens, "Longest answer of the judge")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Of the first pass; the others follow it")
      ->check(CLI::Range(0, 2'000'000'000))
      ->capture_default_str();
  app.add_option("--extra", arguments->extra,
                 "JSON object of more fields for every request; null removes one");
  app.add_option("--parallel", settings.parallel, "Most requests at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--timeout", arguments->timeout, "Seconds that one try may take")
      ->check(between(0.01, 86400))
      ->capture_default_str();
  app.add_option("--connect-timeout", arguments->connect_timeout, "Seconds that connecting may take")
      ->check(between(0.01, 86400))
      ->capture_default_str();
  app.add_option("--retries", arguments->retry.retries, "Further tries where the judge is away or busy")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--give-up", settings.give_up, "Failed requests in a row after which no more is asked")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--cache", arguments->cache, "File of answers; default: cache.jsonl in --out");
  add_table_flags(app, arguments->format);
  add_output_flags(app, arguments->output);
  app.footer(
      "Labels every response correct, reasoning, arithmetic, premature_stop or format. The first and the\n"
      "last come from the eval directory; for the others a judge is asked twice, and a third time where it\n"
      "disagrees with itself. It sees the problem, both answers and the response. Answers are kept, so the\n"
      "same command resumes.\n\n"
      "Example:\n"
      "  routeopd judge runs/eval-base runs/eval-student --endpoint http://127.0.0.1:8000/v1 \\\n"
      "    --model judge --out runs/judged");
  app.callback([arguments] { run_judge(*arguments); });
}

}  // namespace routeopd::app
