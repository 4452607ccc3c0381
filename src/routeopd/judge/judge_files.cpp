// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/judge_files.h"

#include "routeopd/base/files.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::judge {
namespace {

constexpr std::int64_t kMostSummaryBytes = 1 << 26;

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json optional_name(const std::optional<Label>& label) {
  return label ? Json(name_of(*label)) : Json();
}

Json counts_json(const PerLabel<std::int64_t>& counts, bool with_correct) {
  Json object = Json::object();
  for (const Label label : kAllLabels) {
    if (with_correct || label != Label::kCorrect) object[name_of(label)] = counts[index_of(label)];
  }
  return object;
}

Json agreement_json(const Agreement& agreement) {
  return {{"n", agreement.n},
          {"agreement", optional_json(agreement.share)},
          {"kappa", optional_json(agreement.kappa)}};
}

Json run_json(const RunTally& run) {
  return {{"labels", counts_json(run.counts, true)},
          {"total", run.total},
          {"length",
           {{"mean", run.mean}, {"p25", run.p25}, {"p50", run.p50}, {"p75", run.p75}, {"p90", run.p90}}},
          {"clip_rate", run.clipped},
          {"format_rate", run.format_valid}};
}

Json scope_json(const JudgeInput& input, const ScopeTally& scope) {
  Json runs = Json::object();
  for (std::size_t r = 0; r < scope.runs.size(); ++r) runs[input.runs[r].name] = run_json(scope.runs[r]);
  Json transitions = Json::array();
  for (const TransitionTally& pair : scope.transitions) {
    transitions.push_back({{"from", input.runs[0].name},
                           {"to", input.runs[pair.to_run].name},
                           {"into_correct", counts_json(pair.into_correct, false)},
                           {"out_of_correct", counts_json(pair.out_of_correct, false)}});
  }
  return {{"runs", runs}, {"transitions", transitions}};
}

}  // namespace

void open_judge_directory(const std::filesystem::path& directory, const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(directory, error);
  if (!fs::is_directory(directory))
    throw UserError("{}: cannot be made ({})", directory.string(),
                    error ? error.message() : "a file is there");
  const bool ours = fs::exists(directory / "cache.jsonl") || fs::exists(directory / "labels.jsonl");
  if (fs::exists(directory / "responses.jsonl") || (!ours && !fs::is_empty(directory)))
    throw UserError("--out {}: holds other files; name a new directory, or that of an earlier judge run",
                    directory.string());
  if (!fs::exists(directory / "summary.json")) return;
  const Json summary = formats::read_json_object(directory / "summary.json", kMostSummaryBytes);
  const Json& judge = formats::value_or_null(summary, "judge");
  const Json& before = judge.is_object() ? formats::value_or_null(judge, "model") : judge;
  if (before.is_string() && before != model)
    throw UserError("--out {}: holds the labels of another judge, {}; name another directory for {}",
                    directory.string(), shown(before), model);
}

Json summary_of(const JudgeInput& input, const JudgeTally& tally, const Asker& asker) {
  const JudgeSettings& settings = asker.settings();
  Json suites = Json::object();
  Json all;
  for (const ScopeTally& scope : tally.scopes) {
    all = scope_json(input, scope);  // the last scope is over all suites
    if (!scope.suite.empty()) suites[scope.suite] = all;
  }
  Json directories = Json::object();
  std::int64_t responses = 0;
  for (const LabelledRun& run : input.runs) {
    directories[run.name] = run.directory;
    responses += std::ssize(run.responses);
  }
  const AskCounts& counts = asker.counts();
  return {{"judge",
           {{"endpoint", asker.endpoint()},
            {"model", settings.model},
            {"temperature", settings.temperature},
            {"max_tokens", settings.max_tokens},
            {"seed", settings.seed},
            {"extra", settings.extra}}},
          {"directories", directories},
          {"responses", responses},
          {"cases", input.cases.size()},
          {"all_suites", all},
          {"suites", suites},
          {"agreement", {{"all", agreement_json(tally.all)}, {"judged", agreement_json(tally.judged)}}},
          {"adjudicated", tally.adjudicated},
          {"unjudged", tally.unjudged},
          {"unanswered", tally.unanswered},
          {"stopped", asker.stopped().empty() ? Json() : Json(asker.stopped())},
          {"requests",
           {{"asked", counts.requests},
            {"cached", counts.cached},
            {"prompt_tokens", counts.prompt_tokens},
            {"completion_tokens", counts.completion_tokens}}}};
}

void write_labels(const std::filesystem::path& path, const JudgeInput& input,
                  const std::vector<std::vector<Judgement>>& judgements) {
  AtomicFile file(path);
  for (std::size_t r = 0; r < input.runs.size(); ++r) {
    const LabelledRun& run = input.runs[r];
    for (std::size_t i = 0; i < run.responses.size(); ++i) {
      const grade::EvalResponse& response = run.responses[i];
      const Judgement& judgement = judgements[r][i];
      Json line = {{"suite", response.suite},
                   {"problem", response.problem},
                   {"sample", response.sample},
                   {"label", name_of(judgement.label)},
                   {"pass1", optional_name(judgement.pass1)},
                   {"pass2", optional_name(judgement.pass2)},
                   {"adjudicated", judgement.adjudicated},
                   {"clipped", response.clipped}};
      if (input.runs.size() > 1) line["run"] = run.name;
      if (!judgement.rationale.empty()) line["rationale"] = judgement.rationale;
      if (judgement.label == Label::kUnjudged) line["reason"] = judgement.reason;
      file.write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    }
  }
  file.commit();
}

}  // namespace routeopd::judge
