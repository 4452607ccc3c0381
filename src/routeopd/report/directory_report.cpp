//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/report/directory_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "routeopd/grade/compare.h"
#include "routeopd/report/cells.h"
#include "routeopd/report/charts/directory_charts.h"
#include "routeopd/report/charts/state_pictures.h"
#include "routeopd/report/charts/study_charts.h"
#include "routeopd/report/judge_directory.h"
#include "routeopd/report/study_figures.h"
#include "routeopd/report/study_tables.h"
#include "routeopd/report/tolerant_files.h"
#include "routeopd/report/visible_text.h"

namespace routeopd::report {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFiles = 100'000;  // that are looked at for the newest date

bool holds(const std::string& directory, const char* file) {
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

// When the newest file of a directory was written, as far as it is no report: "2026-11-16 18:40 UTC". So the same files
// give the same page, whenever it is made.
std::string newest_date(const std::string& directory) {
  std::error_code error;
  fs::file_time_type newest = fs::file_time_type::min();
  std::int64_t seen = 0;
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && seen < kMostFiles;
       at.increment(error), ++seen) {
    const fs::path name = at->path().filename();
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      if (name == "tables" || name == "figures") at.disable_recursion_pending();
      continue;
    }
    if (name.extension() == ".html") continue;
    const fs::file_time_type time = at->last_write_time(unknown);
    if (!unknown) newest = std::max(newest, time);
  }
  if (newest == fs::file_time_type::min()) return "unknown";
  const auto system = std::chrono::file_clock::to_sys(newest);
  return fmt::format("{:%Y-%m-%d %H:%M} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(
                         std::chrono::time_point_cast<std::chrono::system_clock::duration>(system))));
}

template <class Number>
std::string whole_or_dash(const std::optional<Number>& value) {
  return value ? std::to_string(*value) : kDash;
}

// Rows of "what was run".
class Facts {
 public:
  Facts() : table_({{"directory", Align::kLeft}, {"what", Align::kLeft}, {"", Align::kLeft}}) {}
  // A long list is broken behind a comma, a row a line.
  void add(const std::string& directory, std::string what, std::string value) {
    constexpr std::size_t kLine = 72;
    for (std::size_t end = 0;
         value.size() > kLine && (end = value.rfind(", ", kLine)) != std::string::npos;) {
      row(directory, what, value.substr(0, end + 1));
      value.erase(0, end + 2);
      what.clear();
    }
    row(directory, what, value.empty() ? "unknown" : value);
  }
  Section section() const {
    return {.title = "What was run",
            .blocks = {{.id = "inputs",
                        .title = "Directories, models and settings",
                        .words = {},
                        .table = table_,
                        .chart = {},
                        .missing = {}}}};
  }

 private:
  void row(const std::string& directory, const std::string& what, const std::string& value) {
    table_.add({directory == last_ ? "" : directory, what, value});
    last_ = directory;
  }

  TextTable table_;
  std::string last_;
};

std::string text_in(const Json& object, const char* section, const char* key) {
  const auto found = object.is_object() ? object.find(section) : object.end();
  return object.is_object() && found != object.end() ? text_at(*found, key) : std::string();
}

