// routeopd decontaminate: which test problems a training file holds, and the file without them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "progress.h"
#include "routeopd/base/display.h"
#include "routeopd/base/output_place.h"
#include "routeopd/decontamination/decontaminate.h"
#include "routeopd/decontamination/record.h"
#include "routeopd/report/contamination.h"
#include "routeopd/report/contamination_hits.h"

namespace routeopd::app {
namespace {

struct DecontaminateArguments {
  decontamination::DecontaminateOptions options;
  std::vector<std::size_t> words = {8, 13};
  std::vector<std::size_t> characters = {50};
  std::string report;
  bool overwrite = false;
  table::TableFormat format = table::TableFormat::kText;
  OutputFlags output;
};

// 0 is no n-gram at all, for `--ngram 0`.
std::vector<decontamination::Measure> measures_of(const DecontaminateArguments& arguments) {
  std::vector<decontamination::Measure> measures;
  const auto add = [&](decontamination::Unit unit, const std::vector<std::size_t>& sizes) {
    for (const std::size_t n : sizes) {
      const auto same = [&](const decontamination::Measure& each) {
        return each.unit == unit && each.n == n;
      };
      if (n > 0 && std::none_of(measures.begin(), measures.end(), same)) measures.push_back({unit, n});
    }
  };
  add(decontamination::Unit::kWord, arguments.words);
  add(decontamination::Unit::kCharacter, arguments.characters);
  return measures;
}

// No file is written that is also read, and none is written twice.
void check_files(const DecontaminateArguments& arguments) {
  const decontamination::DecontaminateOptions& options = arguments.options;
  std::vector<std::pair<const char*, std::string>> written;
  if (!options.out.empty()) {
    if (options.out == "-") throw UserError("--out: expected a file, since its record is written beside it");
    written.emplace_back("--out", options.out);
    written.emplace_back("the record of --out", decontamination::record_path(options.out));
  }
  if (!arguments.report.empty()) written.emplace_back("--report", arguments.report);
  std::vector<std::string> read = options.tests;
  read.push_back(options.train);
  for (const auto& [name, file] : written) {
    for (const std::string& each : read) {
      std::error_code ignored;
      if (std::filesystem::equivalent(each, file, ignored))
        throw UserError("{}: {} is what is read; choose another name", name, file);
    }
  }
  const auto normal = [](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path));
  };
  if (!arguments.report.empty()) {
    for (std::size_t i = 0; i + 1 < written.size(); ++i) {
      if (normal(written[i].second) == normal(arguments.report))
        throw UserError("--report: {} is {}; choose another name", arguments.report, written[i].first);
    }
  }
}

void run_decontaminate(const DecontaminateArguments& arguments) {
  decontamination::DecontaminateOptions options = arguments.options;
  options.contamination.measures = measures_of(arguments);
  check_files(arguments);
  std::optional<OutputPlace> cleaned, hits;
  if (!options.out.empty()) {
    cleaned.emplace(options.out, arguments.overwrite).refuse_rows();
    const std::filesystem::path record = decontamination::record_path(cleaned->path().string());
    remove_abandoned(record.parent_path(), record.filename().string());
  }
  if (!arguments.report.empty()) hits.emplace(arguments.report, arguments.overwrite).refuse_rows();
  std::optional<report::HitReport> report;
  decontamination::HitSink sink;
  if (!arguments.report.empty()) {
    report.emplace(arguments.report);
    sink = [&](const decontamination::Contamination& all, const decontamination::Hit& hit,
               const decontamination::ProblemLine& row) { report->add(all, hit, row); };
  }
  decontamination::Decontamination result;
  {
    const std::int64_t passes = options.out.empty() ? 1 : 2;
    std::error_code ignored;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(options.train, ignored));
    Progress progress("decontaminate", passes * size, arguments.output.quiet);
    std::int64_t before = 0, last = 0;  // bytes of the passes before this one; of this one
    result = decontamination::decontaminate(options, sink, [&](std::int64_t done, std::int64_t total) {
      if (done < last) before += total;
      last = done;
      progress.update(before + done,
                      fmt::format("{} of {}", byte_text(before + done), byte_text(passes * total)));
    });
  }
  if (report) report->finish();
  if (arguments.output.json) {
    std::cout << decontamination::json_of(result).dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else if (!arguments.output.quiet) {
    std::cout << report::decontamination_report(result, options, arguments.format);
  }
  if (!std::cout.flush()) throw UserError("standard output: cannot be written");
}

}  // namespace

void add_decontaminate(CLI::App& app) {
  const auto arguments = std::make_shared<DecontaminateArguments>();
  decontamination::DecontaminateOptions& options = arguments->options;
  app.add_option("--train", options.train, "Training problems, JSONL")->required();
  app.add_option("--test", options.tests, "Files of test problems, JSONL")->required()->expected(1, 1000);
  app.add_option("--out", options.out,
                 "The cleaned training file; a record of what was checked goes beside it");
  app.add_option("--report", arguments->report,
                 "Every hit with both texts: a page where the name ends in .html, else JSON lines");
  add_overwrite_flag(app, arguments->overwrite);
  const CLI::Range sizes(std::size_t{0}, decontamination::kLargestGram);
  app.add_option("--ngram", arguments->words, "Sizes of word n-grams; 0: none")
      ->expected(1, 16)
      ->check(sizes)
      ->capture_default_str();
  app.add_option("--chars", arguments->characters, "Sizes of character n-grams; 0: none")
      ->expected(1, 16)
      ->check(sizes)
      ->capture_default_str();
  app.add_option("--coverage", options.contamination.coverage,
                 "A row with this share of a problem's n-grams, of any size, is contaminated")
      ->check(between(1e-6, 1))
      ->capture_default_str();
  app.add_flag("--keep-duplicates", options.keep_duplicates,
               "Keep rows that equal an earlier one once both are normalised");
  app.add_flag("--keep-conflicts", options.keep_conflicts,
               "Keep groups of equal rows whose answers differ (their duplicates are removed as others are)");
  add_table_flags(app, arguments->format);
  add_output_flags(app, arguments->output);
  app.footer(
      "Removes training rows that equal a test problem, raw or normalised (lower case, word characters\n"
      "alone), or hold enough of its n-grams; then groups of equal rows whose answers differ; then all but\n"
      "the first of equal rows. The lines that stay are not changed. docs/decontamination.md has the rules\n"
      "and what they find.\n\n"
      "Example:\n"
      "  routeopd decontaminate --train prompts.jsonl --test math500.jsonl amc23.jsonl \\\n"
      "    --out clean.jsonl --report hits.html");
  app.callback([arguments] { run_decontaminate(*arguments); });
}

}  // namespace routeopd::app
