// routeopd score: log-probabilities, top-k and log-partitions of given sequences of ids, JSONL in and out.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "line_output.h"
#include "loaded_model.h"
#include "progress.h"
#include "routeopd/base/hashes.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/engine/local_engine.h"
#include "routeopd/engine/score_sequences.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::app {
namespace {

constexpr std::int64_t kPortion = 2048;  // tokens that are scored together: what an interruption may cost

struct ScoreArguments {
  std::string model, in = "-";
  OutArgument out{"-"};
  std::int32_t k = 32;
  OutputFlags output;
};

engine::GivenSequence sequence_of(const Json& line, const engine::LocalEngine& engine) {
  engine::GivenSequence sequence;
  sequence.ids_L = formats::naming(
      "ids", [&] { return formats::ids_in(formats::value_or_null(line, "ids"), engine.real_ids() - 1); });
  const auto length = std::ssize(sequence.ids_L);
  if (length == 0) throw UserError("ids: expected at least one, got none");
  if (length > engine.model().config.max_position_embeddings)
    throw UserError("ids: expected at most the model's {} positions, got {}",
                    engine.model().config.max_position_embeddings, length);
  const Json& gather = formats::value_or_null(line, "gather");
  if (gather.is_null()) return sequence;
  if (!gather.is_array() || std::ssize(gather) != length)
    throw UserError("gather: expected {} lists, one a token, got {}", length,
                    gather.is_array() ? std::to_string(gather.size()) : shown(gather));
  for (std::size_t t = 1; t < gather.size(); ++t)  // nothing predicts the first token
    sequence.gather_R.push_back(formats::naming(
        fmt::format("gather[{}]", t), [&] { return formats::ids_in(gather[t], engine.real_ids() - 1); }));
  return sequence;
}

// Entry t is the distribution that predicts token t; entry 0 is null or empty.
Json line_of(const engine::SequenceScores& scores, const Json& given) {
  const bool gathered = !formats::value_or_null(given, "gather").is_null();
  Json logprobs = Json::array({nullptr}), lse = Json::array({nullptr});
  Json top_ids = Json::array({Json::array()}), top_logprobs = top_ids, gather_logprobs = top_ids;
  const auto k = static_cast<std::size_t>(scores.columns);
  for (std::size_t t = 0; t < scores.logprob_R.size(); ++t) {
    logprobs.push_back(scores.logprob_R[t]);
    lse.push_back(scores.logsumexp_R[t]);
    top_ids.push_back(std::span(scores.top_ids_RK).subspan(t * k, k));
    top_logprobs.push_back(std::span(scores.top_logprobs_RK).subspan(t * k, k));
    if (gathered) gather_logprobs.push_back(scores.gathered_R[t]);
  }
  Json line = {{"logprobs", logprobs}, {"top_ids", top_ids}, {"top_logprobs", top_logprobs}, {"lse", lse}};
  if (gathered) line["gather_logprobs"] = gather_logprobs;
  if (given.contains("id")) line["id"] = given["id"];
  return line;
}

// All that decides the scores.
Json command_of(const ScoreArguments& arguments) {
  Json command = {{"command", "score"}, {"version", ROUTEOPD_VERSION}, {"in", "-"}, {"k", arguments.k}};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(arguments.in, ignored)) return command;  // no rows are taken up
  command["in"] = {{"sha256", sha256_of_file(arguments.in)}};
  command["model"] = contents_of(arguments.model);
  return command;
}

struct Totals {
  std::int64_t rows = 0, tokens = 0;
  double logprob = 0;
};

// Of the rows that an earlier command left: with them, the totals are those of a command that never stopped.
void add_kept(Totals& totals, const std::string& path) {
  formats::JsonLines lines(path);
  while (const std::optional<Json> line = lines.next()) {
    const Json& logprobs = formats::value_or_null(*line, "logprobs");
    for (std::size_t t = 1; t < logprobs.size(); ++t) totals.logprob += logprobs[t].get<double>();
    totals.tokens += std::ssize(logprobs) - 1;
  }
}

