// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/mechanism_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"
#include "routeopd/study/probe_contrast.h"

namespace routeopd::study {
namespace {

// A probe of the study; a sentence in the block where it cannot be read.
const ProbeFiles* probe_of(const StudyView& view, const std::string& name, Block& block) {
  const ProbeFiles* const probe = view.results.probe(name);
  if (probe != nullptr && !list_at(probe->probe, "rows").empty()) return probe;
  block.missing.push_back(fmt::format("The study has no readable probe \"{}\".", name));
  return nullptr;
}

Block probed_arms_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("probe-arms", "Fidelity and leakage of one fresh AdamW step, by state");
  const ProbeFiles* const probe = probe_of(view, "arms", block);
  if (probe == nullptr) return block;
  TextTable table = number_table({"arm", "fidelity % [95 %]", "P10", "median", "leakage % [95 %]",
                                  "median leakage", "paper fidelity %", "paper P10", "paper median",
                                  "paper leakage %", "paper median leakage"});
  for (const Json& row : list_at(probe->probe, "rows")) {
    const std::string name = text_at(row, "name");
    if (text_at(row, "intervention") != kStep || name.empty()) continue;
    table.add(
        {visible(name), spread_cell(row, "fidelity"), percent(number_at(row, {"fidelity", "p10"}), 1),
         percent(number_at(row, {"fidelity", "median"}), 1), spread_cell(row, "leakage"),
         percent(number_at(row, {"leakage", "median"}), 1), paper_cell("probes", name, "fidelity", 1),
         paper_cell("probes", name, "fidelity p10", 1), paper_cell("probes", name, "fidelity median", 1),
         paper_cell("mean-leakage", name, "leakage", 1), paper_cell("probes", name, "leakage median", 1)});
  }
  for (const char* key : {"fidelity", "leakage"}) {
    const auto of = [&](const std::string& name) {
      return ProbedLevel{{name, kStep}, name, paper_number("mean-leakage", name, key)};
    };
    for (const PaperRow& other : paper_table("mean-leakage").rows)
      if (other.name != "routeopd") add_step_verdict(*probe, key, of("routeopd"), of(other.name), verdicts);
    add_step_verdict(*probe, key, of("fixed_mid"), of("rank_matched"), verdicts);
  }
  if (table.rows().empty()) {
    block.missing.emplace_back("The probe \"arms\" has no fresh AdamW step.");
    return block;
  }
  say(block.words,
      fmt::format("{} frozen states; every step is scaled to one RMS change of the pairs' log-odds{}; the "
                  "intervals are a bootstrap over sequences.",
                  number(number_at(probe->probe, {"statistics", "states"}), 0),
                  number_at(probe->probe, {"rms"})
                      ? fmt::format(" ({})", significant(number_at(probe->probe, {"rms"})))
                      : ""));
  block.table = std::move(table);
  return block;
}

Block ladder_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("probe-ladder", "routeopd from exact logits to the optimizer");
  const ProbeFiles* const probe = probe_of(view, "ladder", block);
  if (probe == nullptr) return block;
  TextTable table = number_table({"intervention", "fidelity %", "leakage %", "target MAE", "completion %",
                                  "paper fidelity %", "paper leakage %", "paper MAE", "paper completion %"});
  std::vector<std::string> absent;
  for (const PaperRow& paper : paper_table("ladder").rows) {
    const Json& row = probe->row("routeopd", paper.name);
    if (row.is_null()) {
      absent.push_back(paper.name);
      continue;
    }
    table.add({paper.name, spread_cell(row, "fidelity"), spread_cell(row, "leakage"),
               number(number_at(row, {"target_mae"}), 3), percent(number_at(row, {"completion"}), 1),
               number(paper.values[0], 1), number(paper.values[1], 1), number(paper.values[2], 3),
               number(paper.values[3], 1)});
  }
  for (const char* key : {"fidelity", "leakage"}) {
    const auto of = [&](const char* intervention) {
      return ProbedLevel{{"routeopd", intervention}, intervention, paper_number("ladder", intervention, key)};
    };
    add_step_verdict(*probe, key, of("potential_wide"), of("pair_isolated"), verdicts);
    add_step_verdict(*probe, key, of("potential_matched"), of("potential_wide"), verdicts);
    for (const char* other : {"potential_matched", "saved_adamw", "sgd"})
      add_step_verdict(*probe, key, of("fresh_adamw"), of(other), verdicts);
  }
  for (const auto& [key, unit, digits] :
       {std::tuple("target_mae", 1.0, 3), std::tuple("completion", 100.0, 1)}) {
    const auto level = [&, name = key, scale = unit](const char* intervention) -> std::optional<Level> {
      const std::optional<double> here = number_at(probe->row("routeopd", intervention), {name});
      if (!here) return std::nullopt;
      return Level{.name = intervention,
                   .paper = *paper_number("ladder", intervention, name),
                   .here = scale * *here,
                   .interval = {}};
    };
    const std::optional<Level> fresh = level("fresh_adamw"), matched = level("potential_matched");
    if (fresh && matched)
      verdicts.push_back(level_verdict(std::string_view(key) == "completion" ? "completion" : "target MAE",
                                       *fresh, *matched, digits));
  }
  say_absent(block, absent, "readable row of routeopd in the probe for");
  for (const StudyProbe& each : view.results.probes)
    if (each.name == "ladder" && !each.at.empty())
      say(block.words, fmt::format("Measured at {}.", visible(each.at)));
  if (!table.rows().empty()) block.table = std::move(table);
  return block;
}

