// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/behaviour_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "routeopd/base/display.h"
#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"

namespace routeopd::study {
namespace {

using judge::Label;

// Whether the paper has routeopd's transitions from this arm.
bool has_transitions(const std::string& arm) {
  return paper_number("transitions", arm, "both").has_value();
}

// The arms that routeopd is compared with, those of the paper first.
std::vector<std::string> compared_arms() {
  std::vector<std::string> arms = main_arms();
  std::erase(arms, "routeopd");
  std::stable_partition(arms.begin(), arms.end(), has_transitions);
  return arms;
}

Block transitions_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block =
      titled("correctness-transitions", "Responses to the same problem and sample, right and wrong");
  TextTable table =
      number_table({"pair", "both right", "first only", "routeopd only", "both wrong", "net %", "paper both",
                    "paper first only", "paper RouteOPD only", "paper neither", "paper net %"});
  std::vector<std::string> absent;
  for (const std::string& arm : compared_arms()) {
    const std::optional<grade::Transitions> counts = view.grades.transitions(arm, "routeopd");
    const std::optional<Contrast> contrast = view.grades.contrast(arm, "routeopd");
    if (!counts || !contrast) {
      absent.push_back(arm);
      continue;
    }
    const std::int64_t total = counts->both + counts->a_only + counts->b_only + counts->neither;
    std::optional<double> paper_net;
    if (has_transitions(arm)) {
      const auto count = [&](const char* column) { return *paper_number("transitions", arm, column); };
      const double repaired = count("second only"), lost = count("first only");
      paper_net = 100 * (repaired - lost) / (count("both") + lost + repaired + count("neither"));
    }
    table.add({arm + " → routeopd", grouped(counts->both), grouped(counts->a_only), grouped(counts->b_only),
               grouped(counts->neither), points(contrast->difference.mean),
               paper_cell("transitions", arm, "both", 0), paper_cell("transitions", arm, "first only", 0),
               paper_cell("transitions", arm, "second only", 0), paper_cell("transitions", arm, "neither", 0),
               signed_number(paper_net, 2)});
    if (paper_net)
      verdicts.push_back(
          {.effect = fmt::format("responses repaired less lost, routeopd over {}", arm),
           .paper = fmt::format("{} less {} of 480: {}", paper_cell("transitions", arm, "second only", 0),
                                paper_cell("transitions", arm, "first only", 0), signed_number(paper_net, 2)),
           .here = fmt::format("{} less {} of {}: {}", grouped(counts->b_only), grouped(counts->a_only),
                               grouped(total), points(contrast->difference)),
           .outcome = name_of(outcome_of(*paper_net, contrast->difference))});
  }
  block.words = "Counts over the seeds that both have; the paper's are 480 responses to AIME24.";
  say_absent_runs(view.results, block, absent, "evaluations of the same seed of routeopd and of");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

// A variant's evaluations: of the base and the teacher the one, else one for each seed.
std::vector<const EvalFiles*> evals_of(const StudyResults& study, const std::string& name) {
  std::vector<const EvalFiles*> found;
  if (name == kBase && study.base) found.push_back(&*study.base);
  if (name == kTeacher && study.teacher) found.push_back(&*study.teacher);
  for (const StudyRun* run : study.runs_of(name)) found.push_back(&run->eval);
  return found;
}

struct Composition {
  judge::PerLabel<double> counts{};
  double wrong = 0;  // not told apart
  double total = 0;
};

// From labels; where there are none, from what summary.json says of accuracy and format.
void add_composition(const EvalFiles& eval, Composition& sum) {
  if (!eval.labels.empty()) {
    for (const report::ResponseLabel& label : eval.labels) ++sum.counts[judge::index_of(label.label)];
    sum.total += static_cast<double>(eval.labels.size());
    return;
  }
  if (!eval.summary.is_object() || !eval.summary.contains("suites") || !eval.summary["suites"].is_object())
    return;
  const Json& suites = eval.summary["suites"];
  for (const auto& item : suites.items()) {
    const Json& suite = item.value();
    const auto n = number_at(suite, {"n"}), samples = number_at(suite, {"samples"}),
               avg = number_at(suite, {"avg"}), format = number_at(suite, {"format_rate"});
    if (!n || !samples || !avg || !format) continue;
    const double total = *n * *samples;
    sum.total += total;
    sum.counts[judge::index_of(Label::kCorrect)] += *avg * total;
    sum.counts[judge::index_of(Label::kFormat)] += (1 - *format) * total;
    sum.wrong += (*format - *avg) * total;
  }
}

std::optional<Composition> composition_of(const StudyResults& study, const std::string& name) {
  Composition sum;
  for (const EvalFiles* eval : evals_of(study, name)) add_composition(*eval, sum);
  if (sum.total <= 0) return std::nullopt;
  sum.wrong += sum.counts[judge::index_of(Label::kUnjudged)];
  return sum;
}

constexpr std::array<Label, 5> kShownLabels = {Label::kCorrect, Label::kReasoning, Label::kArithmetic,
                                               Label::kPrematureStop, Label::kFormat};

Block errors_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("error-distribution", "What responses are made of, in percent");
  std::vector<std::string> titles = {"arm"}, absent;
  for (const Label label : kShownLabels) titles.push_back(judge::name_of(label));
  titles.emplace_back("wrong, not told apart");
  titles.emplace_back("responses");
  for (const Label label : kShownLabels) titles.push_back("paper " + judge::name_of(label));
  TextTable table = number_table(titles);
  const auto paper_share = [](const std::string& arm, Label label) -> std::optional<double> {
    const auto count = paper_number("errors", arm, judge::name_of(label)),
               total = paper_number("errors", arm, "total");
    if (!count || !total) return std::nullopt;
    return 100 * *count / *total;
  };
  for (const std::string& name : main_arms_and_untrained()) {
    const std::optional<Composition> composition = composition_of(view.results, name);
    if (!composition) {
      absent.push_back(name);
      continue;
    }
    Cells cells = {name};
    for (const Label label : kShownLabels)
      cells.push_back(percent(composition->counts[judge::index_of(label)] / composition->total, 1));
    cells.push_back(percent(composition->wrong / composition->total, 1));
    cells.push_back(number(composition->total, 0));
    for (const Label label : kShownLabels) cells.push_back(number(paper_share(name, label), 1));
    table.add(std::move(cells));
  }
  for (const std::string& arm : compared_arms()) {
    if (!has_transitions(arm)) continue;
    for (const Label label : {Label::kReasoning, Label::kArithmetic, Label::kPrematureStop, Label::kFormat}) {
      const std::optional<Contrast> contrast = view.grades.label_contrast(arm, "routeopd", label);
      const double paper = *paper_share("routeopd", label) - *paper_share(arm, label);
      if (contrast && paper != 0)
        verdicts.push_back(effect_verdict(fmt::format("share of {}", judge::name_of(label)), "routeopd", arm,
                                          paper, contrast->difference));
    }
  }
  say(block.words, "The paper's are 480 responses an arm to AIME24.");
  say_absent_runs(view.results, block, absent, "readable evaluation of");
  if (table.rows().empty()) return block;
  block.table = std::move(table);
  return block;
}

using ResponseKey = std::tuple<std::string, std::string, std::int64_t>;

std::map<ResponseKey, Label> labels_by_key(const EvalFiles& eval) {
  std::map<ResponseKey, Label> labels;
  for (const report::ResponseLabel& label : eval.labels)
    labels[{label.suite, label.problem, label.sample}] = label.label;
  return labels;
}

struct ErrorTransitions {
  judge::PerLabel<std::int64_t> into{}, out{};  // by the label on the side that is wrong
  std::int64_t repaired = 0, lost = 0;
};

// Over the seeds that both have labels of.
std::optional<ErrorTransitions> error_transitions(const StudyResults& study, const std::string& first,
                                                  const std::string& second) {
  ErrorTransitions sum;
  bool any = false;
  for (const StudyRun* a : study.runs_of(first)) {
    for (const StudyRun* b : study.runs_of(second)) {
      if (a->seed != b->seed || a->eval.labels.empty() || b->eval.labels.empty()) continue;
      any = true;
      const std::map<ResponseKey, Label> before = labels_by_key(a->eval), after = labels_by_key(b->eval);
      for (const auto& [key, label] : before) {
        const auto found = after.find(key);
        if (found == after.end() || (label == Label::kCorrect) == (found->second == Label::kCorrect))
          continue;
        const bool repaired = found->second == Label::kCorrect;
        ++(repaired ? sum.into[judge::index_of(label)] : sum.out[judge::index_of(found->second)]);
        ++(repaired ? sum.repaired : sum.lost);
      }
    }
  }
  if (!any) return std::nullopt;
  return sum;
}

Block error_transitions_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block =
      titled("error-transitions", "Errors that become right answers under routeopd, and the reverse");
  std::vector<std::string> titles = {"transition"}, absent;
  std::vector<std::pair<std::string, ErrorTransitions>> columns;
  for (const std::string& arm : compared_arms()) {
    const std::optional<ErrorTransitions> counts = error_transitions(view.results, arm, "routeopd");
    if (!counts) {
      absent.push_back(arm);
      continue;
    }
    columns.emplace_back(arm, *counts);
    titles.push_back(arm + " → routeopd");
    if (has_transitions(arm)) titles.push_back(arm + ", paper");
  }
  say_absent_runs(view.results, block, absent, "labels of the same seed of routeopd and of");
  if (columns.empty()) return block;
  TextTable table = number_table(titles);
  for (const bool into : {true, false}) {
    for (const Label label : kShownLabels) {
      if (label == Label::kCorrect) continue;
      const std::string name = judge::name_of(label);
      Cells cells = {into ? name + " → correct" : "correct → " + name};
      for (const auto& [arm, counts] : columns) {
        cells.push_back(grouped((into ? counts.into : counts.out)[judge::index_of(label)]));
        if (has_transitions(arm))
          cells.push_back(paper_cell("error-transitions", (into ? "into " : "out ") + name, arm, 0));
      }
      table.add(std::move(cells));
    }
  }
  for (const auto& [arm, counts] : columns) {
    if (!has_transitions(arm)) continue;
    double repaired = 0;
    for (const char* row : {"into reasoning", "into arithmetic", "into premature_stop", "into format"})
      repaired += *paper_number("error-transitions", row, arm);
    const std::int64_t reasoning = counts.into[judge::index_of(Label::kReasoning)];
    verdicts.push_back(
        {.effect = fmt::format("reasoning errors among repairs, routeopd over {}", arm),
         .paper = fmt::format("{} of {}", paper_cell("error-transitions", "into reasoning", arm, 0),
                              number(repaired, 0)),
         .here = fmt::format("{} of {}", grouped(reasoning), grouped(counts.repaired)),
         .outcome = 2 * reasoning > counts.repaired ? "most here too (no interval)"
                                                    : "not most here (no interval)"});
  }
  block.words = "Over the seeds that both have labels of.";
  block.table = std::move(table);
  return block;
}

