// routeopd report: tables and figures from the files of runs and studies.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "command.h"
#include "progress.h"
#include "routeopd/base/output_place.h"
#include "routeopd/report/directory_report.h"
#include "routeopd/report/report_files.h"
#include "routeopd/study/study_report.h"

namespace routeopd::app {
namespace {

struct ReportArguments {
  std::vector<std::string> directories, suites;
  OutArgument out;
  std::string figures, tables, title;
  OutputFlags output;
};

// A directory that is named twice would count twice in the means over studies.
void check_directories(const std::vector<std::string>& directories) {
  std::set<std::filesystem::path> seen;
  for (const std::string& directory : directories)
    if (!seen.insert(std::filesystem::weakly_canonical(directory)).second)
      throw UserError("{}: is named twice; name each directory once", directory);
}

void run_report(const ReportArguments& arguments) {
  check_directories(arguments.directories);
  const OutputPlace page(arguments.out.path, arguments.out.overwrite);
  page.refuse_rows();
  report::Report made;
  report::WrittenReport written;
  {
    Progress progress("report", -1, arguments.output.quiet);
    progress.update(0, "reading");
    made = report::report_of(arguments.directories, arguments.title, study::study_reader(arguments.suites));
    progress.update(0, "drawing");
    written = report::write_report(
        made, {.page = page.path(), .figures = arguments.figures, .tables = arguments.tables});
  }
  if (arguments.output.json) {
    const Json answer = {{"page", arguments.out.path}, {"bytes", written.bytes},
                         {"charts", written.charts},   {"drawn", written.drawn},
                         {"trouble", written.trouble}, {"verdict", made.verdict},
                         {"missing", made.missing}};
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << fmt::format("{}: {} kB, {} of {} charts drawn", arguments.out.path,
                             (written.bytes + 999) / 1000, written.drawn, written.charts);
    if (!made.missing.empty())
      std::cout << fmt::format(", {} things missing or broken in the files", made.missing.size());
    std::cout << '\n';
    if (!written.trouble.empty()) std::cout << written.trouble << '\n';
  }
}

}  // namespace

void add_report(CLI::App& app) {
  const auto arguments = std::make_shared<ReportArguments>();
  app.add_option("directories", arguments->directories,
                 "Directories of runs, evaluations, probes, judgements and studies")
      ->required()
      ->expected(1, 1000);
  add_out_option(app, arguments->out, "The page, report.html")->required();
  app.add_option("--figures", arguments->figures,
                 "Directory for every figure as ID.vl.json, ID.svg and ID.png");
  app.add_option("--tables", arguments->tables, "Directory for every table as ID.md, ID.csv and ID.tex");
  app.add_option(
         "--suite", arguments->suites,
         "Suite of a study that its tables and figures of behaviour, dynamics and ablations are of, may "
         "be given again; without it all together, and each")
      ->allow_extra_args(false);
  app.add_option("--title", arguments->title, "Title of the page");
  add_output_flags(app, arguments->output);
  app.footer(
      "One page with what was run, tables and figures; it refers to nothing outside itself. Only files are "
      "read, and what is\n"
      "missing or broken in them is said on the page. Charts are drawn by vl-convert-python; without it the "
      "page has their\n"
      "data as tables. docs/report.md explains every figure.\n\n"
      "Examples:\n"
      "  routeopd report runs/routeopd runs/sampled_rkl --out report.html\n"
      "  routeopd report runs/study --out study.html --figures paper/figures --tables paper/tables\n"
      "  routeopd report runs/chains runs/lists --out both.html");
  app.callback([arguments] { run_report(*arguments); });
}

}  // namespace routeopd::app
