// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/directory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "routeopd/grade/compare.h"
#include "routeopd/report/charts/eval_charts.h"
#include "routeopd/report/charts/probe_charts.h"
#include "routeopd/report/charts/route_records.h"
#include "routeopd/report/charts/run_charts.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/table/cells.h"

namespace routeopd::report {
namespace {

namespace fs = std::filesystem;

bool holds(const std::string& directory, const std::string& file) {
  std::error_code error;
  return fs::exists(fs::path(directory) / file, error);
}

// Whether summary.json is an evaluation's; a judge's has no decoding.
bool has_decoding(const std::string& directory) {
  std::vector<std::string> ignored;
  const Json summary = TolerantDirectory(directory, directory, ignored).object("summary.json");
  return summary.is_object() && summary.contains("decoding");
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

template <class Number>
std::string whole_or_dash(const std::optional<Number>& value) {
  return value ? std::to_string(*value) : table::kDash;
}

Block runs_table(const std::vector<RunFiles>& runs) {
  Block block = titled("runs", "Runs at their last step");
  table::TextTable table({{"run", table::Align::kLeft},
                          {"arm", table::Align::kLeft},
                          {"seed"},
                          {"step"},
                          {"loss"},
                          {"mass"},
                          {"entropy"},
                          {"length"},
                          {"routed %"},
                          {"Avg@n %"},
                          {"s per step"}});
  for (const RunFiles& run : runs) {
    const StepMetrics last = run.metrics.empty() ? StepMetrics() : run.metrics.back();
    double seconds = 0;
    int timed = 0;
    for (const StepMetrics& metrics : run.metrics) {
      seconds += metrics.seconds();
      timed += metrics.time.contains("total") ? 1 : 0;
    }
    table.add(
        {run.shown, run.arm, whole_or_dash(run.seed),
         run.metrics.empty() ? table::kDash : std::to_string(last.step), table::number(last.loss, 5),
         table::number(last.mass, 4), table::number(last.entropy, 3), table::number(last.response_tokens, 1),
         table::percent(last.routed_share, 1),
         run.evals.empty() ? table::kDash : table::percent(number_at(run.evals.back().summary, {"avg"}), 2),
         timed > 0 ? fmt::format("{:.2f}", seconds / timed) : table::kDash});
  }
  block.table = std::move(table);
  return block;
}

// Every evaluation against the first; those of another protocol are sentences.
Block contrasts_table(const std::vector<const EvalFiles*>& evals) {
  Block block = titled("contrasts", "Paired differences");
  table::TextTable table({{"evaluation", table::Align::kLeft},
                          {"against", table::Align::kLeft},
                          {"Avg@n %"},
                          {"difference, points"},
                          {"95 % interval"}});
  bool any = false;
  for (const EvalFiles* eval : evals) {
    if (eval == evals.front() || !eval->grades || !evals.front()->grades) continue;
    try {
      const grade::Comparison compared = grade::compare_runs(*evals.front()->grades, *eval->grades, {});
      table.add(
          {eval->shown, evals.front()->shown, fmt::format("{:.2f}", 100 * compared.average_b),
           fmt::format("{:+.2f}", 100 * compared.contrast.mean),
           fmt::format("[{:+.2f}, {:+.2f}]", 100 * compared.contrast.low, 100 * compared.contrast.high)});
      any = true;
    } catch (const UserError& error) {
      block.missing.push_back(
          fmt::format("{} and {} cannot be compared: {}.", evals.front()->shown, eval->shown, error.what()));
    }
  }
  block.words = "On the same problems and samples; the interval is a percentile bootstrap over problems.";
  if (any) block.table = std::move(table);
  if (!any && block.missing.empty())
    block.missing.emplace_back("There are no two evaluations with graded responses to compare.");
  return block;
}

Block evals_composition(const std::vector<EvalFiles>& evals) {
  std::vector<LabelShare> shares;
  for (const EvalFiles& eval : evals) {
    for (const auto& [label, share] : label_shares({&eval})) shares.push_back({eval.shown, label, share});
  }
  return composition_figure(shares);
}

std::string run_verdict(const RunFiles& run) {
  if (run.metrics.empty()) return fmt::format("{}: no step is recorded.", run.shown);
  const auto change = [&](const char* name, StepMetrics::Value StepMetrics::* value, int digits) {
    const StepMetrics::Value first = run.metrics.front().*value, last = run.metrics.back().*value;
    return first && last ? fmt::format(", {} from {:.{}f} to {:.{}f}", name, *first, digits, *last, digits)
                         : std::string();
  };
  return fmt::format("{}: {} of {} steps{}{}.", run.shown, run.metrics.back().step, whole_or_dash(run.steps),
                     change("loss", &StepMetrics::loss, 5), change("mass", &StepMetrics::mass, 4));
}

std::string eval_verdict(const EvalFiles& eval) {
  const auto average = number_at(eval.summary, {"avg"});
  return average ? fmt::format("{}: Avg@n {:.2f} %.", eval.shown, 100 * *average)
                 : fmt::format("{}: no accuracy is known.", eval.shown);
}

void add_sentence(const std::string& sentence, std::string& all) {
  all += (all.empty() || sentence.empty() ? "" : " ") + sentence;
}

void add_runs(const std::vector<RunFiles>& runs, Report& report) {
  if (runs.empty()) return;
  Section section{.title = runs.size() > 1 ? "Runs" : "Run",
                  .blocks = {runs_table(runs), run_curves_figure(runs), run_time_figure(runs)}};
  std::vector<const EvalFiles*> last;
  for (const RunFiles& run : runs) {
    if (!run.evals.empty()) last.push_back(&run.evals.back());
    append(report.missing, run.missing);
    for (const EvalFiles& eval : run.evals) append(report.missing, eval.missing);
    add_sentence(run_verdict(run), report.verdict);
  }
  if (last.size() > 1) section.blocks.push_back(contrasts_table(last));
  report.sections.push_back(std::move(section));
}

void add_evals(const std::vector<EvalFiles>& evals, Report& report) {
  if (evals.empty()) return;
  Section section{.title = evals.size() > 1 ? "Evaluations" : "Evaluation",
                  .blocks = {eval_accuracy_figure(evals), eval_lengths_figure(evals)}};
  // Labels are another command's; without them and without accuracies there is nothing to show.
  if (Block composition = evals_composition(evals); !composition.chart.is_null())
    section.blocks.push_back(std::move(composition));
  std::vector<const EvalFiles*> all;
  for (const EvalFiles& eval : evals) {
    all.push_back(&eval);
    append(report.missing, eval.missing);
    add_sentence(eval_verdict(eval), report.verdict);
  }
  if (all.size() > 1) section.blocks.push_back(contrasts_table(all));
  report.sections.push_back(std::move(section));
}

// Whether RouteOPD's step was to be measured: records of its routes and its pictures belong to that alone. A
// probe.json that cannot be read does not tell.
bool probes_routes(const ProbeFiles& probe) {
  return list_at(probe.probe, "rows").empty() || !probe.row("routeopd", "fresh_adamw").is_null();
}

// The step of RouteOPD, or else the first that was measured.
std::string probe_verdict(const ProbeFiles& probe) {
  const Json& rows = list_at(probe.probe, "rows");
  const Json& own = probe.row("routeopd", "fresh_adamw");
  const Json& row = own.is_null() && !rows.empty() ? rows.front() : own;
  const auto fidelity = number_at(row, {"fidelity", "mean"}), leakage = number_at(row, {"leakage", "mean"});
  if (!fidelity || !leakage) return fmt::format("{}: no fidelity and leakage can be read.", probe.shown);
  return fmt::format("{}: {} of {} has {:.1f} % fidelity and {:.1f} % leakage.", probe.shown,
                     text_at(row, "intervention"), text_at(row, "name"), 100 * *fidelity, 100 * *leakage);
}

void add_probes(const std::vector<ProbeFiles>& probes, Report& report) {
  if (probes.empty()) return;
  Section section{.title = probes.size() > 1 ? "Probes" : "Probe",
                  .blocks = {probe_distributions_figure(probes), probe_strata_figure(probes)}};
  bool any_routes = false;
  for (const ProbeFiles& probe : probes) {
    append(report.missing, probe.missing);
    add_sentence(probe_verdict(probe), report.verdict);
    if (!probes_routes(probe)) continue;
    any_routes = true;
    section.blocks.push_back(route_records_of(probe, "routeopd", "fresh_adamw"));
    if (probes.size() > 1) section.blocks.back().title += fmt::format(" ({})", probe.shown);
  }
  const auto pictured = std::find_if(probes.begin(), probes.end(),
                                     [](const ProbeFiles& probe) { return probe.example.is_object(); });
  const Json example = pictured == probes.end() ? Json() : pictured->example;
  if (any_routes || example.is_object()) {
    section.blocks.push_back(scalar_credit_figure(example));
    section.blocks.push_back(operator_figure(example));
  }
  report.sections.push_back(std::move(section));
}

void add_judges(const std::vector<JudgeFiles>& judges, Report& report) {
  if (judges.empty()) return;
  std::vector<LabelShare> shares;
  for (const JudgeFiles& judge : judges) {
    append(report.missing, judge.missing);
    for (const JudgedRun& run : judge.runs) {
      EvalFiles labelled;
      labelled.labels = run.labels;
      for (const auto& [label, share] : label_shares({&labelled})) shares.push_back({run.name, label, share});
    }
  }
  Block block = composition_figure(shares);
  block.id = "judged-composition";
  block.title = "What responses are, as judged";
  for (const JudgeFiles& judge : judges) {
    const auto share = number_at(judge.summary, {"agreement", "all", "agreement"}),
               kappa = number_at(judge.summary, {"agreement", "all", "kappa"});
    if (share)
      add_sentence(fmt::format("{}: its two passes agree on {:.1f} % of all responses{}.", judge.shown,
                               100 * *share, kappa ? fmt::format(", Cohen's kappa {:.3f}", *kappa) : ""),
                   block.words);
  }
  report.sections.push_back({.title = "Judgements", .blocks = {std::move(block)}});
}

struct DirectoryOfKind {
  std::string directory;
  DirectoryKind kind;
};

class DirectoryReader {
 public:
  DirectoryReader(const std::vector<std::string>& directories, const StudyReader& study) : study_(study) {
    for (const std::string& directory : directories)
      kinds_.push_back({directory, kind_of_directory(directory, study.manifest)});
  }

  Report read() {
    // Judges first: their labels take the place of those beside responses.
    judges_ = all<JudgeFiles>(DirectoryKind::kJudge, [](const auto& path) { return read_judge(path); });
    add_studies();
    auto runs = all<RunFiles>(DirectoryKind::kRun, [](const auto& path) { return read_run(path); });
    auto evals = all<EvalFiles>(DirectoryKind::kEval, [](const auto& path) { return read_eval(path); });
    const auto probes =
        all<ProbeFiles>(DirectoryKind::kProbe, [](const auto& path) { return read_probe(path); });
    for (RunFiles& run : runs) {
      facts_.emplace_back(run.directory.string(), facts_of(run));
      for (EvalFiles& eval : run.evals) use_judgements(judges_, eval);
    }
    for (EvalFiles& eval : evals) {
      facts_.emplace_back(eval.directory.string(), facts_of(eval));
      use_judgements(judges_, eval);
    }
    for (const ProbeFiles& probe : probes) facts_.emplace_back(probe.directory.string(), facts_of(probe));
    for (const JudgeFiles& judge : judges_) facts_.emplace_back(judge.shown, facts_of(judge, judge.shown));
    add_runs(runs, report_);
    add_evals(evals, report_);
    add_probes(probes, report_);
    add_judges(judges_, report_);
    const bool leads = !report_.sections.empty() && report_.sections.front().leads;
    report_.sections.insert(report_.sections.begin() + (leads ? 1 : 0), facts_section(facts_));
    return std::move(report_);
  }

 private:
  // What `reader` makes of each directory of a kind, in the order in which they were given.
  template <class Files, class Reader>
  std::vector<Files> all(DirectoryKind kind, const Reader& reader) const {
    std::vector<Files> found;
    for (const DirectoryOfKind& each : kinds_) {
      if (each.kind == kind) found.push_back(reader(each.directory));
    }
    return found;
  }

  // Sections of one of several studies say whose they are, and begin with what that one asked and found.
  void add_studies() {
    std::vector<std::string> directories;
    for (const DirectoryOfKind& each : kinds_)
      if (each.kind == DirectoryKind::kStudy) directories.push_back(each.directory);
    if (directories.empty()) return;
    StudyChapters studies = study_.read(directories, judges_);
    const bool several = directories.size() > 1;
    if (several) {
      report_.question = std::move(studies.question);
      add_sentence(studies.verdict, report_.verdict);
      if (!studies.lead.blocks.empty()) report_.sections.push_back(std::move(studies.lead));
    }
    for (std::size_t i = 0; i < directories.size(); ++i) {
      Chapter& chapter = studies.chapters[i];
      facts_.emplace_back(directories[i], std::move(chapter.facts));
      append(report_.missing, chapter.missing);
      if (several) {
        Block words = titled("answer", "Question and answer");
        words.words = chapter.question;
        add_sentence(chapter.verdict, words.words);
        chapter.lead.title = "In short";
        chapter.lead.leads = false;
        chapter.lead.blocks.insert(chapter.lead.blocks.begin(), std::move(words));
      } else {
        report_.question = std::move(chapter.question);
        add_sentence(chapter.verdict, report_.verdict);
      }
      if (!chapter.lead.blocks.empty())
        chapter.sections.insert(chapter.sections.begin(), std::move(chapter.lead));
      for (Section& section : chapter.sections) {
        if (several) section.title += fmt::format(", {}", directories[i]);
        report_.sections.push_back(std::move(section));
      }
    }
  }

  const StudyReader& study_;
  std::vector<DirectoryOfKind> kinds_;
  std::vector<JudgeFiles> judges_;
  std::vector<std::pair<std::string, std::vector<Fact>>> facts_;
  Report report_;
};

}  // namespace

DirectoryKind kind_of_directory(const std::string& directory, const std::string& study_manifest) {
  const char* const kinds = study_manifest.empty() ? "a run, an evaluation, a probe or a judgement"
                                                   : "a run, an evaluation, a probe, a judgement or a study";
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw UserError("{}: is no directory; expected that of {}", directory, kinds);
  if (!study_manifest.empty() && holds(directory, study_manifest)) return DirectoryKind::kStudy;
  if (holds(directory, "probe.json") || holds(directory, "states.jsonl") || holds(directory, "routes.jsonl"))
    return DirectoryKind::kProbe;
  if (holds(directory, "recipe.toml") || holds(directory, "metrics.jsonl")) return DirectoryKind::kRun;
  if (holds(directory, "responses.jsonl")) return DirectoryKind::kEval;
  if (holds(directory, "labels.jsonl") && !has_decoding(directory)) return DirectoryKind::kJudge;
  if (holds(directory, "summary.json")) return DirectoryKind::kEval;
  throw UserError(
      "{}: holds none of {}probe.json, recipe.toml, metrics.jsonl, responses.jsonl, labels.jsonl and "
      "summary.json; expected the directory of {}",
      directory, study_manifest.empty() ? "" : study_manifest + ", ", kinds);
}

Report report_of(const std::vector<std::string>& directories, std::string title, const StudyReader& study) {
  Report report = DirectoryReader(directories, study).read();
  report.title = !title.empty()            ? std::move(title)
                 : directories.size() == 1 ? fmt::format("Report of {}", directories.front())
                                           : fmt::format("Report of {} directories", directories.size());
  return report;
}

}  // namespace routeopd::report
