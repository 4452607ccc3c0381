// routeopd bench: our speed as ratios. Every ratio is of two things measured in turn in this run, after a
// check that they give the same answer.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "bench.h"
#include "command.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/output_place.h"
#include "routeopd/base/system.h"
#include "routeopd/table/text_table.h"

namespace routeopd::app {
namespace {

struct BenchArguments {
  BenchOptions options;
  bool quick = false;
  OutArgument out;
  OutputFlags output;
};

std::string ratio_text(const Ratio& ratio) {
  const double value = ratio.ratio();
  return !ratio.at_least && value < 0.02 ? fmt::format("1/{:.0f}", 1 / value) : fmt::format("{:.3f}", value);
}

std::string target_text(const Ratio& ratio) {
  const bool fraction = !ratio.at_least && ratio.target < 0.01;
  return fmt::format(
      "{} {}", ratio.at_least ? ">=" : "<=",
      fraction ? fmt::format("1/{:.0f}", 1 / ratio.target) : fmt::format("{:.3g}", ratio.target));
}

std::string table_text(const std::vector<Ratio>& ratios) {
  using table::Align;
  table::TextTable table({{"#", Align::kLeft},
                          {"ours / other", Align::kLeft},
                          {"shape", Align::kLeft},
                          {"threads", Align::kRight},
                          {"ours", Align::kRight},
                          {"other", Align::kRight},
                          {"", Align::kLeft},
                          {"ratio", Align::kRight},
                          {"target", Align::kRight},
                          {"", Align::kLeft}});
  for (const Ratio& ratio : ratios) {
    table.add({ratio.id, ratio.what, ratio.shape, std::to_string(ratio.threads),
               fmt::format("{:.4g}", ratio.ours), fmt::format("{:.4g}", ratio.other), ratio.unit,
               ratio_text(ratio), target_text(ratio), ratio.met() ? "met" : "missed"});
  }
  return table.text();
}

Json json_of(const Bench& bench) {
  Json rows = Json::array();
  for (const Ratio& ratio : bench.ratios()) {
    rows.push_back({{"id", ratio.id},
                    {"what", ratio.what},
                    {"shape", ratio.shape},
                    {"threads", ratio.threads},
                    {"ours", ratio.ours},
                    {"other", ratio.other},
                    {"unit", ratio.unit},
                    {"ratio", ratio.ratio()},
                    {"target", ratio.target},
                    {"at_least", ratio.at_least},
                    {"met", ratio.met()},
                    {"check", ratio.check}});
  }
  return {{"cpu", cpu_model()},
          {"kernels", kernel_target()},
          {"cores", std::thread::hardware_concurrency()},
          {"rounds", bench.options().rounds},
          {"tokens", bench.options().tokens},
          {"ratios", rows}};
}

void run_bench(BenchArguments arguments) {
  if (arguments.quick) {
    arguments.options.tokens = 256;
    arguments.options.rounds = 3;
  }
  std::optional<OutputFile> file;  // a place that cannot be written is told before the work
  if (!arguments.out.path.empty()) file.emplace(arguments.out.path, arguments.out.overwrite);
  if (arguments.options.threads == 0) arguments.options.threads = at::get_num_threads();
  Bench bench(arguments.options, arguments.output.quiet);
  bench.say(fmt::format("{}, kernels for {}, {} thread(s)", cpu_model(), kernel_target(),
                        arguments.options.threads));
  bench_routing(bench);
  bench_scoring(bench);
  bench_load(bench);
  bench_learner_heads(bench);
  bench_training(bench);

  if (bench.ratios().empty())
    throw UsageError("--only: no such ratio; the ids are R, 1, 1b, 2, 2m, 3, 4, 5, 6, 6b, 10, 11 and L");
  const Json result = json_of(bench);
  if (file) {
    file->write(result.dump(2) + '\n');
    file->commit();
  }
  std::cout << (arguments.output.json ? result.dump() + '\n' : table_text(bench.ratios()));
}

}  // namespace

Bench::Bench(const BenchOptions& options, bool quiet) : options_(options), quiet_(quiet) {}

bool Bench::wants(const std::string& id) const {
  return options_.only.empty() ||
         std::find(options_.only.begin(), options_.only.end(), id) != options_.only.end();
}

void Bench::say(const std::string& what) {
  if (!quiet_) std::cerr << "bench: " << what << std::endl;
}

std::vector<double> interleaved_medians(int rounds, const std::vector<std::function<void()>>& sides) {
  std::vector<std::vector<double>> times(sides.size());
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t side = 0; side < sides.size(); ++side) {
      check_interrupt();
      const auto start = std::chrono::steady_clock::now();
      sides[side]();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (round >= 0) times[side].push_back(seconds);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& seconds : times) {
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                     seconds.end());
    medians.push_back(seconds[seconds.size() / 2]);
  }
  return medians;
}

std::string agreed(const std::string& what, double difference, double allowed) {
  if (!(difference <= allowed)) {
    throw UserError("bench: {} differs by {:.3g}, {:.3g} allowed: the two sides do not do the same work",
                    what, difference, allowed);
  }
  return fmt::format("{} {:.2g}", what, difference);
}

void add_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  app.add_option("--only", arguments->options.only, "Only these ratios, such as 1 or 5,6")->delimiter(',');
  app.add_option("--tokens", arguments->options.tokens, "Tokens of the learner's heads")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--rounds", arguments->options.rounds, "Times each side runs; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--threads", arguments->options.threads, "Threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--quick", arguments->quick, "256 tokens and 3 rounds: for a look, not for a claim");
  add_out_option(app, arguments->out, "Write the result as JSON to this file, too");
  add_output_flags(app, arguments->output);
  app.footer(
      "What each ratio means and its target: docs/performance.md. The full run takes about ten minutes and 8 "
      "GB.\n\n"
      "Example:\n"
      "  routeopd bench --out bench.json\n"
      "  routeopd bench --only 5,6b --rounds 9");
  app.callback([arguments] { run_bench(*arguments); });
}

}  // namespace routeopd::app
