// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/decontaminate.h"

#include <algorithm>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/decontamination/record.h"

namespace routeopd::decontamination {
namespace {

constexpr std::int64_t kWatchRows = 256;  // the watch is called once per so many rows

class Run {
 public:
  Run(const DecontaminateOptions& options, const HitSink& sink, const ReadWatch& watch)
      : options_(options), sink_(sink), watch_(watch), contamination_(options.contamination) {
    for (const std::string& file : options.tests) {
      TestCounts counts;
      counts.file = file;
      counts.sha256 = sha256_of_file(file);
      contamination_.add_test_file(file);
      result_.tests.push_back(std::move(counts));
    }
    result_.train = options.train;
    result_.train_sha256 = sha256_of_file(options.train);
  }

  Decontamination make() {
    look();
    count_problems();
    decide();
    if (!options_.out.empty()) write();
    return std::move(result_);
  }

 private:
  void look() {
    ProblemLines lines(options_.train);
    std::vector<bool> hit_file(result_.tests.size());
    while (const std::optional<ProblemLine> line = lines.next()) {
      const RowText row(line->text);
      result_.normalised_sha256 = sha256(result_.normalised_sha256 + row.normal.text);
      raw_.add(row.raw, line->answer);
      group_.push_back(normalised_.add(row.normalised, line->answer));
      const std::span<const Hit> hits = contamination_.check(row);
      contaminated_.push_back(!hits.empty());
      hit_file.assign(hit_file.size(), false);
      for (const Hit& hit : hits) {
        hit_file[hit.problem->file] = true;
        if (sink_) sink_(contamination_, hit, *line);
      }
      for (std::size_t f = 0; f < hit_file.size(); ++f) result_.tests[f].rows += hit_file[f] ? 1 : 0;
      tell(lines);
    }
    if (lines.count() == 0)
      throw UserError("{}: no problems; expected one JSON object per line", options_.train);
    result_.rows = lines.count();
    result_.unique_raw = static_cast<std::int64_t>(raw_.groups());
    result_.unique_normalised = static_cast<std::int64_t>(normalised_.groups());
    result_.conflicts_raw = raw_.conflicts();
    result_.conflicts_normalised = normalised_.conflicts();
  }

  void tell(const ProblemLines& lines) const {
    check_interrupt();  // a row that shares n-grams with thousands of problems takes long
    if (lines.count() % kWatchRows != 0) return;
    if (watch_) watch_(lines.bytes_read(), lines.bytes_total());
  }

  void count_problems() {
    const ContaminationOptions& asked = options_.contamination;
    for (TestCounts& test : result_.tests) {
      for (const Measure& measure : asked.measures)
        test.measures.push_back({.measure = measure, .any = 0, .covered = 0, .too_short = 0});
    }
    for (std::size_t p = 0; p < contamination_.problems().size(); ++p) {
      const TestProblem& problem = contamination_.problems()[p];
      TestCounts& test = result_.tests[problem.file];
      ++test.problems;
      test.raw += problem.raw ? 1 : 0;
      test.normalised += problem.normalised ? 1 : 0;
      for (std::size_t m = 0; m < asked.measures.size(); ++m) {
        test.measures[m].any += problem.coverage[m] > 0 ? 1 : 0;
        test.measures[m].covered += problem.coverage[m] >= asked.coverage ? 1 : 0;
        test.measures[m].too_short += contamination_.too_short(p, m) ? 1 : 0;
      }
    }
  }

  // Rows of one group have one normal form, so that a hit of one
  // is a hit of all, and a kept row is its group's first.
  void decide() {
    for (std::size_t row = 0; row < group_.size(); ++row) {
      const std::uint32_t group = group_[row];
      if (contaminated_[row]) {
        ++result_.contaminated;
      } else if (!options_.keep_conflicts && normalised_.conflicting(group)) {
        ++result_.conflicting;
      } else if (!options_.keep_duplicates && normalised_.first_row(group) != row) {
        ++result_.duplicates;
      } else {
        ++result_.kept;
        kept_.push_back(true);
        continue;
      }
      kept_.push_back(false);
    }
  }

  void write() {
    AtomicFile out(options_.out);
    ProblemLines lines(options_.train);
    std::size_t row = 0;
    while (lines.next()) {
      if (row < kept_.size() && kept_[row]) {
        out.write(lines.line());
        out.write("\n");
      }
      ++row;
      tell(lines);
    }
    if (sha256_of_file(options_.train) != result_.train_sha256)
      throw UserError("{}: changed while it was read; nothing was written", options_.train);
    for (const TestCounts& test : result_.tests) {
      if (sha256_of_file(test.file) != test.sha256)
        throw UserError("{}: changed while it was read; nothing was written", test.file);
    }
    // The record first: where the file is there, so is its record.
    result_.out_sha256 = out.sha256();
    write_record(options_, result_);
    out.commit();
  }

  const DecontaminateOptions& options_;
  const HitSink& sink_;
  const ReadWatch& watch_;
  Contamination contamination_;
  Decontamination result_;
  RowGroups raw_, normalised_;
  // By row.
  std::vector<std::uint32_t> group_;
  std::vector<bool> contaminated_, kept_;
};

}  // namespace

Json json_of(const ContaminationOptions& options) {
  Json words = Json::array(), characters = Json::array();
  for (const Measure& measure : options.measures)
    (measure.unit == Unit::kWord ? words : characters).push_back(measure.n);
  return {{"words", words}, {"characters", characters}, {"coverage", options.coverage}};
}

Json json_of(const Decontamination& result) {
  Json tests = Json::array();
  for (const TestCounts& test : result.tests) {
    Json measures = Json::object();
    for (const MeasureCounts& counts : test.measures)
      measures[counts.measure.name()] = {
          {"any", counts.any}, {"covered", counts.covered}, {"too_short", counts.too_short}};
    tests.push_back({{"file", test.file},
                     {"sha256", test.sha256},
                     {"problems", test.problems},
                     {"raw", test.raw},
                     {"normalised", test.normalised},
                     {"ngrams", measures},
                     {"rows", test.rows}});
  }
  Json json = {{"train",
                {{"file", result.train},
                 {"sha256", result.train_sha256},
                 {"normalised_sha256", result.normalised_sha256},
                 {"rows", result.rows},
                 {"unique_raw", result.unique_raw},
                 {"unique_normalised", result.unique_normalised},
                 {"conflicts_raw", result.conflicts_raw},
                 {"conflicts_normalised", result.conflicts_normalised}}},
               {"tests", tests},
               {"removed",
                {{"contaminated", result.contaminated},
                 {"conflicting", result.conflicting},
                 {"duplicates", result.duplicates}}},
               {"kept", result.kept}};
  if (!result.out_sha256.empty()) json["sha256"] = result.out_sha256;
  return json;
}

Decontamination decontaminate(const DecontaminateOptions& options, const HitSink& sink,
                              const ReadWatch& watch) {
  return Run(options, sink, watch).make();
}

}  // namespace routeopd::decontamination
