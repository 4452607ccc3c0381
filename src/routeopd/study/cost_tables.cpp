// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/cost_tables.h"

#include <fmt/format.h>

#include "routeopd/study/effects.h"
#include "routeopd/study/paper_numbers.h"

namespace routeopd::study {
namespace {

std::string setting_cell(const Json& entry, const char* key) {
  if (const std::optional<std::int64_t> value = whole_at(entry, key)) return std::to_string(*value);
  const std::string text = text_at(entry, key);
  return text.empty() ? kDash : visible(text.substr(0, 20));
}

bool paper_has(const char* id, const std::string& row) {
  for (const PaperRow& each : paper_table(id).rows)
    if (each.name == row) return true;
  return false;
}

// The paper's row with the same k and m; for another m at this study's own k, the paper's own k of 32.
std::string paper_row(const StudyView& view, const char* id, const std::string& k, const std::string& m) {
  const std::string exact = fmt::format("k{} m{}", k, m);
  const Json options =
      view.results.manifest.is_object() ? view.results.manifest.value("options", Json()) : Json();
  const bool own_k = setting_cell(options, "k") == k && m != "2";
  return paper_has(id, exact) ? exact : own_k ? fmt::format("k32 m{}", m) : exact;
}

std::string ratio(const Json& entry, const char* key) {
  const auto mean = number_at(entry, {key, "mean"}), low = number_at(entry, {key, "low"}),
             high = number_at(entry, {key, "high"});
  if (!mean || !low || !high) return number(mean, 3);
  return fmt::format("{} [{}, {}]", number(mean, 3), number(low, 3), number(high, 3));
}

// The arm that ratios are to: sampled_rkl in its lean form, or the plain one in files that have no other.
std::string reference_of(const Json& cost) {
  const std::string said = text_at(cost, "reference");
  return said.empty() ? "sampled_rkl" : said;
}

// To those of the reference.
std::optional<double> relative_calls(const Json& cost, const Json& entry) {
  const std::optional<double> own = number_at(entry, {"teacher_calls"});
  for (const Json& each : list_at(cost, "arms")) {
    const std::optional<double> reference = number_at(each, {"teacher_calls"});
    if (text_at(each, "name") == reference_of(cost) && own && reference && *reference > 0)
      return *own / *reference;
  }
  return std::nullopt;
}

Block cost_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("cost", "A step's time and memory");
  TextTable table =
      number_table({"arm", "k", "m", "ms per step", "learner ms", "tokens/s", "peak MB",
                    "relative teacher calls", "relative time [95 %]", "relative learner time [95 %]",
                    "paper s per step", "paper learner s", "paper tokens/s", "paper peak GB",
                    "paper teacher calls", "paper relative time", "paper relative learner time"});
  const std::string compared = reference_of(view.results.cost);
  for (const Json& entry : list_at(view.results.cost, "arms")) {
    const std::string name = text_at(entry, "name");
    if (name.empty()) continue;
    const std::string k = setting_cell(entry, "k"), m = setting_cell(entry, "m");
    // The paper's sampled-RKL is the one that ratios are to.
    const std::string row = name.starts_with("routeopd") ? paper_row(view, "cost", k, m)
                            : name == compared           ? "sampled_rkl"
                            : name == "sampled_rkl"      ? ""
                                                         : name;
    const auto thousand = [&](const char* stage) {
      const std::optional<double> seconds = number_at(entry, {"seconds", stage});
      return number(seconds ? std::optional(1000 * *seconds) : std::nullopt, 1);
    };
    const std::optional<double> bytes = number_at(entry, {"peak_bytes"});
    const std::optional<double> learner = paper_number("cost", row, "learn");
    const double reference = *paper_number("cost", "sampled_rkl", "learn");
    table.add({visible(name), k, m, thousand("total"), thousand("learner"),
               number(number_at(entry, {"tokens_per_second"}), 0),
               number(bytes ? std::optional(*bytes / 1e6) : std::nullopt, 0),
               number(relative_calls(view.results.cost, entry), 2), ratio(entry, "relative_total"),
               ratio(entry, "relative_learner"), paper_cell("cost", row, "total", 1), number(learner, 1),
               paper_cell("cost", row, "tokens_per_second", 0), paper_cell("cost", row, "peak", 1),
               paper_cell("cost", row, "teacher_calls", 2), paper_cell("cost", row, "relative", 3),
               number(learner ? std::optional(*learner / reference) : std::nullopt, 3)});
    const std::optional<double> there = paper_number("cost", row, "relative");
    const auto mean = number_at(entry, {"relative_total", "mean"}),
               low = number_at(entry, {"relative_total", "low"}),
               high = number_at(entry, {"relative_total", "high"});
    const bool told =
        name == "routeopd" || name == "full_rkl" || name == "full_fkl" || name == "routeopd-kfull";
    if (told && there && mean && low && high)
      verdicts.push_back({.effect = fmt::format("time of a step, {} to {}", visible(name), visible(compared)),
                          .paper = fmt::format("{} times", number(there, 3)),
                          .here = fmt::format("{} times", ratio(entry, "relative_total")),
                          .outcome = name_of(outcome_of(*there - 1, {*mean - 1, *low - 1, *high - 1}))});
  }
  if (table.rows().empty()) {
    block.missing.emplace_back("The study has no readable measurement of cost.");
    return block;
  }
  say(block.words,
      fmt::format("Times are medians of {} interleaved rounds; ratios are geometric means of "
                  "those to {} in the "
                  "same round, with t intervals of their logarithms. The learner's time includes "
                  "the making of routes.",
                  number(number_at(view.results.cost, {"rounds"}), 0), visible(compared)));
  if (compared != "sampled_rkl")
    say(block.words,
        fmt::format("{} scores the tokens taken alone, without top-k and routes, as one would "
                    "run it by itself; all other rows are as the study runs them, with everything "
                    "recorded.",
                    visible(compared)));
  block.table = std::move(table);
  return block;
}

// How often a part takes as long at one (k, m) as at another.
struct RouteShape {
  std::string k, m;
};
void add_growth_verdict(const StudyView& view, const char* key, const char* what, const RouteShape& from,
                        const RouteShape& to, std::vector<Verdict>& verdicts) {
  const auto here = [&](const RouteShape& shape) -> std::optional<double> {
    for (const Json& entry : list_at(view.results.cost, "routes"))
      if (setting_cell(entry, "k") == shape.k && setting_cell(entry, "m") == shape.m)
        return number_at(entry, {key});
    return std::nullopt;
  };
  const auto paper = [&](const RouteShape& shape) {
    return paper_number("routes", fmt::format("k{} m{}", shape.k, shape.m), key);
  };
  const std::optional<double> low = here(from), high = here(to), paper_low = paper(from),
                              paper_high = paper(to);
  if (!low || !high || *low <= 0 || !paper_low || !paper_high) return;
  Verdict verdict = change_verdict(
      fmt::format("time of {} from k = {}, m = {} to k = {}, m = {}", what, from.k, from.m, to.k, to.m),
      {*paper_low, *paper_high}, {*low, *high}, kSignificant);
  verdict.paper = fmt::format("{} times", number(*paper_high / *paper_low, 1));
  verdict.here = fmt::format("{} times", number(*high / *low, 1));
  verdicts.push_back(std::move(verdict));
}

Block route_construction_block(const StudyView& view, std::vector<Verdict>& verdicts) {
  Block block = titled("route-construction", "Making the routes of a step, in milliseconds");
  TextTable table = number_table(
      {"k", "m", "top k", "routing", "pair gather", "paper top k", "paper routing", "paper pair gather"});
  for (const Json& entry : list_at(view.results.cost, "routes")) {
    const std::string k = setting_cell(entry, "k"), m = setting_cell(entry, "m");
    const std::string row = paper_row(view, "routes", k, m);
    table.add({k, m, number(number_at(entry, {"top_k_ms"}), 2), number(number_at(entry, {"routing_ms"}), 2),
               number(number_at(entry, {"gather_ms"}), 2), paper_cell("routes", row, "top_k_ms", 1),
               paper_cell("routes", row, "routing_ms", 1), paper_cell("routes", row, "gather_ms", 1)});
  }
  if (table.rows().empty()) {
    block.missing.emplace_back("The study has no readable measurement of how routes are made.");
    return block;
  }
  add_growth_verdict(view, "top_k_ms", "top k", {"16", "2"}, {"64", "2"}, verdicts);
  add_growth_verdict(view, "gather_ms", "the gather of pairs", {"32", "1"}, {"32", "8"}, verdicts);
  say(block.words,
      "The paper's steps are of other sizes and on other machines: what can be compared is how the parts "
      "grow with k and m.");
  block.table = std::move(table);
  return block;
}

}  // namespace

std::vector<Block> cost_blocks(const StudyView& view, std::vector<Verdict>& verdicts) {
  return shown_blocks({cost_block(view, verdicts), route_construction_block(view, verdicts)},
                      asked(view.results, "cost"));
}

}  // namespace routeopd::study