void run_score(const ScoreArguments& arguments) {
  refuse_same_file(arguments.in, arguments.out.path);
  LineOutput output(arguments.out);
  const LoadedModel loaded(arguments.model);
  engine::LocalEngine engine(loaded.model, loaded.real_ids());
  formats::JsonLines lines(arguments.in);
  Totals totals;
  totals.rows = output.keep_lines([&] { return command_of(arguments); });
  if (totals.rows > 0) add_kept(totals, output.kept());
  const std::int64_t found = totals.rows;
  if (found > 0 && !arguments.output.quiet)
    std::cerr << fmt::format("{}: {} sequences are scored already\n", output.kept(), found);

  std::vector<engine::GivenSequence> portion;
  std::vector<Json> given;  // the lines that the portion came from
  std::int64_t tokens = 0;
  Progress progress("score", lines.bytes_total(), arguments.output.quiet);
  const auto flush = [&] {
    if (portion.empty()) return;
    const std::vector<engine::SequenceScores> scores = engine::score_sequences(engine, portion, arguments.k);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      for (const float value : scores[i].logprob_R) totals.logprob += static_cast<double>(value);
      output.write(line_of(scores[i], given[i]));
    }
    totals.rows += std::ssize(portion);
    totals.tokens += tokens - std::ssize(portion);
    portion.clear();
    given.clear();
    tokens = 0;
    progress.update(lines.bytes_read(), fmt::format("{} sequences", totals.rows));
  };
  const auto score_rest = [&] {
    for (std::int64_t read = 0; const std::optional<Json> line = lines.next();) {
      check_interrupt();
      if (++read <= found) continue;
      engine::GivenSequence sequence = formats::naming(lines.where(), [&] {
        formats::id_of(*line, 0);
        return sequence_of(*line, engine);
      });
      if (tokens + std::ssize(sequence.ids_L) > kPortion) flush();
      tokens += std::ssize(sequence.ids_L);
      given.push_back(*line);
      portion.push_back(std::move(sequence));
    }
  };
  try {
    try {
      score_rest();
    } catch (const UserError&) {
      flush();  // what stands before a bad line is answered
      throw;
    }
    flush();
  } catch (...) {
    output.tell_kept(arguments.output);
    throw;
  }
  output.finish();
  if (!output.to_file() || (arguments.output.quiet && !arguments.output.json)) return;
  const double mean = totals.tokens > 0 ? totals.logprob / static_cast<double>(totals.tokens) : 0;
  if (arguments.output.json) {
    std::cout << Json{{"sequences", totals.rows}, {"tokens", totals.tokens}, {"mean_logprob", mean}}.dump()
              << '\n';
  } else {
    fmt::print("{} sequences, {} tokens predicted, mean log-probability {:.4f}; written to {}\n", totals.rows,
               totals.tokens, mean, arguments.out.path);
  }
}

}  // namespace

void add_score(CLI::App& app) {
  const auto arguments = std::make_shared<ScoreArguments>();
  app.add_option("--model", arguments->model, "Hugging Face model directory")->required();
  app.add_option("--in", arguments->in, "Sequences, JSONL of {\"ids\", \"gather\"?}; - is standard input")
      ->capture_default_str();
  add_out_option(app, arguments->out, "Scores, JSONL; - is standard output");
  app.add_option("--k", arguments->k, "Most likely ids kept of every distribution")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_output_flags(app, arguments->output);
  app.footer(
      "Entry t of each list is the distribution that predicts token t; entry 0 is null or empty. Where the "
      "directory has a\n"
      "tokenizer, its ids alone take part: the padded rows of the head never do. A file gets its name when "
      "all is scored;\n"
      "stopped, the same command goes on from the lines in OUT.partial, unless it reads a stream.\n\n"
      "Example:\n"
      "  echo '{\"ids\":[5, 9, 3], \"gather\":[[], [7, 8], [1]]}' | routeopd score --model lab/teacher --k "
      "4");
  app.callback([arguments] { run_score(*arguments); });
}

}  // namespace routeopd::app
