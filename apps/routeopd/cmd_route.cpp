// routeopd route: the operator alone. JSONL of logits in, JSONL of routes, losses and gradients out.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "route_line.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/output_place.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/toml_settings.h"
#include "routeopd/table/text_table.h"

namespace routeopd::app {
namespace {

struct RouteArguments {
  std::string in = "-";
  OutArgument out{"-"};
  std::string recipe;
  std::string precision = "double";
  std::uint64_t seed = 42;
  bool table = false;
  Json objective;
  OutputFlags output;
};

// What is said of all lines at the end.
struct RouteSummary {
  std::int64_t states = 0;
  std::int64_t routed = 0;
  double mass = 0;
  double loss = 0;
};

RouteSettings settings_of(const RouteArguments& arguments) {
  RouteSettings settings;
  settings.seed = arguments.seed;
  settings.precision = choice_of<Precision>(Json(arguments.precision),
                                            {{"double", Precision::kDouble}, {"float", Precision::kFloat}});
  if (!arguments.recipe.empty()) {
    try {
      settings.objective = routing::objective_from(formats::toml_section(arguments.recipe, "objective"));
    } catch (const UserError& error) {
      throw UserError("{}: [objective] {}", arguments.recipe, error.what());
    }
  }
  settings.objective = routing::objective_from(arguments.objective, settings.objective);
  return settings;
}

// One row per pair; a state that is not routed has one row, too.
void add_rows(table::TextTable& table, const RouteLine& line, const Json& answer, std::int64_t number) {
  const auto text_of = [&](const Json& id) {
    const auto index = id.get<std::size_t>();
    return line.tokens.empty() ? id.dump() : fmt::format("{} \"{}\"", index, line.tokens[index]);
  };
  const auto probability = [&](const char* which, const Json& id) {
    const auto& ids = answer["ids"];
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == id) return fmt::format("{:.3f}", answer[which][i].get<double>());
    }
    return std::string("outside");
  };
  const std::string name = line.name.empty() ? fmt::format("line {}", number) : line.name;
  const std::string mass = fmt::format("{:.4f}", answer["mass"].get<double>());
  if (!answer["routed"].get<bool>() || answer["pairs"].empty()) {
    const std::string why = answer["routed"].get<bool>() ? "exact coupling" : "not routed";
    table.add(
        {name, mass, "", "", why, "", "", "", "", "", fmt::format("{:.5f}", answer["loss"].get<double>())});
    return;
  }
  bool first = true;
  for (const Json& pair : answer["pairs"]) {
    const Json& a = pair["source"];
    const Json& b = pair["destination"];
    table.add({first ? name : "", first ? mass : "",
               first ? fmt::format("{:.3f}", answer["concentration"].get<double>()) : "",
               first ? fmt::format("{:.3f}", answer["budget"].get<double>()) : "", text_of(a),
               probability("p_student", a) + ", " + probability("p_teacher", a), text_of(b),
               probability("p_student", b) + ", " + probability("p_teacher", b),
               fmt::format("{:+.3f}", pair["target"].get<double>()),
               fmt::format("{:+.3f}", pair["delta"].get<double>()),
               first ? fmt::format("{:.5f}", answer["loss"].get<double>()) : ""});
    first = false;
  }
}

table::TextTable route_table() {
  using table::Align;
  return table::TextTable({{"state", Align::kLeft},
                           {"M", Align::kRight},
                           {"c", Align::kRight},
                           {"B", Align::kRight},
                           {"from", Align::kLeft},
                           {"p_S, p_T", Align::kLeft},
                           {"to", Align::kLeft},
                           {"p_S, p_T", Align::kLeft},
                           {"target", Align::kRight},
                           {"moved", Align::kRight},
                           {"loss", Align::kRight}});
}

void route(const RouteArguments& arguments) {
  const RouteSettings settings = settings_of(arguments);
  const auto start = std::chrono::steady_clock::now();
  formats::JsonLines lines(arguments.in);
  const bool to_file = !arguments.out.is_stream();
  std::optional<OutputFile> file;
  if (to_file) file.emplace(arguments.out.path, arguments.out.overwrite);
  table::TextTable table = route_table();
  RouteSummary summary;
  {
    Progress progress("route", lines.bytes_total(), arguments.output.quiet);
    while (const std::optional<Json> json = lines.next()) {
      check_interrupt();
      RouteLine line;
      Json answer;
      try {
        line = parse_route_line(*json, settings);
        answer = route_answer(line, static_cast<std::uint32_t>(summary.states));
      } catch (const UserError& error) {
        throw UserError("{}: {}", lines.where(), error.what());
      }
      const std::string text = answer.dump() + '\n';
      if (to_file) {
        file->write(text);
      } else if (!arguments.table && !arguments.output.json) {
        std::cout << text;
      }
      if (arguments.table) add_rows(table, line, answer, lines.line());
      ++summary.states;
      summary.routed += answer["routed"].get<bool>() ? 1 : 0;
      summary.mass += answer["mass"].get<double>();
      summary.loss += answer["loss"].get<double>();
      progress.update(lines.bytes_read(), fmt::format("{} states", summary.states));
    }
  }
  check_interrupt();
  if (summary.states == 0) throw UserError("{}: no states; expected one JSON object per line", arguments.in);
  if (to_file) file->commit();

  if (arguments.table) std::cout << table.text();
  const auto n = static_cast<double>(summary.states);
  if (arguments.output.json) {
    std::cout << Json{{"states", summary.states},
                      {"routed", summary.routed},
                      {"mean_mass", summary.mass / n},
                      {"mean_loss", summary.loss / n}}
                     .dump()
              << '\n';
  } else if (!arguments.output.quiet && (to_file || arguments.table)) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::cerr << fmt::format("{} states, {} routed, mean mass {:.4f}, mean loss {:.5f}, {:.2f} s\n",
                             summary.states, summary.routed, summary.mass / n, summary.loss / n, seconds);
  }
  if (!std::cout.flush()) throw UserError("standard output: cannot be written");
}

}  // namespace

void add_route(CLI::App& app) {
  const auto arguments = std::make_shared<RouteArguments>();
  app.add_option("--in", arguments->in,
                 "States, JSONL: student_logits, teacher_logits, …; - is standard input")
      ->capture_default_str();
  add_out_option(app, arguments->out, "Routes, JSONL; - is standard output");
  app.add_option("--precision", arguments->precision, "double: the reference; float: the fast kernel")
      ->capture_default_str();
  app.add_option("--seed", arguments->seed, "Seed of the addressed random numbers")->capture_default_str();
  app.add_option("--recipe", arguments->recipe, "Take the [objective] section of this TOML file");
  app.add_flag("--table", arguments->table, "Print the routes as a table");
  add_output_flags(app, arguments->output);
  add_fields(app, routing::objective_fields(), arguments->objective);
  app.footer(
      "A line of the input may have its own \"options\": {…} with any of the names above; they win.\n\n"
      "Example:\n"
      "  routeopd route --in examples/states.jsonl --out routes.jsonl --k 8 --m 4 --table\n"
      "  echo '{\"student_logits\":[2,1,0], \"teacher_logits\":[0,1,2]}' | routeopd route");
  app.callback([arguments] { route(*arguments); });
}

}  // namespace routeopd::app