struct StrataColumn {
  const char* key;
  const char* title;
  bool fraction;
};

// `between` comes after routeopd, and our own arms at the end.
std::vector<std::string> routeopd_and_own_arms(const std::vector<std::string>& between = {}) {
  std::vector<std::string> names = {"routeopd"};
  names.insert(names.end(), between.begin(), between.end());
  for (const std::string& arm : own_arms()) names.push_back(arm);
  return names;
}

const Json& strata_of(const ProbeFiles& probe, const std::string& arm, const std::string& kind) {
  static const Json none = Json::object();
  const Json& row = probe.row(arm, kStep);
  return list_at(row.is_object() && row.contains("strata") ? row["strata"] : none, kind.c_str());
}

// Strata of a fresh AdamW step of routeopd, beside the paper's quartiles, and of our arms. Deficit reduction
// is in percent of mass.
Block strata_block(const StudyView& view, const std::string& paper, const std::string& title,
                   const std::vector<StrataColumn>& columns, std::vector<Verdict>& verdicts) {
  Block block = titled("strata-" + paper, title);
  const ProbeFiles* const probe = probe_of(view, "arms", block);
  if (probe == nullptr) return block;
  const Json& list = strata_of(*probe, "routeopd", paper);
  std::vector<std::string> titles = {"quartile", "arm", "states"};
  for (const StrataColumn& column : columns) {
    titles.emplace_back(column.title);
    titles.push_back(fmt::format("{}, paper", column.title));
  }
  TextTable table = number_table(titles);
  for (const std::string& arm : routeopd_and_own_arms()) {
    const Json& own = strata_of(*probe, arm, paper);
    for (std::size_t q = 0; q < std::min<std::size_t>(4, own.size()); ++q) {
      const std::string name = fmt::format("Q{}", q + 1);
      Cells cells = {name, arm, number(number_at(own[q], {"states"}), 0)};
      for (const StrataColumn& column : columns) {
        const int digits = std::string_view(column.key) == "deficit_reduction" || !column.fraction ? 2 : 1;
        const std::optional<double> value = number_at(own[q], {column.key});
        cells.push_back(column.fraction ? percent(value, digits) : number(value, digits));
        cells.push_back(arm == "routeopd" ? paper_cell(paper, name, column.key, digits) : kDash);
      }
      table.add(std::move(cells));
    }
  }
  if (list.size() < 4) {
    block.missing.push_back(
        fmt::format("{}: routeopd has no four strata \"{}\".", visible(probe->shown), paper));
    if (list.empty()) return block;
  } else {
    for (const StrataColumn& column : columns) {
      const double unit = column.fraction ? 100 : 1;
      const auto first = number_at(list[0], {column.key}), last = number_at(list[3], {column.key});
      const std::string key = column.key;
      if (!first || !last || key == paper) continue;  // a quartile's own quantity rises by definition
      std::string words = column.title;
      if (words.ends_with(" %")) words.resize(words.size() - 2);
      verdicts.push_back(level_verdict(
          fmt::format("{} by {}", words, paper == "mismatch" ? "mismatch mass" : "the teacher's entropy"),
          {.name = "Q4", .paper = *paper_number(paper, "Q4", key), .here = unit * *last, .interval = {}},
          {.name = "Q1", .paper = *paper_number(paper, "Q1", key), .here = unit * *first, .interval = {}},
          key == "deficit_reduction" ? 2 : 1));
    }
  }
  block.words = "One fresh AdamW step; the paper has routeopd alone.";
  block.table = std::move(table);
  return block;
}