Block lengths_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("response-lengths", "Lengths in tokens and formats, mean over seeds");
  struct LengthColumn {
    const char* key;
    const char* title;
  };
  static constexpr std::array<LengthColumn, 5> kLengths = {
      {{"mean", "mean"}, {"p25", "P25"}, {"p50", "median"}, {"p75", "P75"}, {"p90", "P90"}}};
  static constexpr std::array<LengthColumn, 2> kRates = {
      {{"clip_rate", "clipped %"}, {"format_rate", "format valid %"}}};
  std::vector<std::string> titles = {"arm"}, absent;
  for (const LengthColumn& column : kLengths) titles.emplace_back(column.title);
  for (const LengthColumn& column : kRates) titles.emplace_back(column.title);
  for (const LengthColumn& column : kLengths) titles.push_back(fmt::format("paper {}", column.title));
  for (const LengthColumn& column : kRates) titles.push_back(fmt::format("paper {}", column.title));
  TextTable table = number_table(titles);
  const auto in_summary = [](const Json& summary, const char* key) {
    const bool rate = std::string_view(key).ends_with("_rate");
    return rate ? number_at(summary, {"average", key}) : number_at(summary, {"average", "length", key});
  };
  const auto mean = [&](const std::string& name, const char* key) {
    std::vector<std::optional<double>> values;
    for (const EvalFiles* eval : evals_of(view.results, name))
      values.push_back(in_summary(eval->summary, key));
    return mean_of(values);
  };
  for (const std::string& name : main_arms_and_untrained()) {
    if (!mean(name, "mean") && !mean(name, "clip_rate")) {
      absent.push_back(name);
      continue;
    }
    Cells cells = {name};
    for (const LengthColumn& column : kLengths) cells.push_back(number(mean(name, column.key), 1));
    for (const LengthColumn& column : kRates) cells.push_back(percent(mean(name, column.key)));
    for (const LengthColumn& column : kLengths) cells.push_back(paper_cell("lengths", name, column.key, 0));
    for (const LengthColumn& column : kRates) cells.push_back(paper_cell("lengths", name, column.key, 2));
    table.add(std::move(cells));
  }
  const auto compare = [&](const char* what, const char* key, double unit, int digits) {
    const auto mine = mean("routeopd", key), other = mean("sampled_rkl", key);
    if (!mine || !other) return;
    const auto own = [&](const StudyRun& run) { return in_summary(run.eval.summary, key); };
    const auto level = [&](const char* arm, double here) {
      return Level{
          .name = arm, .paper = *paper_number("lengths", arm, key), .here = unit * here, .interval = {}};
    };
    verdicts.push_back(level_verdict(
        what, level("routeopd", *mine), level("sampled_rkl", *other), digits,
        {.difference = {}, .per_seed = seed_differences(view.results, "routeopd", "sampled_rkl", own)}));
  };
  compare("mean length", "mean", 1, 1);
  compare("share of clipped responses, %", "clip_rate", 100, 2);
  block.words = "As the summaries of the counted evaluations have them.";
  say_absent_runs(view.results, block, absent, "readable summary of");
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> behaviour_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  // These tables are another look at the responses of the main arms: they are made where it was asked for.
  if (!asked(view.results, "behaviour")) return {};
  const bool compared = was_run(view.results, "routeopd") && view.results.runs.size() > 1;
  std::vector<Block> blocks;
  if (compared) blocks.push_back(transitions_block(view, verdicts));
  blocks.push_back(errors_block(view, verdicts));
  if (compared) blocks.push_back(error_transitions_block(view, verdicts));
  blocks.push_back(lengths_block(view, verdicts));
  return blocks;
}

}  // namespace routeopd::study