// "k 16, m 2, seeds [42,43]".
std::string compact(const Json& value) {
  const auto plain = [](const Json& each) {
    return each.is_string() ? each.get<std::string>()
                            : each.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (!value.is_object()) return value.is_null() ? "" : plain(value);
  std::string words;
  for (auto each = value.begin(); each != value.end(); ++each)
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", each.key(), plain(each.value()));
  return words;
}

const Json& at_or_null(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

void add_facts(const StudyFiles& study, const std::string& directory, Facts& facts) {
  const Json& manifest = study.manifest;
  facts.add(directory, "kind", "study");
  facts.add(directory, "student", text_in(manifest, "pair", "student"));
  facts.add(directory, "teacher", text_in(manifest, "pair", "teacher"));
  facts.add(directory, "options", compact(at_or_null(manifest, "options")));
  facts.add(directory, "machine", compact(at_or_null(manifest, "machine")));
  std::string parts;
  const Json& all = at_or_null(manifest, "parts");
  if (all.is_object()) {
    for (auto part = all.begin(); part != all.end(); ++part) {
      const bool complete = part.value().is_object() && at_or_null(part.value(), "complete") == true;
      parts +=
          fmt::format("{}{}{}", parts.empty() ? "" : ", ", part.key(), complete ? "" : " (not complete)");
    }
  }
  facts.add(directory, "parts", parts);
  facts.add(directory, "runs", std::to_string(study.runs.size()));
  facts.add(directory, "newest file", newest_date(directory));
}

void add_facts(const RunFiles& run, const std::string& directory, Facts& facts) {
  facts.add(directory, "kind", "run");
  facts.add(directory, "student", text_in(run.recipe, "student", "path"));
  facts.add(directory, "teacher", text_in(run.recipe, "teacher", "path"));
  facts.add(directory, "objective",
            fmt::format("{}, k = {}, m = {}", run.arm.empty() ? "unknown arm" : run.arm,
                        run.k.empty() ? kDash : run.k, whole_or_dash(run.m)));
  facts.add(directory, "seed", whole_or_dash(run.seed));
  facts.add(
      directory, "steps",
      fmt::format("{} of {}", run.metrics.empty() ? 0 : run.metrics.back().step, whole_or_dash(run.steps)));
  facts.add(directory, "newest file", newest_date(directory));
}

void add_facts(const EvalFiles& eval, const std::string& directory, Facts& facts) {
  facts.add(directory, "kind", "evaluation");
  facts.add(directory, "model", text_in(eval.summary, "model", "path"));
  facts.add(directory, "decoding", compact(at_or_null(eval.summary, "decoding")));
  facts.add(directory, "newest file", newest_date(directory));
}

void add_facts(const ProbeFiles& probe, const std::string& directory, Facts& facts) {
  facts.add(directory, "kind", "probe");
  facts.add(directory, "student", text_in(probe.probe, "student", "path"));
  facts.add(directory, "teacher", text_in(probe.probe, "teacher", "path"));
  facts.add(directory, "bank", compact(at_or_null(probe.probe, "bank")));
  facts.add(directory, "newest file", newest_date(directory));
}

void add_facts(const JudgeFiles& judge, const std::string& directory, Facts& facts) {
  facts.add(directory, "kind", "judgement");
  facts.add(directory, "judge", text_in(judge.summary, "judge", "model"));
  std::string runs;
  for (const JudgedRun& run : judge.runs)
    runs += fmt::format("{}{}", runs.empty() ? "" : ", ", run.directory);
  facts.add(directory, "labelled", runs);
  facts.add(directory, "newest file", newest_date(directory));
}

Block runs_table(const std::vector<RunFiles>& runs) {
  Block block = titled("runs", "Runs at their last step");
  TextTable table({{"run", Align::kLeft},
                   {"arm", Align::kLeft},
                   {"seed"},
                   {"step"},
                   {"loss"},
                   {"mass"},
                   {"entropy"},
                   {"length"},
                   {"routed %"},
                   {"Avg@n %"},
                   {"s a step"}});
  for (const RunFiles& run : runs) {
    const StepMetrics last = run.metrics.empty() ? StepMetrics() : run.metrics.back();
    double seconds = 0;
    int timed = 0;
    for (const StepMetrics& metrics : run.metrics) {
      seconds += metrics.seconds();
      timed += metrics.time.contains("total") ? 1 : 0;
    }
    table.add({run.shown, run.arm, whole_or_dash(run.seed),
               run.metrics.empty() ? kDash : std::to_string(last.step), number(last.loss, 5),
               number(last.mass, 4), number(last.entropy, 3), number(last.response_tokens, 1),
               percent(last.routed_share, 1),
               run.evals.empty() ? kDash : percent(number_at(run.evals.back().summary, {"avg"}), 2),
               timed > 0 ? fmt::format("{:.2f}", seconds / timed) : kDash});
  }
  block.table = std::move(table);
  return block;
}

// Every evaluation against the first; those of another protocol are sentences.
Block contrasts_table(const std::vector<const EvalFiles*>& evals) {
  Block block = titled("contrasts", "Paired differences");
  TextTable table({{"evaluation", Align::kLeft},
                   {"against", Align::kLeft},
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

// Labels of a judge in place of those that lie beside responses.
void use_judgement(const std::vector<JudgeFiles>& judges, EvalFiles& eval) {
  for (const JudgeFiles& judge : judges) {
    for (const JudgedRun& run : judge.runs) {
      std::error_code error;
      if (fs::equivalent(run.directory, eval.directory, error) && !error) eval.labels = run.labels;
    }
  }
}

// All that was read, in the order in which it is shown.
struct Inputs {
  std::vector<StudyFiles> studies;
  std::vector<RunFiles> runs;
  std::vector<EvalFiles> evals;
  std::vector<ProbeFiles> probes;
  std::vector<JudgeFiles> judges;
};

Inputs read_all(const std::vector<std::string>& directories, Facts& facts) {
  Inputs all;
  std::vector<DirectoryKind> kinds;
  for (const std::string& directory : directories) kinds.push_back(kind_of_directory(directory));
  const auto read = [&](DirectoryKind kind, const auto& reader, auto& list) {
    for (std::size_t i = 0; i < directories.size(); ++i) {
      if (kinds[i] != kind) continue;
      list.push_back(reader(directories[i]));
      add_facts(list.back(), directories[i], facts);
    }
  };
  read(DirectoryKind::kStudy, [](const std::string& path) { return read_study(path); }, all.studies);
  read(DirectoryKind::kRun, [](const std::string& path) { return read_run(path); }, all.runs);
  read(DirectoryKind::kEval, [](const std::string& path) { return read_eval(path); }, all.evals);
  read(DirectoryKind::kProbe, [](const std::string& path) { return read_probe(path); }, all.probes);
  read(DirectoryKind::kJudge, [](const std::string& path) { return read_judge(path); }, all.judges);
  for (EvalFiles& eval : all.evals) use_judgement(all.judges, eval);
  for (RunFiles& run : all.runs) {
    for (EvalFiles& eval : run.evals) use_judgement(all.judges, eval);
  }
  for (StudyFiles& study : all.studies) {
    for (StudyRun& run : study.runs) use_judgement(all.judges, run.eval);
    if (study.base) use_judgement(all.judges, *study.base);
    if (study.teacher) use_judgement(all.judges, *study.teacher);
  }
  return all;
}

// `named`: one of several, whose sections say whose they are.
void add_study(const StudyFiles& study, bool named, Report& report) {
  std::vector<Section> sections = study_tables(study);
  sections.insert(sections.begin(), study_figures(study));
  for (Section& section : sections) {
    if (named) section.title += fmt::format(", {}", study.directory.string());
    report.sections.push_back(std::move(section));
  }
  append(report.missing, study.all_missing());
}

void add_sentence(const std::string& sentence, std::string& all) {
  all += (all.empty() ? "" : " ") + sentence;
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
  Section section{
      .title = evals.size() > 1 ? "Evaluations" : "Evaluation",
      .blocks = {eval_accuracy_figure(evals), eval_lengths_figure(evals), evals_composition(evals)}};
  std::vector<const EvalFiles*> all;
  for (const EvalFiles& eval : evals) {
    all.push_back(&eval);
    append(report.missing, eval.missing);
    add_sentence(eval_verdict(eval), report.verdict);
  }
  if (all.size() > 1) section.blocks.push_back(contrasts_table(all));
  report.sections.push_back(std::move(section));
}

void add_probes(const std::vector<ProbeFiles>& probes, Report& report) {
  if (probes.empty()) return;
  Section section{.title = probes.size() > 1 ? "Probes" : "Probe",
                  .blocks = {probe_distributions_figure(probes), probe_strata_figure(probes)}};
  for (const ProbeFiles& probe : probes) {
    section.blocks.push_back(route_records_of(probe, "routeopd", "fresh_adamw"));
    if (probes.size() > 1) section.blocks.back().title += fmt::format(" ({})", probe.shown);
    append(report.missing, probe.missing);
    const Json& row = probe.row("routeopd", "fresh_adamw");
    const auto fidelity = number_at(row, {"fidelity", "mean"}), leakage = number_at(row, {"leakage", "mean"});
    add_sentence(
        fidelity && leakage
            ? fmt::format("{}: a fresh-AdamW RouteOPD step has {:.1f} % fidelity and {:.1f} % leakage.",
                          probe.shown, 100 * *fidelity, 100 * *leakage)
            : fmt::format("{}: no fresh-AdamW step of RouteOPD was measured.", probe.shown),
        report.verdict);
  }
  const auto pictured = std::find_if(probes.begin(), probes.end(),
                                     [](const ProbeFiles& probe) { return probe.example.is_object(); });
  const Json example = pictured == probes.end() ? Json() : pictured->example;
  section.blocks.push_back(scalar_credit_figure(example));
  section.blocks.push_back(operator_figure(example));
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

}  // namespace

DirectoryKind kind_of_directory(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw UserError(
        "{}: is no directory; expected that of a run, an evaluation, a probe, a judgement or a study",
        directory);
  if (holds(directory, "study.json")) return DirectoryKind::kStudy;
  if (holds(directory, "probe.json") || holds(directory, "states.jsonl") || holds(directory, "routes.jsonl"))
    return DirectoryKind::kProbe;
  if (holds(directory, "recipe.toml") || holds(directory, "metrics.jsonl")) return DirectoryKind::kRun;
  if (holds(directory, "responses.jsonl")) return DirectoryKind::kEval;
  if (holds(directory, "labels.jsonl") && !has_decoding(directory)) return DirectoryKind::kJudge;
  if (holds(directory, "summary.json")) return DirectoryKind::kEval;
  throw UserError(
      "{}: holds none of study.json, probe.json, recipe.toml, metrics.jsonl, responses.jsonl, labels.jsonl "
      "and summary.json; expected "
      "the directory of a run, an evaluation, a probe, a judgement or a study",
      directory);
}

Report study_report(const StudyFiles& study, std::string title) {
  Report report{.title = title.empty() ? fmt::format("Study {}", study.directory.string()) : std::move(title),
                .verdict = study_verdict(study),
                .sections = {},
                .missing = {}};
  Facts facts;
  add_facts(study, study.directory.string(), facts);
  report.sections.push_back(facts.section());
  add_study(study, /*named=*/false, report);
  return report;
}

Report report_of(const std::vector<std::string>& directories, std::string title) {
  Report report;
  Facts facts;
  const Inputs all = read_all(directories, facts);
  report.title = !title.empty()            ? std::move(title)
                 : directories.size() == 1 ? fmt::format("Report of {}", directories.front())
                                           : fmt::format("Report of {} directories", directories.size());
  report.sections.push_back(facts.section());
  for (const StudyFiles& study : all.studies) {
    const bool named = all.studies.size() > 1;
    add_sentence(
        named ? fmt::format("{}: {}", study.directory.string(), study_verdict(study)) : study_verdict(study),
        report.verdict);
    add_study(study, named, report);
  }
  add_runs(all.runs, report);
  add_evals(all.evals, report);
  add_probes(all.probes, report);
  add_judges(all.judges, report);
  return report;
}

}  // namespace routeopd::report