// Mechanism by concentration: the paper has the states and budgets of its bins alone.
Block strata_by_concentration(const StudyView& view) {
  Block block =
      titled("strata-concentration", "One step by the concentration of the teacher's demand at a state");
  const ProbeFiles* const probe = probe_of(view, "arms", block);
  if (probe == nullptr) return block;
  TextTable table = number_table({"concentration", "arm", "states", "budget", "fidelity %", "leakage %",
                                  "deficit reduction %", "completion %", "paper states", "paper budget"});
  const std::vector<PaperRow>& bins = paper_table("concentration").rows;
  for (const std::string& arm : routeopd_and_own_arms({kAblationReference})) {
    const Json& list = strata_of(*probe, arm, "concentration");
    for (std::size_t b = 0; b < std::min(bins.size(), list.size()); ++b) {
      const bool adaptive = arm == "routeopd";
      table.add(
          {bins[b].name, arm, number(number_at(list[b], {"states"}), 0),
           number(number_at(list[b], {"budget"}), 3), percent(number_at(list[b], {"fidelity"}), 1),
           percent(number_at(list[b], {"leakage"}), 1), percent(number_at(list[b], {"deficit_reduction"}), 2),
           percent(number_at(list[b], {"completion"}), 1), adaptive ? number(bins[b].values[0], 0) : kDash,
           adaptive ? number(bins[b].values[1], 3) : kDash});
    }
  }
  if (table.rows().empty())
    block.missing.push_back(fmt::format("{}: has no strata by concentration.", visible(probe->shown)));
  else
    block.table = std::move(table);
  block.words = "Of these the paper gives states and budgets alone.";
  return block;
}

// The best, the median and the worst completed route.
Block route_cases_block(const StudyView& view) {
  Block block = titled("route-cases", "Single routes of routeopd under one fresh AdamW step");
  const ProbeFiles* const probe = probe_of(view, "arms", block);
  if (probe == nullptr) return block;
  struct Record {
    const Json* line;
    double completion;
  };
  std::vector<Record> records;
  for (const Json& line : probe->routes) {
    const auto target = number_at(line, {"target"}), achieved = number_at(line, {"achieved"});
    if (text_at(line, "name") == "routeopd" && text_at(line, "intervention") == kStep && target && achieved &&
        *target > 0)
      records.push_back({&line, *achieved / *target});
  }
  if (records.empty()) {
    block.missing.push_back(
        fmt::format("{}: has no route of routeopd under a fresh AdamW step.", visible(probe->shown)));
    return block;
  }
  // How near to its target a route came: overshooting is no better than falling short.
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::abs(a.completion - 1) < std::abs(b.completion - 1);
  });
  TextTable table({{"record", Align::kLeft},
                   {"state"},
                   {"position"},
                   {"route", Align::kLeft},
                   {"p_S / p_T of the source"},
                   {"p_S / p_T of the destination"},
                   {"target / achieved"}});
  const std::array<std::pair<const char*, std::size_t>, 3> shown = {
      {{"nearest to its target", 0}, {"median", records.size() / 2}, {"farthest", records.size() - 1}}};
  for (const auto& [name, place] : shown) {
    const Json& line = *records[place].line;
    const auto pair = [&](const char* a, const char* b) {
      return fmt::format("{} / {}", number(number_at(line, {a}), 3), number(number_at(line, {b}), 3));
    };
    table.add({name, number(number_at(line, {"state"}), 0), number(number_at(line, {"position"}), 0),
               fmt::format("{} → {}", in_quotes(text_at(line, "source_text")),
                           in_quotes(text_at(line, "destination_text"))),
               pair("p_student_source", "p_teacher_source"),
               pair("p_student_destination", "p_teacher_destination"), pair("target", "achieved")});
  }
  for (const PaperRow& row : paper_table("route-cases").rows)
    table.add({"paper, case " + row.name, kDash, number(row.values[0], 0),
               fmt::format("{} → {}", row.values[1], row.values[2]),
               fmt::format("{} / {}", number(row.values[3], 3), number(row.values[4], 3)), kDash,
               fmt::format("{} / {}", number(row.values[5], 3), number(row.values[6], 3))});
  block.words = fmt::format("Of {} routes, by how near the achieved change of log-odds comes to its target.",
                            records.size());
  block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> mechanism_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  const StrataColumn fidelity{"fidelity", "fidelity %", true}, leakage{"leakage", "leakage %", true},
      reduction{"deficit_reduction", "deficit reduction %", true},
      completion{"completion", "completion %", true};
  const bool asked_for = asked(view.results, "mechanism");
  std::vector<Block> blocks = shown_blocks({probed_arms_block(view, verdicts)}, asked_for);
  std::vector<Block> of_routeopd = {
      ladder_block(view, verdicts),
      strata_block(view, "mismatch", "routeopd by quartile of mismatch mass",
                   {fidelity, leakage, reduction, completion}, verdicts),
      strata_block(view, "entropy", "routeopd by quartile of the teacher's entropy",
                   {{"entropy", "entropy", false}, fidelity, leakage, reduction}, verdicts),
      strata_by_concentration(view), route_cases_block(view)};
  for (Block& block : shown_blocks(std::move(of_routeopd), asked_for && !left_out(view.results, "routeopd")))
    blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace routeopd::study
